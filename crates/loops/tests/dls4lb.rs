//! Sizes as DLS4LB computes them (University of Basel, `DLS.c`; LGPL, none of its code is here). Its functions were
//! called with threads in turn, the smallest chunk 1, weights none, σ = 3 and h = 0.5 for FSC, and for adaptive
//! techniques with µ_i = 1 + i/2 and σ_i² = (1 + i)/4 on thread i.
//!
//! Differences on purpose:
//!
//! - TSS: DLS4LB rounds F up and n down. Rows are compared where that changes nothing.
//! - FAC, AWF: if one iteration would be left in a batch, DLS4LB adds it to the chunk before. So single iterations at
//!   the end become chunks of 2. Rows are compared up to there. Here, they are the batches of `awf`; `fac2` rounds
//!   each batch from N (`tests/published.rs`).
//! - AWF-B: the same, and DLS4LB cuts a chunk at the end of its batch. Rows are compared as far as neither happens.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use loops::{Adaptive, Inputs, Pace, Plan, Schedule};

fn plan(text: &str, trips: u64, threads: usize) -> Plan {
    let inputs = Inputs { mean_ns: None, deviation_ns: Some(3.0), overhead_ns: Some(0.5), weights: None };
    text.parse::<Schedule>().unwrap().plan(trips, threads, &inputs).unwrap()
}

fn adaptive(text: &str, trips: u64, threads: usize) -> Adaptive {
    match plan(text, trips, threads) {
        Plan::Adaptive(adaptive) => adaptive,
        plan => panic!("{plan:?}"),
    }
}

/// Returns sizes if threads ask in turn.
fn in_turn(adaptive: &Adaptive, team: &[Pace]) -> Vec<u64> {
    let (mut given_out, mut sizes) = (0, Vec::new());
    loop {
        let request = adaptive.request(sizes.len() % team.len(), team);
        match adaptive.size(&request, given_out) {
            0 => return sizes,
            size => {
                given_out += size;
                sizes.push(size);
            }
        }
    }
}

fn measured(threads: usize) -> Vec<Pace> {
    let pace = |i: f64| Pace { mean_ns: 1.0 + i / 2.0, variance_ns2: (1.0 + i) / 4.0 };
    (0..threads).map(|thread| pace(thread as f64)).collect()
}

fn table(text: &str, trips: u64, threads: usize) -> Vec<u64> {
    match plan(text, trips, threads) {
        Plan::Table(table) => table.chunks().map(|chunk| chunk.end - chunk.start).collect(),
        plan => panic!("{plan:?}"),
    }
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn gss() {
    for (trips, threads, row) in [
        (1000, 4, "250 188 141 106 79 59 45 33 25 19 14 11 8 6 4 3 3 2 1 1 1 1"),
        (100, 2, "50 25 13 6 3 2 1"),
        (777, 3, "259 173 115 77 51 34 23 15 10 7 5 3 2 1 1 1"),
        (37, 5, "8 6 5 4 3 3 2 2 1 1 1 1"),
        (
            1024,
            8,
            "128 112 98 86 75 66 58 51 44 39 34 30 26 23 20 17 15 13 12 10 9 8 7 6 5 4 4 3 3 3 2 2 2 2 1 1 1 1 1 1 1",
        ),
    ] {
        assert_eq!(table("gss", trips, threads), numbers(row), "{trips} {threads}");
    }
}

#[test]
fn tss() {
    assert_eq!(table("tss", 1000, 4), numbers("125 117 109 101 93 85 77 69 61 53 45 37 28"));
    let row = "64 62 60 58 56 54 52 50 48 46 44 42 40 38 36 34 32 30 28 26 24 22 20 18 16 14 10";
    assert_eq!(table("tss", 1024, 8), numbers(row));
}

#[test]
fn fsc_and_mfsc() {
    for (trips, threads, fsc, mfsc) in
        [(1000, 4, 14, 31), (100, 2, 6, 9), (1024, 8, 8, 18), (777, 3, 16, 32), (37, 5, 2, 3), (5000, 16, 13, 38)]
    {
        for (text, size) in [("fsc", fsc), ("mfsc", mfsc)] {
            match plan(text, trips, threads) {
                Plan::Fixed(fixed) => assert_eq!(fixed.size(), size, "{text} {trips} {threads}"),
                plan => panic!("{plan:?}"),
            }
        }
    }
}

/// FAC and AWF without measurements, up to the first single iteration.
#[test]
fn fac_and_awf() {
    for (trips, threads, row) in [
        (1000, 4, "125 125 125 125 63 63 63 63 31 31 31 31 16 16 16 16 8 8 8 8 4 4 4 4 2 2 2 2 1"),
        (100, 2, "25 25 13 13 6 6 3 3"),
        (777, 3, "130 130 130 65 65 65 32 32 32 16 16 16 8 8 8 4 4 4 2 2 2 1"),
        (37, 5, "4 4 4 4 4 2 2 2 2 2 1"),
    ] {
        let row = numbers(row);
        let sizes = in_turn(&adaptive("awf", trips, threads), &vec![Pace::default(); threads]);
        assert_eq!(sizes[..row.len()], row, "{trips} {threads}");
        assert_eq!(sizes.iter().sum::<u64>(), trips);
    }
}

/// AWF-B and AWF-D.
#[test]
fn awf_b() {
    for (trips, threads, row) in [
        (1000, 4, "195 130 97 78 98 66 49 39 48 32 24"),
        (100, 2, "30 20"),
        (1024, 8, "140 93 70 56 47 40 35 31 70 47 35 28 23 20"),
        (777, 3, "180 120 90 90 60 45"),
    ] {
        let row = numbers(row);
        for text in ["awf_b", "awf_d"] {
            let sizes = in_turn(&adaptive(text, trips, threads), &measured(threads));
            assert_eq!(sizes[..row.len()], row, "{text} {trips} {threads}");
        }
    }
}

/// AWF-C and AWF-E: whole loops.
#[test]
fn awf_c() {
    for (trips, threads, row) in [
        (1000, 4, "195 105 69 49 114 61 40 29 67 35 23 17 39 21 13 10 23 13 8 6 13 7 5 3 8 4 2 2 5 2 2 1 3 1 1 1 2 1"),
        (100, 2, "30 14 17 8 10 5 5 2 4 2 1 1 1"),
        (777, 3, "180 92 59 104 53 34 60 31 19 35 18 11 19 10 6 11 6 4 7 3 2 4 2 1 1 1 1 1 1 1"),
        (37, 5, "7 3 3 2 2 3 2 2 1 1 3 1 1 1 1 2 1 1"),
    ] {
        for text in ["awf_c", "awf_e"] {
            let sizes = in_turn(&adaptive(text, trips, threads), &measured(threads));
            assert_eq!(sizes, numbers(row), "{text} {trips} {threads}");
        }
    }
}

/// AF: whole loops.
#[test]
fn af() {
    for (trips, threads, row) in [
        (1000, 4, "125 125 125 90 125 97 55 36 76 33 19 12 26 11 7 4 10 4 3 2 4 2 1 1 1 1 1 1 1 1 1"),
        (100, 2, "25 25 25 8 8 3 2 1 1 1 1"),
        (777, 3, "130 130 112 130 78 41 64 24 13 21 8 5 7 3 2 3 1 1 1 1 1 1"),
        (37, 5, "4 4 3 2 2 4 2 2 1 1 2 1 1 1 1 1 1 1 1 1 1"),
    ] {
        for text in ["af", "maf"] {
            let sizes = in_turn(&adaptive(text, trips, threads), &measured(threads));
            assert_eq!(sizes, numbers(row), "{text} {trips} {threads}");
        }
    }
}
