//! The part of the corpus for `--quick`: one situation of each kind, which together take about ten minutes.

use super::situation::{Circumstance, Count, Situation};

const QUICK: &[(&str, Count, Circumstance)] = &[
    ("barriers", Count::Cpus, Circumstance::Hog),
    ("barriers-spin", Count::OneMore, Circumstance::Plain),
    ("imbalance", Count::Cpus, Circumstance::Plain),
    ("triad", Count::Cpus, Circumstance::Quota),
    ("kernel-cg", Count::OneMore, Circumstance::Active),
    ("kernel-fft", Count::Cpus, Circumstance::Places),
    ("known-mutex", Count::Cpus, Circumstance::Plain),
    ("known-write", Count::One, Circumstance::Plain),
    ("known-sleep", Count::One, Circumstance::Plain),
    ("stencil-gcc", Count::OneMore, Circumstance::Plain),
    ("stencil-clang", Count::OneMore, Circumstance::Passive),
    ("serial-gcc", Count::Cpus, Circumstance::Plain),
    ("halo-mpich", Count::OneMore, Circumstance::Plain),
    ("lammps", Count::One, Circumstance::Plain),
    ("bound-openmpi", Count::Cpus, Circumstance::Plain),
    ("gm", Count::Double, Circumstance::Plain),
    ("pigz", Count::OneMore, Circumstance::Bound),
    ("make", Count::OneMore, Circumstance::Plain),
    ("gzip", Count::One, Circumstance::Plain),
];

/// Returns whether `--quick` measures this situation.
pub fn contains(situation: &Situation) -> bool {
    let Situation { program, count, circumstance } = situation;
    QUICK.contains(&(program.name, *count, *circumstance))
}

#[cfg(test)]
mod tests {
    use super::super::{corpus, situation};
    use super::*;

    #[test]
    fn every_row_is_a_situation_and_every_circumstance_has_one() {
        let all: Vec<Situation> =
            corpus::all().into_iter().flat_map(|program| situation::of(program, 2)).filter(contains).collect();
        assert_eq!(all.len(), QUICK.len());
        for circumstance in Circumstance::ALL {
            assert!(all.iter().any(|situation| situation.circumstance == circumstance), "{circumstance:?}");
        }
    }
}
