//! Rows of sizes for N = 1000 iterations and P = 4 threads.
//!
//! *Published* rows are in Chronopoulos, Andonie, Benche and Grosu, "A class of loop self-scheduling for heterogeneous
//! clusters", CLUSTER 2001. *Measured* rows are what libgomp 12 and libomp 19 gave out. *Derived* ones follow from the
//! formula by hand.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use loops::adaptive::team::Team;
use loops::{Adaptive, Inputs, Pace, Plan, Schedule};

fn inputs() -> Inputs {
    Inputs { mean_ns: Some(10.0), deviation_ns: Some(3.0), overhead_ns: Some(1.0), weights: None }
}

fn sizes(text: &str, trips: u64, threads: usize) -> Vec<u64> {
    let schedule: Schedule = text.parse().unwrap();
    let chunk = |k| match schedule.plan(trips, threads, &inputs()).unwrap() {
        Plan::Fixed(fixed) => fixed.chunk(k),
        Plan::Table(table) => table.chunk(k),
        plan => panic!("{plan:?}"),
    };
    (0..).map_while(chunk).map(|chunk| chunk.end - chunk.start).collect()
}

fn batches(sizes: &[u64]) -> Vec<u64> {
    sizes.iter().flat_map(|size| [*size; 4]).collect()
}

/// Published and measured.
#[test]
fn gss() {
    let row = [250, 188, 141, 106, 79, 59, 45, 33, 25, 19, 14, 11, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1];
    assert_eq!(sizes("gss", 1000, 4), row);
    assert_eq!(sizes("guided,20", 1000, 4), [250, 188, 141, 106, 79, 59, 45, 33, 25, 20, 20, 20, 14]);
}

/// Measured.
#[test]
fn gss_llvm() {
    let mut row = vec![125, 109, 95, 83, 73, 64, 56, 49, 43, 37, 33, 29, 25, 22, 19, 17, 15, 13, 11, 10, 9, 7, 7, 6];
    row.extend([5, 4, 4, 3, 3, 3, 2, 2, 2]);
    row.extend([1; 15]);
    assert_eq!(sizes("gss_llvm", 1000, 4), row);
    // (2m + 1)·P ≥ N: dynamic.
    assert_eq!(sizes("gss_llvm,125", 1000, 4), [125; 8]);
    assert_eq!(sizes("gss_llvm", 1000, 1), [1000]);
}

/// Published; the last size there is 5, as if the loop were longer.
#[test]
fn tss() {
    assert_eq!(sizes("tss", 1000, 4), [125, 117, 109, 101, 93, 85, 77, 69, 61, 53, 45, 37, 28]);
}

/// Published.
#[test]
fn tfss() {
    let mut row = batches(&[113, 81, 49]);
    row.extend([17, 11]);
    assert_eq!(sizes("tfss", 1000, 4), row);
}

/// Published are batches of 50, 83 and 117: the last batch is the rest. The formula gives 50 + 33b.
#[test]
fn fiss() {
    let mut row = batches(&[50, 83, 116]);
    row.push(4);
    assert_eq!(sizes("fiss", 1000, 4), row);
}

/// Derived: ⌈N/(2^(b+1)·P)⌉. Published are 125, 62, 32, …, with 62.5 rounded to even.
#[test]
fn fac2() {
    assert_eq!(sizes("fac2", 1000, 4), batches(&[125, 63, 32, 16, 8, 4, 2])[..].to_vec());
}

/// Derived.
#[test]
fn formulas_that_need_a_profile() {
    assert_eq!(sizes("fac", 1000, 4)[..4], [244; 4]);
    assert_eq!(sizes("tap", 1000, 4)[0], 244);
    assert_eq!(sizes("fsc", 1000, 4)[0], 22);
    // Without deviation, these are `gss` and one chunk per thread.
    let constant = Inputs { deviation_ns: Some(0.0), ..inputs() };
    for (text, first) in [("tap", 250), ("fac", 250), ("fsc", 250)] {
        let plan = text.parse::<Schedule>().unwrap().plan(1000, 4, &constant).unwrap();
        let chunk = match plan {
            Plan::Table(table) => table.chunk(0),
            Plan::Fixed(fixed) => fixed.chunk(0),
            plan => panic!("{plan:?}"),
        };
        assert_eq!(chunk, Some(0..first), "{text}");
    }
}

/// Derived.
#[test]
fn fac_by_hand() {
    // After the first batch R = 1000 − 4·244 = 24; β = 4·3/(20·√24) = 0.1225, x = 2.2602; 24/(4x) = 2.65.
    assert_eq!(sizes("fac", 1000, 4)[4..8], [3; 4]);
}

/// Derived: X = 63, ⌊126·3/4⌋, ⌊126·7/8⌋.
#[test]
fn viss() {
    let mut row = batches(&[63, 94]);
    row.extend([110, 110, 110, 42]);
    assert_eq!(sizes("viss", 1000, 4), row);
}

/// Derived: a half in four chunks, then `gss` of the other half.
#[test]
fn pls() {
    assert_eq!(sizes("pls", 1000, 4)[..8], [125, 125, 125, 125, 125, 94, 71, 53]);
    assert_eq!(sizes("pls,static=0.4", 1000, 4)[..6], [100, 100, 100, 100, 150, 113]);
    assert_eq!(sizes("pls,static=1", 1000, 4), [250; 4]);
    assert_eq!(sizes("pls,static=0", 1000, 4), sizes("gss", 1000, 4));
}

/// By definition.
#[test]
fn ss_and_mfsc_have_one_size() {
    assert_eq!(sizes("ss", 5, 4), [1; 5]);
    assert_eq!(sizes("dynamic,2", 5, 4), [2, 2, 1]);
    assert_eq!(sizes("profile", 3, 4), [1; 3]);
    assert_eq!(sizes("mfsc", 1000, 4)[..3], [31; 3]);
}

#[test]
fn random_sizes_are_in_their_range_and_the_same_for_the_same_seed() {
    let row = sizes("rnd,low=3,high=9", 1000, 4);
    assert!(row[..row.len() - 1].iter().all(|size| (3..=9).contains(size)));
    assert!((3..=9).all(|size| row.contains(&size)));
    assert_eq!(row, sizes("rnd,low=3,high=9,seed=0", 1000, 4));
    assert_ne!(row, sizes("rnd,low=3,high=9,seed=1", 1000, 4));
    // ⌈1000/400⌉ to ⌈1000/8⌉.
    let row = sizes("rnd", 1000, 4);
    assert!(row[..row.len() - 1].iter().all(|size| (3..=125).contains(size)));
}

/// What a team executes: the same pace for all threads, and a running chunk for some.
struct Running(Vec<(u64, f64)>);

impl Team for Running {
    fn pace(&self, _: usize) -> Pace {
        Pace::default()
    }

    fn running(&self, thread: usize) -> (u64, f64) {
        self.0[thread]
    }
}

/// Derived, with another program: 227.9 and 194.4 at the start; 128.4 with 500 iterations unassigned, 800 unfinished,
/// and 680.6 expected to be unfinished.
#[test]
fn bold() {
    let plan = |deviation_ns, overhead_ns| {
        let inputs = Inputs { deviation_ns: Some(deviation_ns), overhead_ns: Some(overhead_ns), ..inputs() };
        match "bold".parse::<Schedule>().unwrap().plan(1000, 4, &inputs) {
            Ok(Plan::Adaptive(bold)) => bold,
            plan => panic!("{plan:?}"),
        }
    };
    let size = |bold: &Adaptive, running, given_out| bold.size(&bold.request(3, &Running(running)), given_out);
    let idle = vec![(0, 0.0); 4];
    assert_eq!(size(&plan(3.0, 1.0), idle.clone(), 0), 227);
    assert_eq!(size(&plan(10.0, 5.0), idle.clone(), 0), 194);
    let running = vec![(100, 400.0), (100, 400.0), (100, 400.0), (0, 0.0)];
    assert_eq!(size(&plan(10.0, 5.0), running, 500), 128);
    // Requests are dear: an even share. The last P iterations are single.
    assert_eq!(size(&plan(10.0, 500.0), idle.clone(), 992), 2);
    assert_eq!(size(&plan(10.0, 5.0), idle, 997), 1);
}

/// Derived: 125 times the weights 4/3 and 2/3, rounded. DLS4LB and LB4OMP round down and up.
#[test]
fn wf() {
    let inputs = Inputs { weights: Some(vec![2.0, 2.0, 1.0, 1.0]), ..Inputs::default() };
    let Ok(Plan::Adaptive(wf)) = "wf".parse::<Schedule>().unwrap().plan(1000, 4, &inputs) else { panic!("no plan") };
    let none: [Pace; 4] = Default::default();
    let sizes = [(0, 0), (1, 167), (2, 334), (3, 417), (0, 500)];
    assert_eq!(
        sizes.map(|(thread, given_out)| wf.size(&wf.request(thread, &none[..]), given_out)),
        [167, 167, 83, 83, 84]
    );
}
