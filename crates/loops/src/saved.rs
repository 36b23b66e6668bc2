//! Schedules that were chosen for single loops, in a file: `auto` writes it, and a later run begins with it.
//!
//! The file is text, one item a line; what comes last may contain blanks:
//!
//! ```text
//! coxswain loop schedules 1
//! all yes
//! module 3f6c0d… /home/me/app
//! loop 0 4841 runtime 8 fac2
//! ```
//!
//! A module is a program or library with its build id (`-` if it has none). A loop has the number of its module, the
//! address behind the call that begins it, its clause, the number of threads, and its schedule.

use std::fmt;

use crate::schedule::Schedule;

const FIRST_LINE: &str = "coxswain loop schedules 1";

/// Schedules of single loops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// Whether loops with `dynamic` and `guided` change, too.
    pub all: bool,
    /// The programs and libraries.
    pub modules: Vec<Module>,
    /// The loops.
    pub loops: Vec<SavedLoop>,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its build id, hexadecimal.
    pub build_id: Option<String>,
    /// Its path.
    pub path: String,
}

/// The schedule of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedLoop {
    /// Number of the module.
    pub module: usize,
    /// Address behind the call that begins it, as the module's file counts addresses.
    pub address: u64,
    /// What the program asks for: `runtime`, `dynamic`, …
    pub clause: String,
    /// Threads of the team.
    pub threads: u32,
    /// The schedule.
    pub schedule: Schedule,
}

impl Saved {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The line that is wrong.
    pub fn parse(text: &str) -> Result<Saved, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(FIRST_LINE) {
            return Err(format!("the first line is not '{FIRST_LINE}'"));
        }
        let mut saved = Saved::default();
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            saved.add(line).ok_or_else(|| format!("line {} cannot be read: '{line}'", number + 1))?;
        }
        Ok(saved)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ')?;
        match what {
            "all" => self.all = rest == "yes",
            "module" => {
                let (build_id, path) = rest.split_once(' ')?;
                let build_id = Some(build_id).filter(|id| *id != "-").map(ToOwned::to_owned);
                self.modules.push(Module { build_id, path: path.to_owned() });
            }
            "loop" => {
                let words: Vec<&str> = rest.split(' ').collect();
                let [module, address, clause, threads, schedule] = words[..] else { return None };
                let module = module.parse().ok().filter(|module| *module < self.modules.len())?;
                self.loops.push(SavedLoop {
                    module,
                    address: address.parse().ok()?,
                    clause: clause.to_owned(),
                    threads: threads.parse().ok()?,
                    schedule: schedule.parse().ok()?,
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the schedule of a loop; `None` if it is not in the file. A module may have moved to another folder.
    #[must_use]
    pub fn of(&self, path: &str, address: u64, clause: &str, threads: u32) -> Option<&Schedule> {
        let is_it = |one: &&SavedLoop| {
            (one.address, one.threads, one.clause.as_str()) == (address, threads, clause)
                && self.modules.get(one.module).is_some_and(|module| name(&module.path) == name(path))
        };
        self.loops.iter().find(is_it).map(|one| &one.schedule)
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}\nall {}", if self.all { "yes" } else { "no" })?;
        for Module { build_id, path } in &self.modules {
            writeln!(f, "module {} {path}", build_id.as_deref().unwrap_or("-"))?;
        }
        for SavedLoop { module, address, clause, threads, schedule } in &self.loops {
            writeln!(f, "loop {module} {address} {clause} {threads} {schedule}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let module =
            |id: Option<&str>, path: &str| Module { build_id: id.map(ToOwned::to_owned), path: path.to_owned() };
        let one = |module, address, threads, schedule: &str| SavedLoop {
            module,
            address,
            clause: "runtime".to_owned(),
            threads,
            schedule: schedule.parse().unwrap(),
        };
        Saved {
            all: true,
            modules: vec![module(Some("3f6c"), "/home/me/the app"), module(None, "/lib/b.so")],
            loops: vec![one(0, 100, 2, "fac2"), one(0, 100, 4, "ss,8"), one(1, 100, 2, "tap,4,alpha=1.5")],
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        assert_eq!(Saved::parse(&saved().to_string()), Ok(saved()));
        assert_eq!(Saved::parse(&Saved::default().to_string()), Ok(Saved::default()));
    }

    #[test]
    fn a_loop_is_known_by_module_address_clause_and_threads() {
        let saved = saved();
        let of = |path, address, clause, threads| saved.of(path, address, clause, threads).map(ToString::to_string);
        assert_eq!(of("/opt/the app", 100, "runtime", 2).as_deref(), Some("fac2"));
        assert_eq!(of("/home/me/the app", 100, "runtime", 4).as_deref(), Some("ss,8"));
        assert_eq!(of("/lib/b.so", 100, "runtime", 2).as_deref(), Some("tap,4,alpha=1.5"));
        for (path, address, clause, threads) in [
            ("/home/me/app", 100, "runtime", 2),
            ("/lib/b.so", 101, "runtime", 2),
            ("/lib/b.so", 100, "dynamic", 2),
            ("/lib/b.so", 100, "runtime", 3),
        ] {
            assert_eq!(of(path, address, clause, threads), None);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let first = FIRST_LINE;
        for (text, said) in [
            ("", "the first line is not"),
            ("coxswain loop schedules 2\n", "the first line is not"),
            (&format!("{first}\nloop 0 1 runtime 2 fac2\n"), "line 2 cannot be read"),
            (&format!("{first}\nmodule - /a\n\nloop 0 1 runtime 2 fax2\n"), "line 4 cannot be read"),
            (&format!("{first}\nword\n"), "line 2 cannot be read: 'word'"),
        ] {
            let error = Saved::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
