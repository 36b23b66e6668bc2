//! What a report looks like.

mod sample;

use ledger::{Process, Sees};
use report::Style;
use report::text::text;

#[test]
fn a_parallel_make_is_shown_by_name() {
    insta::assert_snapshot!(text(&sample::make(), &Style::default()), @r#"
    cox: make -j4 · 241 processes, 241 threads · 10.00 s wall · exit 0
        eBPF, 5,000 events, 0 lost, own cost ≥ 0 ns, 0.0 % of one CPU

      Thread time: 64.2 s (241 threads) · on average 1.8 of 2 CPUs in use
      Parallel efficiency: 91 % of 2 CPUs
        28.3 %  did work
        26.3 %  waited for a CPU       preempted
        45.4 %  waited for children
      Nothing to gain from scheduling: 28 % of thread time did work, 0 % waited for other threads, 26 %
      for a CPU.
      The waiting cost little: 2 CPUs did work nearly all the time, and only more CPUs or less work
      would help.

      program       wall     work  preempted  blocked  switches v/i
      cc1 × 120  34.80 s  18.00 s    16.80 s   0.00 s           0/0
      sh × 120   19.44 s   0.12 s     0.12 s  19.20 s           0/0
      make × 1   10.00 s   0.03 s     0.00 s   9.97 s           0/0

      check: states sum to wall (worst 0.00 %)
    "#);
}

#[test]
fn threads_that_changed_their_user_are_named() {
    let mut document = sample::heat();
    let threads = &mut document.account.programs[0].processes[0].threads;
    threads[1].changed_user = true;
    let (tid, comm) = (threads[1].tid, threads[1].comm.clone());
    let text = text(&document, &Style::default());
    let line = format!("no longer observed after a change of user or new capabilities: {tid} {comm} (1 thread)");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn losses_left_behind_and_hostile_names() {
    insta::assert_snapshot!(text(&sample::troubled(), &Style::default()), @r#"
    cox: ./heat 4096 200 --a-long-option=w… · 2 processes, 7 threads · 12.41 s wall · exit 139 (SIGSEGV)
        eBPF, 812,440 events, 2,003 lost, own cost ≥ 40 ms, 0.3 % of one CPU

      Thread time: 49.6 s (7 threads) · on average 2.6 of 2 CPUs in use
      CPUs in use: 0 for 1.3 % of the time, 1 for 4.0 %, 2 for 94.7 %
      Parallel efficiency: 87 % of 2 CPUs
        43.4 %  did work                    of it 0.6 % hypervisor steal
        38.0 %  waited for other threads    spinning in libgomp.so.1.0.0 (gomp_team_barrier_wait_end)
                                            21.1 %, yielding 0.8 %, asleep on a futex 16.1 % (sampled,
                                            ±0.2)
        17.1 %  waited for a CPU            preempted 15.8 %, after wake-up 1.3 %
         1.2 %  blocked on disk
         0.3 %  not known                   time before the first and after the last event
      2,000 of 814,440 events were lost, 0 threads could not be tracked, and 3 threads could be included
      only in totals: that is too much for a verdict.
      According to the events, threads ran 31.99 s in 12.41 s on 2 CPUs, which is impossible: these
      figures are wrong, and there is no verdict.
      Of 49.64 s of thread time, 43 % did work, 38 % waited for other threads and 17 % for a CPU.

      thread            wall    work    spin  wake-delay  preempted  blocked  unknown  switches v/i
      4711 heat      12.41 s  5.41 s  2.60 s      0.16 s     2.06 s   2.15 s   0.03 s   1,204/2,811
      4712 ?[31mred  12.41 s  5.38 s  2.64 s      0.16 s     2.04 s   2.15 s   0.04 s   1,204/2,811
      4713 heat      12.41 s  5.37 s  2.61 s      0.16 s     2.08 s   2.15 s   0.04 s   1,204/2,811
      4720 温度d     12.41 s  5.37 s  2.61 s      0.16 s     2.08 s   2.15 s   0.04 s   1,204/2,811

      who took the CPU        time
      heat × 3 (siblings)  12.46 s
      87 kworker/u8:1       0.15 s
      CPU was idle           50 ms

      CPU  busy ours  others   idle  idle/waited  idle/blocked
        0     96.6 %   0.9 %  2.5 %       0.02 s        0.20 s
        1     96.9 %   0.8 %  2.3 %       0.03 s        0.20 s
      idle/waited: idle while a thread of the program waited for a CPU; idle/blocked: idle at other
        times while a thread of the program was off CPU

      4711 heat waits mostly for 4712 heat, whose wake-ups ended 100 % of 1.70 s of blocked time
      4712 ?[31mred waits mostly for 4712 heat, whose wake-ups ended 100 % of 1.70 s of blocked time
      4713 heat waits mostly for 4712 heat, whose wake-ups ended 100 % of 1.70 s of blocked time
      hot functions: heat_step (heat) 15.90 s, gomp_team_barrier_wait_end (libgomp.so.1.0.0, waiting)
        7.85 s
      check: states sum to wall (worst 0.00 %); run 31.99 s is MORE than the time of all CPUs (24.82 s)
        or of one CPU; kernel's run_delay agrees within 0.4 % of 8.86 s
      still running when the program ended: 4720 温度d (1 thread); their times are counted until then
      lost: 2,000 scheduler events not handled, 3 threads included only in totals, 4.0 ms of waiting
        behind programs whose names were not recorded
    "#);
}

#[test]
fn perf_on_a_terminal_without_utf8() {
    let style = Style { unicode: false, ..Style::default() };
    insta::assert_snapshot!(text(&sample::by_perf(), &style), @r#"
    cox: ./heat 4096 200 - 3 threads - 12.41 s wall - exit 0
        perf, 812,440 events, 0 lost, own cost 95 ms, 0.8 % of one CPU

      Thread time: 37.2 s (3 threads) - on average 1.9 of 2 CPUs in use
      CPUs in use: 0 for 1.3 % of the time, 1 for 4.0 %, 2 for 94.7 %
      Parallel efficiency: 65 % of 2 CPUs
        43.4 %  did work                    of it 0.6 % hypervisor steal
        21.1 %  waited for other threads    spinning in libgomp.so.1.0.0 (gomp_team_barrier_wait_end)
                                            (sampled, +/-0.3)
        32.7 %  waited for a CPU            preempted
         2.5 %  blocked, cause not seen
         0.3 %  not known                   time before the first and after the last event
      The perf backend sees neither why a thread blocked nor who held a CPU that others waited for, and
      wake-up delay is part of blocked time.
      3 threads share 2 CPUs: running threads spin, waiting for threads that were preempted (21 % of
      thread time). Threads waited for a CPU for 33 % of thread time.
      -> OMP_NUM_THREADS=2      expected 1.2-1.7x faster   why: cox explain too_many_threads_spinning
      The work itself needs 8.08 s on 2 CPUs. Without any waiting, the program would be 1.4x faster.
      With fewer switches, the work can also need less CPU time.

      thread        wall    work    spin  preempted  blocked  unknown  switches v/i
      4711 heat  12.41 s  5.41 s  2.60 s     4.06 s   0.31 s   0.03 s   1,204/2,811
      4712 heat  12.41 s  5.38 s  2.64 s     4.04 s   0.31 s   0.04 s   1,204/2,811
      4713 heat  12.41 s  5.37 s  2.61 s     4.08 s   0.31 s   0.04 s   1,204/2,811

      hot functions: heat_step (heat) 15.90 s, gomp_team_barrier_wait_end (libgomp.so.1.0.0, waiting)
        7.85 s
      check: states sum to wall (worst 0.00 %)
    "#);
}

#[test]
fn tables_of_two_programs_are_no_wider_than_the_terminal() {
    let mut document = sample::many();
    let threads = document.account.programs[0].processes.iter_mut().flat_map(|process| &mut process.threads);
    threads.for_each(|thread| thread.comm = "fifteenletters_".into());
    document.account.programs[0].processes[0].comm = "fifteenletters_".into();
    document.account.programs.push(document.account.programs[0].clone());
    for width in [80, 100] {
        let report = text(&document, &Style { width, ..Style::default() });
        for part in ["\ncox: A: ./heat", "\ncox: B: ./heat", "  A: thread", "  B: thread"] {
            assert!(format!("\n{report}").contains(part), "{part}: {report}");
        }
        for line in report.lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
}

#[test]
fn single_waits_are_a_table_of_quantiles() {
    let document = sample::timed();
    let full = text(&document, &Style::default());
    let table = full.split("\n\n").find(|part| part.contains("p99")).expect("a table");
    insta::assert_snapshot!(table, @r"
    latency        count     p50     p90     p99     max
    program
      wake delay   1,203  3.1 µs  9.3 µs  124 µs  2.8 ms
      blocked      1,200  151 µs  453 µs  6.0 ms  0.14 s
      time slice  12,045  1.4 ms  4.0 ms   54 ms  1.22 s
    4711 heat
      wake delay     401  3.1 µs  9.3 µs  124 µs  2.8 ms
      blocked        400  151 µs  453 µs  6.0 ms  0.14 s
      time slice   4,015  1.4 ms  4.0 ms   54 ms  1.22 s
    4712 heat
      wake delay     401  3.1 µs  9.3 µs  124 µs  2.8 ms
      blocked        400  151 µs  453 µs  6.0 ms  0.14 s
      time slice   4,015  1.4 ms  4.0 ms   54 ms  1.22 s
    p50, p90 and p99 are within 1.6 %. No quantiles of 1 thread (heat): the memory for histograms is
      full.
    ");
    let narrow = text(&document, &Style { width: 60, unicode: false, ..Style::default() });
    let table = narrow.split("\n\n").find(|part| part.contains("p99")).expect("a table");
    assert!(table.is_ascii() && table.contains("  3.1 us  "), "{table}");
    assert!(table.lines().all(|line| line.len() <= 60), "{table}");
}

#[test]
fn quantiles_are_those_of_ten_threads_and_ten_processes() {
    let mut document = sample::many();
    let quantiles = sample::timed().account.programs[0].latencies;
    document.account.sees = Some(Sees { latencies_of_threads: true, ..document.account.sees() });
    let program = &mut document.account.programs[0];
    program.latencies = quantiles;
    program.processes[0].latencies = quantiles;
    for thread in &mut program.processes[0].threads {
        thread.latencies = quantiles.map(Box::new);
    }
    program.processes[0].threads[0].latencies = None;
    let process = program.processes[0].clone();
    program.processes.extend((0..11).map(|at| Process { pid: 6000 + at, threads: Vec::new(), ..process.clone() }));
    let listed = |style: &Style| {
        let report = text(&document, style);
        let table = report.split("\n\n").find(|part| part.contains("p99")).expect("a table");
        table.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let begin = |lines: &[String], with: &str| lines.iter().filter(|line| line.starts_with(with)).count();
    let lines = listed(&Style::default());
    // One of the ten threads that lost most time has no histograms.
    assert_eq!([begin(&lines, "process "), begin(&lines, "471"), begin(&lines, "500")], [10, 2, 7], "{lines:#?}");
    assert!(["2 more processes", "6 more threads"].iter().all(|more| lines.iter().any(|line| line == more)));
    let lines = listed(&Style { all_threads: true, ..Style::default() });
    let found = [begin(&lines, "process "), begin(&lines, "471"), begin(&lines, "50")];
    assert!(found == [12, 2, 13] && !lines.iter().any(|line| line.contains(" more ")), "{lines:#?}");
}

#[test]
fn ten_threads_and_the_rest_in_one_line() {
    let narrow = Style { width: 80, ..Style::default() };
    let report = text(&sample::many(), &narrow);
    let table: Vec<&str> = report.lines().skip_while(|line| !line.starts_with("  thread")).take(12).collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
      thread        wall     work     spin  wake-delay  preempted  blocked  unknown
      4713 heat  12.41 s   5.37 s   2.61 s      0.16 s     4.08 s   0.15 s   0.04 s
      4712 heat  12.41 s   5.38 s   2.64 s      0.16 s     4.04 s   0.15 s   0.04 s
      4711 heat  12.41 s   5.41 s   2.60 s      0.16 s     4.06 s   0.15 s   0.03 s
      5000 heat  12.41 s   5.41 s   2.60 s      0.16 s     4.06 s   0.15 s   0.03 s
      5001 heat  12.31 s   5.41 s   2.60 s      0.16 s     3.96 s   0.15 s   0.03 s
      5002 heat  12.21 s   5.41 s   2.60 s      0.16 s     3.86 s   0.15 s   0.03 s
      5003 heat  12.11 s   5.41 s   2.60 s      0.16 s     3.76 s   0.15 s   0.03 s
      5004 heat  12.01 s   5.41 s   2.60 s      0.16 s     3.66 s   0.15 s   0.03 s
      5005 heat  11.91 s   5.41 s   2.60 s      0.16 s     3.56 s   0.15 s   0.03 s
      5006 heat  11.81 s   5.41 s   2.60 s      0.16 s     3.46 s   0.15 s   0.03 s
      6 more     68.76 s  32.46 s  15.60 s      0.96 s    18.66 s   0.90 s   0.18 s
    "#);
    let all = text(&sample::many(), &Style { all_threads: true, ..narrow });
    assert!(!all.contains("  6 more") && all.contains("5012 heat"));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let plain = text(&sample::heat(), &Style::default());
    let painted = text(&sample::heat(), &Style { color: true, ..Style::default() });
    assert!(painted.contains("\x1b["));
    let mut stripped = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn packing_is_the_last_section() {
    let text = text(&sample::packed(), &Style::default());
    let (observed, packed) = text.split_once("\n\n  3 threads packed").expect("a section of its own");
    assert!(observed.contains("3 threads share 2 CPUs of the pack:"), "{observed}");
    assert!(observed.trim_end().ends_with("check: states sum to wall (worst 0.00 %)"), "{observed}");
    insta::assert_snapshot!(format!("  3 threads packed{packed}"), @r"
      3 threads packed on CPUs 0-1 · threads wait in loops, period 0.5 ms
        Efficiency 65 %: 12.41 s, lower bound 8.04 s (the threads' work on 2 CPUs)
        Without rotation, the run would have taken 15.47 s to 16.76 s (efficiency 48 to 52 %, measured
          for 0.48 s) · threads rotated for 89 % of the time
        With 2 threads, one for each CPU, the run would have taken 8.67 s to 9.54 s if its work divides
          evenly (cox advise --runs 3 measures it)
        41,210 moves · controller 2.5 % of one CPU, included in the 12.41 s · masks restored
    ");
}
