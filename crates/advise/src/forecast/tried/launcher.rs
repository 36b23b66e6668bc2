//! The command line of a launcher of parallel programs: how many ranks it starts, and the same command with another number.
//!
//! The number is the value of an option (`-n 4`, `-np 4`, `--np=4`), which must come before the program: the program may have an option `-n`
//! of its own. Only options whose number of values is known are skipped. After an unknown option, the next word could be its value or the program, so
//! the command counts as not understood. That loses one way to try, while a wrong number would compare different programs.
//!
//! Slurm's `srun` is not among the launchers: a daemon starts its ranks, on other CPUs than those of cox.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::launchers;

/// Options for the number of ranks.
const NUMBER: [&str; 4] = ["-n", "-np", "--n", "--np"];

/// Options with two values, without their dashes.
const TWO: &str = "mca prtemca pmixmca gmca env genv";

/// Options with one value, without their dashes.
const ONE: &str = "bind-to map-by rank-by x hostfile machinefile host H hosts f wdir wd path prefix N npernode ppn perhost output \
    timeout cpu-set stdin tune am envlist genvlist iface launcher rmk rank-file rf outfile-pattern errfile-pattern";

/// Options without a value, without their dashes.
const NONE: &str = "allow-run-as-root oversubscribe nooversubscribe use-hwthread-cpus report-bindings tag-output display-map v \
    verbose quiet bind-to-none bind-to-core bind-to-socket bynode byslot genvall genvnone envall envnone l \
    prepend-rank";

/// The number of ranks in a launcher's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Number of ranks.
    pub count: u64,
    /// Index of the word with the number.
    at: usize,
    /// What comes before the number in this word, such as `--np=`.
    before: String,
}

/// Returns whether a command starts a launcher of parallel programs.
pub fn is_launcher(command: &[OsString]) -> bool {
    let name = command.first().and_then(|word| Path::new(word).file_name()).and_then(OsStr::to_str);
    name.is_some_and(|name| launchers::PARALLEL.contains(&name))
}

/// Returns the number of ranks that a launcher's command starts; `None` if it is not given, or the command is not understood.
pub fn ranks(command: &[OsString]) -> Option<Ranks> {
    if !is_launcher(command) {
        return None;
    }
    let words: Vec<&str> = command.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    // Several programs with a number each.
    if words.contains(&":") {
        return None;
    }
    let mut found: Option<Ranks> = None;
    let mut at = 1;
    loop {
        let word = *words.get(at)?;
        if !word.starts_with('-') || word == "-" {
            return found;
        }
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        if NUMBER.contains(&option) {
            let (place, before) = if value.is_some() { (at, format!("{option}=")) } else { (at + 1, String::new()) };
            let count = value.or(words.get(place).copied())?.parse().ok().filter(|count| *count > 0)?;
            // Which of two numbers counts depends on the launcher.
            if found.replace(Ranks { count, at: place, before }).is_some() {
                return None;
            }
            at = place + 1;
            continue;
        }
        let is_one_of = |names: &str| names.split(' ').any(|name| name == option.trim_start_matches('-'));
        at += match () {
            () if value.is_some() || is_one_of(NONE) => 1,
            () if is_one_of(ONE) => 2,
            () if is_one_of(TWO) => 3,
            () => return None,
        };
    }
}

/// Returns the command with another number of ranks.
pub fn with_ranks(command: &[OsString], ranks: &Ranks, count: u64) -> Vec<OsString> {
    let mut command = command.to_vec();
    if let Some(word) = command.get_mut(ranks.at) {
        *word = format!("{}{count}", ranks.before).into();
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn with_two(line: &str) -> Option<(u64, String)> {
        let command = words(line);
        let ranks = ranks(&command)?;
        let changed = with_ranks(&command, &ranks, 2);
        Some((ranks.count, changed.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")))
    }

    #[test]
    fn the_number_is_found_and_replaced() {
        for (line, count, expected) in [
            ("mpirun -n 3 ./app -n 7", 3, "mpirun -n 2 ./app -n 7"),
            ("/usr/bin/mpiexec.hydra -np 4 lmp -in x", 4, "/usr/bin/mpiexec.hydra -np 2 lmp -in x"),
            (
                "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 16 ./app",
                16,
                "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n 2 ./app",
            ),
            (
                "mpirun --mca btl self,vader -x OMP_NUM_THREADS=1 --np 3 ./app",
                3,
                "mpirun --mca btl self,vader -x OMP_NUM_THREADS=1 --np 2 ./app",
            ),
            ("mpirun -n 3 --bind-to=core ./app", 3, "mpirun -n 2 --bind-to=core ./app"),
            ("prterun --np=8 ./app", 8, "prterun --np=2 ./app"),
            ("mpiexec -genv A b -n 3 ./app", 3, "mpiexec -genv A b -n 2 ./app"),
        ] {
            assert_eq!(with_two(line), Some((count, expected.to_owned())), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for line in [
            "./app -n 3",
            "mpirun ./app -n 3",
            "mpirun",
            "mpirun -n",
            "mpirun -n 3",
            "mpirun -n x ./app",
            "mpirun -n 0 ./app",
            "mpirun -n 1 ./a : -n 2 ./b",
            "mpirun -n 1 -np 2 ./a",
            // The value of an unknown option could be the program.
            "mpirun --unknown -n 3 ./app",
            "mpirun --unknown x -n 3 ./app",
            "timeout 9 mpirun -n 3 ./app",
        ] {
            assert_eq!(with_two(line), None, "{line}");
        }
    }

    #[test]
    fn launchers_are_known_by_their_names() {
        assert!(["mpirun", "/opt/x/bin/mpiexec", "orterun -n 2 x"].iter().all(|line| is_launcher(&words(line))));
        assert!(["./mpirunner", "app", "sh mpirun", "srun -n 2 x"].iter().all(|line| !is_launcher(&words(line))));
    }
}
