//! The corpus: programs that nobody wrote for cox, and cox's own workloads, whose behaviour is known.

mod built;
mod compiled;
mod debian;
mod found;
mod inputs;
pub mod program;
mod servers;
mod workloads;

pub use found::{Ready, find, prepare};

use program::Program;

/// Returns all programs, in the order in which they are measured.
pub fn all() -> Vec<&'static Program> {
    let tables = [workloads::PROGRAMS, compiled::PROGRAMS, debian::PROGRAMS, servers::PROGRAMS, built::PROGRAMS];
    tables.into_iter().flatten().collect()
}

/// Returns whether a word of `--only` means this program: its name, the beginning of its name before a hyphen or point, or its family.
pub fn is_meant(program: &Program, word: &str) -> bool {
    let begins = program.name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']));
    begins || program.family.name() == word
}

#[cfg(test)]
mod tests {
    use super::program::{Family, Find, Knob};
    use super::*;

    #[test]
    fn names_are_unique_and_no_family() {
        let programs = all();
        for program in &programs {
            assert_eq!(programs.iter().filter(|other| other.name == program.name).count(), 1, "{}", program.name);
            assert!(programs.iter().all(|other| other.family.name() != program.name), "{}", program.name);
        }
    }

    #[test]
    fn every_number_of_threads_reaches_the_program() {
        for program in all() {
            let words: Vec<&str> = program.launcher.iter().chain(program.arguments).copied().collect();
            let has = words.iter().any(|word| word.contains("{n}"));
            assert_eq!(has, program.knob == Knob::Words, "{}", program.name);
            let ranks = matches!(program.family, Family::Mpich | Family::OpenMpi);
            assert!(!ranks || !program.launcher.is_empty(), "{}", program.name);
            let given = matches!(program.find, Find::Given(_));
            assert_eq!(given, program.from.contains("--programs"), "{}", program.name);
        }
    }

    #[test]
    fn words_choose_programs_and_families() {
        let chosen = |word| all().into_iter().filter(|program| is_meant(program, word)).count();
        assert_eq!(chosen("pigz"), 1);
        assert!(chosen("lammps") == 1 && chosen("stencil") == 2 && chosen("mpich") >= 1 && chosen("bt") >= 2);
        assert_eq!(chosen("pig") + chosen("nothing"), 0);
    }
}
