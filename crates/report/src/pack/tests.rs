//! Tests of the report of packing.

use super::*;
use crate::style::columns;

fn packed() -> PackReport {
    PackReport {
        command: vec!["./barriers".into()],
        cpus: "0-1".into(),
        slots: 2,
        slots_ns: 2 * 1_610_000_000,
        threads: 3,
        wall_ns: 1_610_000_000,
        rotating_ns: 1_500_000_000,
        period_ns: 500_000,
        run_ns: 3_200_000_000,
        spinning: Some(0.0625),
        efficiency_without: Some(0.68),
        efficiency_without_low: Some(0.64),
        efficiency_without_high: Some(0.72),
        without_measured_ns: 160_000_000,
        efficiency_with: Some(0.93),
        exchanges: 4000,
        moves: 3214,
        own_ns: 50_000_000,
        restored: 3,
        ..PackReport::default()
    }
}

#[test]
fn the_bound_is_the_useful_time_on_all_slots() {
    assert_eq!(packed().bound_ns(), 1_500_000_000);
    assert_eq!(packed().without_ns(), Some((2_083_333_333, 2_343_750_000)));
    let long = PackReport { without_measured_ns: 40_000_000, ..packed() };
    assert_eq!(long.without_ns(), None, "that was 2.5 % of the run");
    assert!(long.text(&Style::default()).contains("Threads changed their CPUs at the end of 4,000 periods"));
    let text = packed().text(&Style::default());
    for part in [
        "3 threads packed on CPUs 0-1",
        "period 0.5 ms",
        "Efficiency 93 %: 1.61 s, lower bound 1.50 s",
        "would have taken 2.08 s to 2.34 s",
        "3,214 moves",
        "3.1 % of one CPU",
        "masks restored",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

/// 3 s of 4 s rotated with efficiency 0.80; the other second stays.
#[test]
fn fewer_threads_need_the_useful_time_only() {
    let rotated = PackReport {
        wall_ns: 4_000_000_000,
        slots_ns: 8_000_000_000,
        run_ns: 6_000_000_000,
        rotating_ns: 3_000_000_000,
        efficiency_with: Some(0.8),
        ..packed()
    };
    let (least_ns, most_ns) = rotated.fewer_ns().unwrap();
    assert!(least_ns.abs_diff(3_400_000_000) < 10 && most_ns.abs_diff(3_688_000_000) < 10, "{least_ns} {most_ns}");
    // The last periods were worse than the run.
    let late = PackReport { efficiency_with: Some(0.5), ..rotated.clone() };
    assert_eq!(late.fewer_ns().map(|(least_ns, _)| least_ns), Some(late.bound_ns()));
    let told = |report: &PackReport| report.text(&Style::default()).contains("With 2 threads, one for each CPU");
    assert!(told(&rotated));
    assert!(!told(&packed()), "an efficiency of 0.93 may be what a thread for each CPU has");
    let repacked = vec![Repacked { after_ns: 1, cpus: "0-2".into() }];
    for none in [
        PackReport { rotating_ns: 0, ..rotated.clone() },
        PackReport { efficiency_with: None, ..rotated.clone() },
        PackReport { others: Some(0.2), ..rotated.clone() },
        PackReport { repacked, ..rotated },
    ] {
        assert_eq!(none.fewer_ns(), None, "{none:?}");
    }
}

#[test]
fn a_poor_efficiency_on_a_machine_that_others_held_is_explained() {
    let other = |comm: &str, run_ns| OtherProgram { comm: comm.into(), run_ns };
    let other_programs = vec![other("hog", 1_380_000_000), other("apt", 20_000_000), other("cron", 1)];
    let beside = |others| (Some(others), Some(confidence_beside(others)));
    let (others, confidence) = beside(0.82);
    let report = PackReport { run_ns: 480_000_000, others, confidence, other_programs, ..packed() };
    let text = report.text(&Style::default());
    assert!(text.contains("Efficiency 14 %: "), "{text}");
    let named =
        "Other programs had 82 % of these CPUs, hog 1.38 s, then apt; in the remaining time, efficiency was 78 %";
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(named) && text.contains("Confidence low"), "{text}");
    assert_eq!(serde_json::to_value(&report).unwrap()["confidence"], "low");
    let (others, confidence) = beside(0.2);
    let seen = PackReport { other_programs_at_most: true, others, confidence, ..report };
    let text = seen.text(&Style::default());
    assert!(text.contains("hog at most 1.38 s") && text.contains("Confidence medium"), "{text}");
    let text = PackReport { other_programs: vec![], ..seen }.text(&Style::default());
    assert!(text.contains("CPUs (names not seen)"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    let (others, confidence) = beside(0.03);
    let quiet = PackReport { others, confidence, ..packed() }.text(&Style::default());
    assert!(!quiet.contains("Other programs") && !quiet.contains("Confidence"), "{quiet}");
    // Ticks of the kernel say nothing about some milliseconds.
    assert_eq!((others_share(9, 10, 50_000_000), others_share(9, 10, 100_000_000)), (None, Some(0.9)));
}

#[test]
fn what_was_not_seen_is_said_and_is_no_diagnostic_about_masks() {
    let report = PackReport {
        backend: Some(Backend::Proc),
        passed_over: Some("no CAP_BPF".into()),
        unread: vec!["process 7: why".into()],
        ..packed()
    };
    let text = report.text(&Style::default());
    for part in ["Observed through /proc", "eBPF not used: no CAP_BPF", "barriers: process 7: why", "masks restored"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let long = PackReport { passed_over: Some("needs a right that this user lacks; ".repeat(9)), ..packed() };
    let text = long.text(&Style::default());
    assert!(text.lines().all(|line| columns(line) <= 100), "{text}");
    let bpf = PackReport { backend: Some(Backend::Bpf), ..packed() };
    assert!(!bpf.text(&Style::default()).contains("Observed through"));
}

#[test]
fn a_program_that_was_only_watched_is_not_called_packed() {
    let few = PackReport {
        only_watched: true,
        rotating_ns: 0,
        period_ns: 0,
        spinning: None,
        moves: 0,
        backend: Some(Backend::Proc),
        ..packed()
    };
    let text = few.text(&Style::default());
    for part in ["on CPUs 0-1, as with taskset", "Packing did not begin", "0 moves", "masks restored"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["threads packed", "in loops", "Observed through", "would have taken"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    let free = PackReport { profiles: 3, ..few.clone() };
    let text = free.text(&Style::default());
    assert!(text.contains("no gain in sight") && text.contains("in 3 profiles"), "{text}");
    assert!(!text.contains("no more threads"), "{text}");
    let brief = PackReport { short_bursts: 3, ..few.clone() };
    let text = brief.text(&Style::default());
    assert!(text.contains("no gain in sight") && text.contains("yielded too often to gain"), "{text}");
    let failed = PackReport { diagnostics: vec!["cannot load the BPF programs".into()], ..few };
    let text = failed.text(&Style::default());
    assert!(text.contains("as with taskset · not packed") && text.contains("did not begin: see below"), "{text}");
    assert!(!text.contains("saw no more threads") && text.contains("not done: cannot load"), "{text}");
}

#[test]
fn as_a_section_it_says_the_same_within_the_width() {
    let style = Style::default();
    let report = PackReport { diagnostics: vec!["a\u{1b}[2J".into()], ..packed() };
    let section = report.section(&style);
    assert_eq!(section[0], "  3 threads packed on CPUs 0-1 · threads wait in loops, period 0.5 ms");
    assert!(section.iter().all(|line| columns(line) <= style.columns()), "{section:?}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let alone = report.text(&style);
    let alone = alone.strip_prefix("cox: ./barriers · ").unwrap();
    assert_eq!(words(&section.join(" ")), words(alone));
}

#[test]
fn a_runtime_that_spins_is_named_with_its_remedy() {
    let spinning = |library| SpinningRuntime::of_libgomp(4711, 8, library);
    let spinning_runtimes = vec![spinning(Some("/lib/x.so"))];
    let text = PackReport { spinning_runtimes, spin_throttled: 1, ..packed() }.text(&Style::default());
    for part in [
        "libgomp of process 4711 counted 8 CPUs when it started. It still spins for milliseconds",
        "OMP_WAIT_POLICY=passive, or with LD_PRELOAD=/lib/x.so.",
        "libgomp of 1 process counted more CPUs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    assert!(!spinning(None).remedy.contains("LD_PRELOAD"));
    assert!(!packed().text(&Style::default()).contains("libgomp"));
}

#[test]
fn a_pack_whose_cpus_changed_has_the_time_of_all_of_them() {
    let repacked = vec![Repacked { after_ns: 610_000_000, cpus: "0-2".into() }];
    let report = PackReport { cpus: "0-2".into(), slots: 3, slots_ns: 4_220_000_000, repacked, ..packed() };
    // 3 s of useful time, of the 4.22 s that two and then three CPUs had.
    assert_eq!(report.bound_ns(), 1_144_549_763);
    let text = report.text(&Style::default());
    assert!(text.contains("Changed to CPUs 0-2 after 0.61 s"), "{text}");
    assert!(text.contains("the threads' work on the pack's CPUs"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn where_nothing_was_to_win_it_says_so() {
    let text = PackReport { rotating_ns: 0, period_ns: 0, ..packed() }.text(&Style::default());
    assert!(text.contains("could gain nothing"), "{text}");
    assert!(text.contains("3,214"));
}
