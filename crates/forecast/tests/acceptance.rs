//! Checks the promises of forecasts on samples of laws with a known expected maximum.
//!
//! All figures are of the expected maximum, which has larger errors than the slowdown. A sample has n = 10,000 delays. The
//! median error is at most 5 % up to N = n/100 (Pareto 2.5: 8 %) and 10 % up to n/10 (15 %). The 95 % interval covers the
//! truth in at least 85 % of samples at each N up to 100 n, and in 88 % in the mean over N; for continuous laws in at
//! most 99 %. *At least* holds in 95 %, also for a tail so heavy that no estimate is given.
//!
//! Sources that hit in one of 1,000 phases have ten observations in a sample, so no estimate of their expected maximum has
//! these errors (`laws` derives how small it can be). For them, only the slowdown does, and the error of the expected
//! maximum is near the least one that is possible.

use forecast::laws::{Law, Row, assess, least_median_error};

/// Delays of a sample.
const SIZE: usize = 10_000;
/// Numbers of nodes: n/1000 to 100 n.
const NS: [f64; 8] = [10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5, 1e6];

const LAWS: [Law; 7] = [
    Law::Exponential,
    Law::Pareto(2.5),
    Law::Pareto(4.0),
    Law::Bernoulli(0.1),
    Law::Bernoulli(0.02),
    Law::Periodic { period: 10_000.0, length: 500.0 },
    Law::TwoSources { often: 0.25, seldom: 0.02 },
];

/// Ten observations of the larger source.
const RARE: [Law; 2] = [Law::Bernoulli(0.001), Law::TwoSources { often: 0.25, seldom: 0.001 }];

/// Laws that no part of the estimate is made for.
const OTHERS: [Law; 6] = [
    Law::Lattice(0.05),
    Law::Lattice(0.3),
    Law::Lattice(3.0),
    Law::Lattice(30.0),
    Law::TwoExponentials { often: 0.25, seldom: 0.02 },
    Law::TwoExponentials { often: 0.25, seldom: 0.002 },
];

fn assessed(law: Law, repeats: usize) -> Vec<Row> {
    let rows = assess(law, SIZE, &NS, repeats, 1);
    println!("{law:?}\n        N  estimate  error of E[max]  of S  covered  at least holds  at least/truth");
    for row in &rows {
        let percent = |part: f64| 100.0 * part;
        println!(
            "{:9} {:8.1}% {:15.2}% {:5.2}% {:7.1}% {:14.1}% {:14.2}",
            row.n,
            percent(row.estimated),
            percent(row.median_error),
            percent(row.slowdown_error),
            percent(row.covered),
            percent(row.bound_holds),
            row.median_bound
        );
    }
    rows
}

/// Checks the promises; `slack` is added to those on coverage, which vary with the samples.
fn check(law: Law, rows: &[Row], slack: f64, error: fn(&Row) -> f64) {
    let (near, far) = if law == Law::Pareto(2.5) { (0.08, 0.15) } else { (0.05, 0.10) };
    for row in rows {
        let case = format!("{law:?} {row:?}");
        assert!(row.estimated > 0.95, "{case}");
        assert!(row.n > SIZE as f64 / 100.0 || error(row) <= near, "{case}");
        assert!(row.n > SIZE as f64 / 10.0 || error(row) <= far, "{case}");
        assert!(row.covered >= 0.85 - slack, "{case}");
        assert!(!law.is_continuous() || row.covered <= 0.99 + slack, "{case}");
        assert!(row.bound_holds >= 0.95, "{case}");
    }
    let mean = rows.iter().map(|row| row.covered).sum::<f64>() / rows.len() as f64;
    assert!(mean >= 0.88 - slack, "{law:?}: {mean}");
}

fn check_all(repeats: usize, slack: f64) {
    let mut covered = Vec::new();
    for law in LAWS {
        let rows = assessed(law, repeats);
        check(law, &rows, slack, |row| row.median_error);
        if law.is_continuous() {
            covered.extend(rows.iter().map(|row| row.covered));
        }
    }
    // Intervals that are too wide would cover the truth, too.
    let mean = covered.iter().sum::<f64>() / covered.len() as f64;
    assert!(mean <= 0.98, "{mean}");
    for law in RARE {
        let rows = assessed(law, repeats);
        check(law, &rows, slack, |row| row.slowdown_error);
        for row in rows.iter().filter(|row| row.n <= 1e3) {
            let least = least_median_error(0.001, SIZE, row.n);
            let best = least * (1.25 + 5.0 * slack);
            assert!(row.median_error <= best, "{law:?} {row:?}: {least} is possible");
        }
    }
    for row in assessed(Law::Pareto(1.5), repeats) {
        assert!(row.estimated <= 0.05 && row.bound_holds >= 0.95, "{row:?}");
        // A bound of 0 would hold, too.
        assert!(row.n > 1e4 || row.median_bound > 0.1, "{row:?}");
    }
}

#[test]
fn promises_hold_in_40_samples() {
    check_all(40, 0.06);
}

#[test]
#[ignore = "half a minute; prints the table"]
fn promises_hold_in_200_samples() {
    check_all(200, 0.0);
}

/// The errors and coverage here are not promised. Estimates exist, intervals are not far too narrow, and the bound
/// holds.
#[test]
fn other_laws() {
    for law in OTHERS {
        for row in assessed(law, 30) {
            assert!(row.estimated > 0.7 && row.covered > 0.5 && row.bound_holds >= 0.95, "{law:?} {row:?}");
        }
    }
}
