//! What the corpus says about a program: where it is found, how it is started, and what is certain about its threads.

use std::path::Path;

use advise::Kind;
use anyhow::Result;

/// A program of the corpus with fixed arguments and fixed work.
#[derive(Debug)]
pub struct Program {
    /// Name of the case.
    pub name: &'static str,
    /// What makes the threads or ranks.
    pub family: Family,
    /// Where the executable is.
    pub find: Find,
    /// What provides the executable: a Debian package, the workloads, or the folder of `--programs`.
    pub from: &'static str,
    /// What is certain about the program's threads before any run.
    pub nature: Nature,
    /// How the number of threads or ranks is given.
    pub knob: Knob,
    /// Words before the executable, such as an MPI launcher and its options; [`fill`] replaces their placeholders.
    pub launcher: &'static [&'static str],
    /// Arguments; [`fill`] replaces their placeholders.
    pub arguments: &'static [&'static str],
    /// Makes the program's input in the given folder, which is also the program's working directory.
    pub input: fn(&Path) -> Result<()>,
}

impl Program {
    /// Returns whether the launcher binds the program to CPUs, by an option that can be changed.
    pub fn has_binding(&self) -> bool {
        self.launcher.contains(&"{bind}")
    }

    /// Returns the least number of threads with which the program works: unequal shares and queues need two.
    pub fn least(&self) -> usize {
        if matches!(self.nature, Nature::Unequal | Nature::Convoy) { 2 } else { 1 }
    }
}

/// What makes the threads or ranks of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// OpenMP code compiled by gcc, which uses libgomp.
    OpenMpGcc,
    /// OpenMP code compiled by clang, which uses libomp.
    OpenMpClang,
    /// Ranks of MPICH.
    Mpich,
    /// Ranks of Open MPI.
    OpenMpi,
    /// A thread pool without OpenMP, or parallel processes.
    Pool,
    /// One thread.
    Single,
    /// Programs that mostly wait, and servers.
    Other,
}

impl Family {
    /// Returns the name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Family::OpenMpGcc => "openmp-gcc",
            Family::OpenMpClang => "openmp-clang",
            Family::Mpich => "mpich",
            Family::OpenMpi => "openmpi",
            Family::Pool => "pool",
            Family::Single => "single",
            Family::Other => "other",
        }
    }

    /// Returns whether an OpenMP runtime makes the threads.
    pub fn is_openmp(self) -> bool {
        matches!(self, Family::OpenMpGcc | Family::OpenMpClang)
    }
}

/// Where the executable is.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// A command in `PATH`, or an absolute path.
    Command(&'static str),
    /// A program in the folder of the workloads.
    Workload(&'static str),
    /// A program in the folder of `--programs`.
    Given(&'static str),
    /// A program that the input makes in its own folder.
    Made(&'static str),
}

/// How the number of threads or ranks is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// An environment variable has the number.
    Variable(&'static str),
    /// The launcher or the arguments contain the placeholder `{n}`.
    Words,
    /// The number cannot be chosen.
    None,
}

/// What is certain about a program's threads before any run. The truth table follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// All threads have equal work, and meet every millisecond or more often.
    Equal,
    /// The threads meet often. Whether their work is equal is not known.
    Coupled,
    /// As `Coupled`, and the threads spin in the program's own code while they wait, whatever the runtime's waiting policy.
    CoupledSpinning,
    /// The threads compute most of the time. How they wait is not known.
    Parallel,
    /// The work is distributed while the threads run, or the threads meet only at the end: they hardly wait for one another.
    Independent,
    /// One thread has several times the work of the others in each step.
    Unequal,
    /// The threads spend most of their time in one critical section.
    Convoy,
    /// The program waits for this most of the time, with any number of threads.
    Waits(Kind),
    /// One thread computes all the time.
    Serial,
    /// One thread does a large part of the work alone; the threads divide the rest.
    SerialParts,
    /// Nothing is certain.
    Open,
}

/// Replaces the placeholders of one word:
/// - `{n}`: the number of threads or ranks;
/// - `{K/n}` with a number K: K ÷ n, and `{K/n+M}`: K ÷ (n + M), rounded down, at least 1. Programs whose work grows with their threads get
///   fewer rounds this way, so that the work of a run is the same for every number;
/// - `{bind}`: the launcher's binding of ranks.
///
/// Text in braces that is none of these stays as it is.
pub fn fill(word: &str, number: usize, bind: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            text.push('{');
            rest = after;
            continue;
        };
        match value(inside, number, bind) {
            Some(value) => text.push_str(&value),
            None => {
                text.push('{');
                text.push_str(inside);
                text.push('}');
            }
        }
        rest = behind;
    }
    text + rest
}

fn value(placeholder: &str, number: usize, bind: &str) -> Option<String> {
    match placeholder {
        "n" => return Some(number.to_string()),
        "bind" => return Some(bind.to_owned()),
        _ => {}
    }
    let (all, divisor) = placeholder.split_once("/n")?;
    let more = if divisor.is_empty() { 0 } else { divisor.strip_prefix('+')?.parse::<usize>().ok()? };
    Some((all.parse::<usize>().ok()? / (number + more)).max(1).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        let filled = |word| fill(word, 3, "core");
        assert_eq!(filled("-j{n}"), "-j3");
        assert_eq!(filled("{600/n}"), "200");
        assert_eq!(filled("{600/n+2},{bind}"), "120,core");
        assert_eq!(filled("{2/n}"), "1");
        for same in ["{x}", "{", "a}b", "{/n}", "{5/n-1}", ""] {
            assert_eq!(filled(same), same);
        }
    }
}
