//! Checks the promises of forecasts on samples of laws with a known expected maximum.

use forecast::laws::{Law, Row, assess};

/// Delays of a sample.
const SIZE: usize = 10_000;
const NS: [f64; 8] = [10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5, 1e6];

fn print(law: Law, rows: &[Row]) {
    println!("{law:?}");
    println!("        N  estimated  error E[max]  error S  covered  at least holds  at least/truth");
    for row in rows {
        println!(
            "{:9}  {:8.1}%  {:11.2}%  {:6.2}%  {:6.1}%  {:13.1}%  {:14.2}",
            row.n,
            100.0 * row.estimated,
            100.0 * row.median_error,
            100.0 * row.slowdown_error,
            100.0 * row.covered,
            100.0 * row.bound_holds,
            row.median_bound
        );
    }
    println!("mean coverage {:.1} %", 100.0 * rows.iter().map(|row| row.covered).sum::<f64>() / rows.len() as f64);
}

#[test]
#[ignore]
fn lumps() {
    for law in [
        Law::Lattice(0.05),
        Law::Lattice(0.3),
        Law::Lattice(3.0),
        Law::Lattice(30.0),
        Law::TwoExponentials { often: 0.25, seldom: 0.02 },
        Law::TwoExponentials { often: 0.25, seldom: 0.002 },
    ] {
        print(law, &assess(law, SIZE, &NS, 200, 1));
    }
}

#[test]
#[ignore]
fn table() {
    for law in [
        Law::Exponential,
        Law::Pareto(2.5),
        Law::Pareto(4.0),
        Law::Bernoulli(0.1),
        Law::Bernoulli(0.02),
        Law::Bernoulli(0.001),
        Law::Periodic { period: 10_000.0, length: 500.0 },
        Law::TwoSources { often: 0.25, seldom: 0.02 },
        Law::TwoSources { often: 0.25, seldom: 0.001 },
        Law::Pareto(1.5),
    ] {
        print(law, &assess(law, SIZE, &NS, 200, 1));
    }
}
