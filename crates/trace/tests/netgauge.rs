//! Noise traces of netgauge: what is written is what is read, and each wrong line is named.

use std::io;

use proptest::prelude::*;
use testkit::{Random, bytes};
use trace::netgauge::{Facts, Trace, read, write};

const COX: &[u8] = include_bytes!("data/cox.netgauge.txt");
const NETGAUGE: &[u8] = include_bytes!("data/netgauge.txt");

fn written(detours: &[(u64, u64)], facts: &Facts) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, detours.iter().copied(), facts).expect("detours in order");
    bytes
}

fn facts() -> Facts {
    Facts {
        loop_ps: Some(14_512),
        iterations: Some(184_467_440_737),
        threshold_percent: Some(800),
        period_ns: Some(10_000_000_000),
        comments: vec!["host node1, CPU 3".to_owned()],
    }
}

const DETOURS: [(u64, u64); 3] = [(1_000_000, 2150), (1_002_150, 1), (5_000_000_000, 6_000_000)];

#[test]
fn a_trace_is_written_as_the_stored_one() {
    assert_eq!(String::from_utf8(written(&DETOURS, &facts())), String::from_utf8(COX.to_vec()));
    let trace = read(COX).unwrap();
    assert_eq!(trace, Trace { facts: facts(), detours: DETOURS.to_vec() });
    assert_eq!(trace.end_ns(), 10_000_000_000);
    assert_eq!(written(&trace.detours, &trace.facts), COX);
}

#[test]
fn a_trace_of_netgauge_is_read_and_rounded() {
    let trace = read(NETGAUGE).unwrap();
    // The detours touch one another. After rounding, they still do. The detour of a quarter of a nanosecond is no more.
    assert_eq!(trace.detours, [(0, 153), (153, 6), (1001, 5), (4_000_000, 2151)]);
    assert_eq!(trace.end_ns(), 4_002_151);
    let comments = ["Compute-Cycle Duration: 1000 usec", "Number of Cycles/Detours: 12", "Hostname: node1"];
    let facts = Facts {
        loop_ps: Some(14_512),
        iterations: Some(184_467_440_737),
        threshold_percent: Some(900),
        period_ns: None,
        comments: comments.map(str::to_owned).to_vec(),
    };
    assert_eq!(trace.facts, facts);
    assert_eq!(read(&written(&trace.detours, &facts)[..]).unwrap(), trace);
}

#[test]
fn the_overhead_is_the_share_of_the_measurement() {
    let last = |facts: &Facts| {
        let text = String::from_utf8(written(&[(100, 10), (190, 10)], facts)).unwrap();
        text.lines().rev().nth(1).unwrap().to_owned()
    };
    assert_eq!(last(&Facts { period_ns: Some(1000), ..Facts::default() }), "# CPU overhead due to noise: 2.00%");
    // As netgauge computes it: from the start of the first detour to the end of the last one.
    assert_eq!(last(&Facts::default()), "# CPU overhead due to noise: 20.00%");
}

#[test]
fn a_quiet_cpu_has_a_trace() {
    let facts = Facts { period_ns: Some(1_000_000_000), ..Facts::default() };
    let text = written(&[(5, 0)], &facts);
    assert_eq!(text.split(|byte| *byte == b'\n').filter(|line| line.contains(&b'\t') && line[0] != b'#').count(), 1);
    let trace = read(&text[..]).unwrap();
    assert_eq!((trace.detours.len(), trace.end_ns()), (0, 1_000_000_000));
}

#[test]
fn other_programs_write_rows_differently() {
    let trace = read(&b"1.000000000000000000e+03 2.5e+01\r\n\r\n  2000\t \t25  \r\n3000 7"[..]).unwrap();
    assert_eq!(trace.detours, [(1000, 25), (2000, 25), (3000, 7)]);
    // A duration of 0 is an end of the measurement only in the last row.
    let trace = read(&b"5\t0\n10\t5\n"[..]).unwrap();
    assert_eq!((trace.facts.period_ns, trace.detours), (None, vec![(10, 5)]));
}

#[test]
fn each_wrong_line_is_named() {
    let long = format!("# x\n{}\t1\n", "1".repeat(4096));
    let late = format!("1\t2\n{}\t1\n", u64::MAX / 2);
    let cases: &[(&[u8], &str)] = &[
        (b"", "the file contains no detours"),
        (b"# only\n# comments\n", "the file contains no detours"),
        (b"# x\n12\t7\nabc\t5\n", "line 3: 'abc' is not a number"),
        (b"12\tx7\n", "line 1: 'x7' is not a number"),
        (b"12\t-7\n", "line 1: '-7' is negative"),
        (b"\n12\n", "line 2: the duration is missing after '12'"),
        (b"12\t7\t8\n", "line 1: the line has more than two columns (start and duration)"),
        (b"20\t1\n# x\n10\t5\n", "line 3: the detour starts at 10 ns, before the previous one (20 ns)"),
        (b"10\t5\n14.5\t5\n", "line 2: the detour starts at 14.5 ns, while the previous one lasts (15 ns)"),
        (b"1e99\t5\n", "line 1: '1e99' is too large"),
        (late.as_bytes(), "line 2: the detour ends too late; the latest time is 9223372036854775807 ns"),
        (
            b"99999999999999999999999\t5\n",
            "line 1: the detour ends too late; the latest time is 9223372036854775807 ns",
        ),
        (long.as_bytes(), "line 2: the line is longer than 4096 bytes"),
        (b"1\t2\n3\t\xff\n", "line 2: the line is not UTF-8 text"),
        (
            b"# Benchmark Method: fwq\n# Fixed Work Quantum Benchmark\n0             5\n",
            "line 1: a trace of method 'fwq'; only traces of method 'selfish' have detours",
        ),
        (
            b"# Fixed Time Quantum Benchmark\n 0    5\n",
            "line 1: a trace of method 'ftq'; only traces of method 'selfish' have detours",
        ),
    ];
    for (input, message) in cases {
        assert_eq!(read(*input).unwrap_err().to_string(), *message);
    }
}

#[test]
fn a_trace_that_could_not_be_read_is_not_written() {
    let late = u64::MAX / 2;
    for (detours, period_ns, message) in [
        (&[(10, 5), (14, 1)][..], None, "a detour starts before the previous one ends"),
        (&[(10, 5), (9, 1)], None, "a detour starts before the previous one ends"),
        (&[(10, 5)], Some(14), "a detour ends after the measurement"),
        (&[(late, 1)], None, "a detour ends too late"),
        (&[(u64::MAX, 1)], None, "a detour ends too late"),
        (&[(1, 1)], Some(late + 1), "the measurement ends too late"),
    ] {
        let facts = Facts { period_ns, ..Facts::default() };
        let error = write(&mut Vec::new(), detours.iter().copied(), &facts).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidInput, message));
    }
}

#[test]
fn a_comment_stays_in_its_line_and_is_short_enough_for_loggopsim() {
    let comments = vec!["a\n5\t5".to_owned(), "ü".repeat(2000)];
    let bytes = written(&[(1, 1)], &Facts { comments, ..Facts::default() });
    assert!(bytes.split(|byte| *byte == b'\n').all(|line| line.len() < 1024));
    let trace = read(&bytes[..]).unwrap();
    assert_eq!((trace.facts.comments[0].as_str(), trace.detours), ("a?5?5", vec![(1, 1)]));
}

#[test]
fn a_damaged_trace_is_read_or_refused() {
    let mut refused = 0;
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let mut bytes = if seed % 2 == 0 { COX.to_vec() } else { NETGAUGE.to_vec() };
        bytes::change(&mut bytes, &mut random);
        match read(&bytes[..]) {
            Ok(trace) => {
                let again = written(&trace.detours, &trace.facts);
                if !trace.detours.is_empty() || trace.facts.period_ns.is_some() {
                    assert_eq!(read(&again[..]).unwrap().detours, trace.detours, "seed {seed}");
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!((1000..19_000).contains(&refused), "{refused} refused");
}

/// Gaps and durations, nanoseconds.
fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..1_000_000_000_000u64, 1..1_000_000_000_000u64), 1..50)
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(steps in steps(), period_after in prop::option::of(0..1_000_000u64)) {
        let mut end_ns = 0;
        let detours: Vec<(u64, u64)> = steps.into_iter().map(|(gap_ns, duration_ns)| {
            let start_ns = end_ns + gap_ns;
            end_ns = start_ns + duration_ns;
            (start_ns, duration_ns)
        }).collect();
        let facts = Facts { period_ns: period_after.map(|after_ns| end_ns + after_ns), ..facts() };
        prop_assert_eq!(read(&written(&detours, &facts)[..]).unwrap(), Trace { facts, detours });
    }

    /// Hundredths of nanoseconds.
    #[test]
    fn starts_and_ends_are_rounded_so_that_detours_do_not_overlap(steps in prop::collection::vec((0..10_000u64, 1..10_000u64), 1..50)) {
        let (mut text, mut rounded, mut end) = (String::new(), Vec::new(), 0);
        for (gap, duration) in steps {
            let start = end + gap;
            end = start + duration;
            text += &format!("{}.{:02}\t{}.{:02}\n", start / 100, start % 100, duration / 100, duration % 100);
            rounded.push(((start + 50) / 100, (end + 50) / 100));
        }
        let detours = rounded.iter().filter(|(start, end)| start < end).map(|(start, end)| (*start, end - start));
        prop_assert_eq!(read(text.as_bytes()).unwrap().detours, detours.collect::<Vec<_>>());
    }
}
