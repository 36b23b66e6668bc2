//! What the text of `cox noise` looks like.

mod noise_sample;

use noise_sample::{measured, of_ftq, ticks};
use report::noise::text;
use report::style::Style;

#[test]
fn fixed_time_quanta_say_what_is_lost_and_what_is_periodic() {
    insta::assert_snapshot!(text(&of_ftq(), &Style::default()), @r#"
    cox: noise on CPU 1 · fixed time quanta of 1.0 ms, 2.00 s · threshold 100 ns · counter 2.000 GHz
         (±3.0 ppm)

      CPU 1: 0.21 % of the work is lost, at most 42.0 % of a quantum · 2,000 quanta · periodic: 250.0 Hz
          (0.21 % of a quantum), 499.9 Hz (0.090 %)
      check: 1 of 1 counters of the kernel agree with the events
    "#);
}

#[test]
fn what_ticks_did_is_listed_if_they_did_different_things() {
    let mut report = measured("detour");
    report.cpus[0].ticks = ticks();
    insta::assert_snapshot!(text(&report, &Style::default()), @r#"
    cox: noise on CPU 1 · selfish detour, 2.00 s · threshold 100 ns · counter 2.000 GHz (±3.0 ppm)

      CPU 1: 3.377 % is stolen (33767 µs/s) · 500 detours, longest 4.0 ms · above 10 µs: 0.000 %, 0.0/s
          · caused 99 %, outside this kernel 1 %, unknown <1 %
      cause                                        rate/s  median     max     µs/s
      thread </title></svg><b onmouseover="x">(7)     7.5  4.0 ms  4.0 ms  30031.7
      timer tick                                      175   15 µs   30 µs   2691.6
      page fault                                      7.5   16 µs   29 µs    124.3
      timer: hrtimer_wakeup                           8.0   16 µs   28 µs    123.7
      kworker: vmstat_update                          7.5   16 µs   29 µs    120.7
      outside this kernel                             7.5   16 µs   30 µs    117.0
      unknown                                         7.5   15 µs   28 µs    115.2
      device interrupt 38 (virtio2-input.0)           7.5   17 µs   30 µs    114.8
      softirq SCHED                                   7.5   15 µs   28 µs    113.0
      IPI: TLB flush by java(991), munmap             7.5   13 µs   30 µs    111.1
      NMI: perf_event_nmi_handler                     7.5   14 µs   27 µs    103.8
      what silences it: timer tick: nohz_full=CPUS at boot
      what ticks did                        ticks  median     max   µs/s
      tick alone                              450  1.9 µs  9.0 µs  450.0
      tick + softirq SCHED + other threads     50  8.5 µs   15 µs  225.0
      check: 1 of 1 counters of the kernel agree with the events

      => Most is taken by: thread </title></svg><b onmouseover="x">(7) (89 % of the stolen time)
    "#);
    report.cpus[0].ticks.truncate(1);
    assert!(!text(&report, &Style::default()).contains("ticks did"), "all of them did the same");
    // Further groups are summed.
    report.cpus[0].ticks = [ticks(), ticks(), ticks()].concat();
    assert!(text(&report, &Style::default()).contains("2 combinations more: 675.0 µs/s"));
}

#[test]
fn documents_of_before_are_read() {
    let mut json = serde_json::to_value(measured("detour")).unwrap();
    let cpu = json["cpus"][0].as_object_mut().unwrap();
    for added in ["ticks", "lengths", "quanta", "steps", "until_barrier", "loss", "spectrum"] {
        assert!(cpu.remove(added).is_some(), "{added}");
    }
    let mut read: report::noise::NoiseReport = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(read, measured("detour"));
    json["cpus"][0].as_object_mut().unwrap().remove("listed_ns").unwrap();
    read = serde_json::from_value(json).unwrap();
    assert_eq!(read.cpus[0].listed_ns(), read.cpus[0].length_ns);
    assert_eq!(read.cpus[0].listed_seconds(), read.cpus[0].seconds());
    read.cpus[0].truncated = true;
    let (begin, length, _) = *read.cpus[0].detours.last().unwrap();
    assert_eq!(read.cpus[0].listed_ns(), begin + length);
}

/// Only the time whose detours are listed has causes, so their rates are of that time.
#[test]
fn a_full_list_explains_its_own_part_of_the_measurement() {
    let mut report = measured("detour");
    let whole = text(&report, &Style::default());
    let cpu = &mut report.cpus[0];
    cpu.truncated = true;
    cpu.listed_ns = 500_000_000;
    cpu.fine.count = 2_000;
    cpu.by_cause.iter_mut().for_each(|taken| taken.stolen_ns /= 4);
    let said = text(&report, &Style::default());
    let squeezed = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains("the first 0.50 s of 2.00 s are explained, with 500 detours"), "{said}");
    // The events of the tick are counted over all of the measurement; what has none, only as far as it is listed.
    let row = |text: &str, name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row(&said, "timer tick"), row(&whole, "timer tick"));
    assert_eq!((row(&whole, "unknown")[1].as_str(), row(&said, "unknown")[1].as_str()), ("7.5", "30.0"));
}

/// The host is blamed only where there is one, and only for what cannot be anything else.
#[test]
fn the_conclusion_names_the_host_only_of_a_virtual_machine() {
    let said = |measuring: &str, guest: Option<bool>| {
        let mut report = measured(measuring);
        report.measurement.guest = guest;
        report.cpus[0].by_cause.iter_mut().filter(|taken| taken.cause == 9).for_each(|taken| taken.stolen_ns *= 1_000);
        let text = text(&report, &Style::default());
        let conclusion = text[text.find("=> ").unwrap()..].to_owned();
        (text, conclusion.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    assert!(
        said("detour", Some(true))
            .1
            .ends_with("only the host of this virtual machine, or the firmware, can change that")
    );
    assert!(said("detour", Some(false)).1.ends_with("only the firmware or the processor itself can change that"));
    assert!(said("detour", None).1.contains("the host of a virtual machine, the firmware or the processor itself"));
    for measuring in ["fwq", "bsp"] {
        let (text, conclusion) = said(measuring, Some(true));
        assert!(!conclusion.contains("host"), "{conclusion}");
        assert!(text.contains("no interruption 1 %"), "{text}");
    }
}

#[test]
fn a_measurement_that_was_ended_says_its_real_length() {
    let mut report = measured("detour");
    report.measurement.length_ns = 60_000_000_000;
    report.measurement.ended_early = true;
    let text = text(&report, &Style::default());
    assert!(text.contains("2.00 s (ended early: 60.00 s were wanted)"), "{text}");
}

#[test]
fn a_clock_that_changed_its_rate_is_named() {
    let mut report = measured("detour");
    report.clock.changed_ppm = Some(0.254);
    let text = text(&report, &Style::default());
    assert!(
        text.contains("check: the clock's rate changed by 0.25 ppm: detours without an event are unknown"),
        "{text}"
    );
}
