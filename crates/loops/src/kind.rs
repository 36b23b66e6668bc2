//! The schedules by name, each with other names for it and its source.
//!
//! Names are compared without regard to case, and `-` is the same as `_`. Names of LB4OMP (the research runtime of the
//! University of Basel), libgomp and LLVM are accepted as aliases. `guided` is the rule of libgomp and of the original
//! paper; LLVM's rule is `gss_llvm`.

use crate::invalid::Invalid;

/// A schedule's rule, without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One block of iterations per thread; with a chunk, chunks round robin.
    Static,
    /// Blocks of chunks, from which threads without work steal.
    StaticSteal,
    /// Chunks of one size, by default 1.
    Ss,
    /// Chunks of one size, computed from the deviation of iterations and the cost of a request.
    Fsc,
    /// Chunks of one size, as many as `fac2` has.
    Mfsc,
    /// A P-th of what remains.
    Gss,
    /// A half of a P-th of what remains, as LLVM rounds it.
    GssLlvm,
    /// Sizes that decrease linearly.
    Tss,
    /// Batches of P chunks, each of the mean size of P chunks of `tss`.
    Tfss,
    /// Batches of P chunks, computed from mean and deviation of iterations.
    Fac,
    /// Batches of P chunks, each batch half of what remains.
    Fac2,
    /// `fac2` with a fixed weight for each thread.
    Wf,
    /// `gss`, reduced by the deviation of iterations.
    Tap,
    /// The bold strategy: considers what other threads are expected to finish.
    Bold,
    /// Batches of P chunks, sizes increase by a constant.
    Fiss,
    /// Batches of P chunks, sizes increase by a decreasing amount.
    Viss,
    /// Random sizes.
    Rnd,
    /// A static part of one chunk per thread, then `gss`.
    Pls,
    /// One block of iterations per thread, with weights measured in earlier instances.
    StaticWeighted,
    /// `wf`, with weights measured in earlier instances.
    Awf,
    /// Batches, weights measured in this instance, time in chunks.
    AwfB,
    /// Chunks, weights measured in this instance, time in chunks.
    AwfC,
    /// `awf_b` with the time of requests included.
    AwfD,
    /// `awf_c` with the time of requests included.
    AwfE,
    /// Adaptive factoring: mean and variance measured for each thread.
    Af,
    /// `af` with the time of requests included.
    Maf,
    /// A block per thread, then `fac2` for the rest.
    Hybrid,
    /// `ss`, while a profile is measured.
    Profile,
}

/// What the documentation and the parser know about a kind.
struct Row {
    kind: Kind,
    name: &'static str,
    aliases: &'static [&'static str],
    parameters: &'static [&'static str],
    source: &'static str,
}

const fn row(
    kind: Kind,
    name: &'static str,
    aliases: &'static [&'static str],
    parameters: &'static [&'static str],
    source: &'static str,
) -> Row {
    Row { kind, name, aliases, parameters, source }
}

const NONE: &[&str] = &[];

/// All kinds, in the order of the declaration of [`Kind`].
const ROWS: &[Row] = &[
    row(Kind::Static, "static", NONE, NONE, "OpenMP 1.0, 1997"),
    row(Kind::StaticSteal, "static_steal", NONE, NONE, "LLVM's OpenMP runtime, static_steal"),
    row(Kind::Ss, "ss", &["dynamic"], NONE, "Tang and Yew, ICPP 1986"),
    row(Kind::Fsc, "fsc", NONE, NONE, "Kruskal and Weiss, IEEE Trans. Software Eng. 11(10), 1985"),
    row(Kind::Mfsc, "mfsc", NONE, NONE, "Banicescu, Ciorba and Srivastava, 2013; DLS4LB"),
    row(
        Kind::Gss,
        "gss",
        &["guided", "gss_libgomp", "guided_libgomp"],
        NONE,
        "Polychronopoulos and Kuck, IEEE Trans. Computers 36(12), 1987; libgomp",
    ),
    row(Kind::GssLlvm, "gss_llvm", &["guided_llvm", "guided_iterative"], NONE, "LLVM's OpenMP runtime, guided"),
    row(
        Kind::Tss,
        "tss",
        &["trapezoidal", "trapezoid"],
        NONE,
        "Tzen and Ni, IEEE Trans. Parallel Distrib. Syst. 4(1), 1993",
    ),
    row(Kind::Tfss, "tfss", NONE, NONE, "Chronopoulos, Andonie, Benche and Grosu, CLUSTER 2001"),
    row(Kind::Fac, "fac", &["faca", "mfac"], NONE, "Flynn Hummel, Schonberg and Flynn, CACM 35(8), 1992"),
    row(Kind::Fac2, "fac2", &["fac2a", "fac2b", "mfac2"], NONE, "Flynn Hummel, Schonberg and Flynn, CACM 35(8), 1992"),
    row(Kind::Wf, "wf", &["wf2"], NONE, "Flynn Hummel, Schmidt, Uma and Wein, SPAA 1996"),
    row(Kind::Tap, "tap", &["taper"], &["alpha"], "Lucco, PLDI 1992"),
    row(Kind::Bold, "bold", NONE, NONE, "Hagerup, J. Parallel Distrib. Comput. 47(2), 1997"),
    row(Kind::Fiss, "fiss", NONE, &["stages"], "Philip and Das, PDCS 1997"),
    row(Kind::Viss, "viss", NONE, &["divisor"], "Philip and Das, PDCS 1997"),
    row(Kind::Rnd, "rnd", &["rand", "random"], &["low", "high", "seed"], "Ciorba, Iwainsky and Buder, IWOMP 2018"),
    row(Kind::Pls, "pls", NONE, &["static"], "Shih, Yang and Tseng, J. Supercomputing 41(3), 2007"),
    row(Kind::StaticWeighted, "static_weighted", NONE, NONE, "the weights of awf"),
    row(Kind::Awf, "awf", NONE, NONE, "Banicescu, Velusamy and Devaprasad, Cluster Computing 6(3), 2003"),
    row(Kind::AwfB, "awf_b", NONE, NONE, "Cariño and Banicescu, J. Supercomputing 44(1), 2008"),
    row(Kind::AwfC, "awf_c", NONE, NONE, "Cariño and Banicescu, J. Supercomputing 44(1), 2008"),
    row(Kind::AwfD, "awf_d", NONE, NONE, "Cariño and Banicescu, J. Supercomputing 44(1), 2008"),
    row(Kind::AwfE, "awf_e", NONE, NONE, "Cariño and Banicescu, J. Supercomputing 44(1), 2008"),
    row(Kind::Af, "af", NONE, NONE, "Banicescu and Liu, HPC 2000"),
    row(Kind::Maf, "maf", &["af_a"], NONE, "LB4OMP (Korndörfer et al., IEEE Trans. Parallel Distrib. Syst., 2022)"),
    row(Kind::Hybrid, "hybrid", NONE, &["static"], "Donfack, Grigori, Gropp and Kale, IPDPS 2012"),
    row(Kind::Profile, "profile", &["profiling"], NONE, "LB4OMP (Korndörfer et al., 2022)"),
];

impl Kind {
    /// Returns all kinds.
    pub fn all() -> impl Iterator<Item = Kind> {
        ROWS.iter().map(|row| row.kind)
    }

    /// Returns the name, as in reports and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns other names that are accepted.
    #[must_use]
    pub fn aliases(self) -> &'static [&'static str] {
        self.row().aliases
    }

    /// Returns the names of the parameters beside the chunk.
    #[must_use]
    pub fn parameters(self) -> &'static [&'static str] {
        self.row().parameters
    }

    /// Returns where the schedule was published.
    #[must_use]
    pub fn source(self) -> &'static str {
        self.row().source
    }

    /// Finds a kind by its name or an alias. The error lists similar names, or all names if none is similar.
    pub fn find(text: &str) -> Result<Kind, Invalid> {
        let name = text.trim().to_ascii_lowercase().replace('-', "_");
        let is_named = |row: &&Row| row.name == name || row.aliases.contains(&name.as_str());
        if let Some(row) = ROWS.iter().find(is_named) {
            return Ok(row.kind);
        }
        let names = ROWS.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases));
        let distances = names.map(|known| (distance(&name, known), *known)).filter(|(distance, _)| *distance <= 2);
        let mut similar: Vec<_> = distances.collect();
        similar.sort_unstable();
        similar.truncate(4);
        let similar = if similar.is_empty() {
            ROWS.iter().map(|row| row.name).collect()
        } else {
            similar.into_iter().map(|(_, known)| known).collect()
        };
        Err(Invalid::Name(text.trim().to_owned(), similar))
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// Returns how many letters must be inserted, removed or replaced to get from `a` to `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, letter) in a.chars().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in b.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != *other);
            next.push(replaced.min(last[column + 1] + 1).min(next[column] + 1));
        }
        last = next;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_kinds_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, at);
            for name in std::iter::once(&row.name).chain(row.aliases) {
                assert!(names.insert(*name), "{name}");
                assert_eq!(Kind::find(name), Ok(row.kind));
                assert_eq!(Kind::find(&name.to_uppercase().replace('_', "-")), Ok(row.kind));
            }
        }
    }

    /// Names that LB4OMP, libgomp and LLVM read in `OMP_SCHEDULE`, apart from `auto`, which is no schedule.
    #[test]
    fn names_of_other_runtimes_are_accepted() {
        let names = "dynamic guided trapezoidal static fsc tap fac faca fac2 fac2a fac2b wf bold awf awf_b awf_c awf_d \
                     awf_e af af_a profiling pls tfss mfsc fiss viss rnd static_steal";
        for name in names.split_whitespace() {
            assert!(Kind::find(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_gets_similar_names() {
        assert_eq!(Kind::find("fax2").unwrap_err().to_string(), "unknown schedule 'fax2': use fac2, fac, fac2a, fac2b");
        assert_eq!(Kind::find("giuded").unwrap_err().to_string(), "unknown schedule 'giuded': use guided");
        let all = Kind::find("something").unwrap_err().to_string();
        assert!(all.starts_with("unknown schedule 'something': use static, static_steal, ss,"), "{all}");
        assert!(Kind::all().all(|kind| all.contains(kind.name())));
    }
}
