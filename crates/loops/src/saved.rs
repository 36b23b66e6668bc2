//! What was found out about single loops, in a file: `auto` writes the schedules that it has selected, `profile` what it has measured, and a later run
//! uses them.
//!
//! The file is text, one item a line; what comes last may contain blanks:
//!
//! ```text
//! coxswain loop schedules 1
//! all yes
//! module 3f6c0d… /home/me/app
//! loop 0 4841 runtime 8 fac2
//! profile 0 4841 runtime 8 mean_ns=210.5,deviation_ns=40,overhead_ns=25
//! ```
//!
//! A module is a program or library with its build id (`-` if it has none). A loop has the number of its module, the
//! address behind the call that begins it, its clause, the number of threads, and its schedule. A profile has the same names, and facts about the
//! loop as `--schedule-inputs` takes them.

use std::fmt;

use crate::inputs::Inputs;
use crate::options::parse_inputs;
use crate::schedule::Schedule;

const FIRST_LINE: &str = "coxswain loop schedules 1";

/// Schedules and profiles of single loops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// Whether loops with `dynamic` and `guided` change, too.
    pub all: bool,
    /// The programs and libraries.
    pub modules: Vec<Module>,
    /// The schedules.
    pub loops: Vec<SavedLoop<Schedule>>,
    /// What was measured.
    pub profiles: Vec<SavedLoop<Inputs>>,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its build id, hexadecimal.
    pub build_id: Option<String>,
    /// Its path.
    pub path: String,
}

/// A loop, and what was found out about it.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedLoop<Found> {
    /// Number of the module.
    pub module: usize,
    /// Address behind the call that begins it, as the module's file counts addresses.
    pub address: u64,
    /// What the program asks for: `runtime`, `dynamic`, …
    pub clause: String,
    /// Threads of the team.
    pub threads: u32,
    /// What was found out.
    pub found: Found,
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
            "loop" => self.loops.push(self.parse_loop(rest, |schedule| schedule.parse().ok())?),
            "profile" => self.profiles.push(self.parse_loop(rest, |inputs| parse_inputs(inputs).ok())?),
            _ => return None,
        }
        Some(())
    }

    fn parse_loop<F>(&self, rest: &str, found: impl Fn(&str) -> Option<F>) -> Option<SavedLoop<F>> {
        let words: Vec<&str> = rest.split(' ').collect();
        let [module, address, clause, threads, text] = words[..] else { return None };
        Some(SavedLoop {
            module: module.parse().ok().filter(|module| *module < self.modules.len())?,
            address: address.parse().ok()?,
            clause: clause.to_owned(),
            threads: threads.parse().ok()?,
            found: found(text)?,
        })
    }

    /// Returns the schedule of a loop; `None` if it is not in the file. A module may have moved to another folder.
    #[must_use]
    pub fn of(&self, path: &str, address: u64, clause: &str, threads: u32) -> Option<&Schedule> {
        self.find(&self.loops, path, address, clause, threads).map(|number| &self.loops[number].found)
    }

    /// Returns the number of a loop's profile; `None` if it is not in the file.
    #[must_use]
    pub fn profile(&self, path: &str, address: u64, clause: &str, threads: u32) -> Option<usize> {
        self.find(&self.profiles, path, address, clause, threads)
    }

    fn find<F>(&self, all: &[SavedLoop<F>], path: &str, address: u64, clause: &str, threads: u32) -> Option<usize> {
        let is_it = |one: &SavedLoop<F>| {
            (one.address, one.threads, one.clause.as_str()) == (address, threads, clause)
                && self.modules.get(one.module).is_some_and(|module| name(&module.path) == name(path))
        };
        all.iter().position(is_it)
    }

    /// Returns the number of a module; adds it if it is not there yet.
    pub fn module(&mut self, path: &str, build_id: impl Fn(&str) -> Option<String>) -> usize {
        let known = self.modules.iter().position(|module| module.path == path);
        known.unwrap_or_else(|| {
            self.modules.push(Module { build_id: build_id(path), path: path.to_owned() });
            self.modules.len() - 1
        })
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
        for SavedLoop { module, address, clause, threads, found } in &self.loops {
            writeln!(f, "loop {module} {address} {clause} {threads} {found}")?;
        }
        for SavedLoop { module, address, clause, threads, found } in &self.profiles {
            writeln!(f, "profile {module} {address} {clause} {threads} {found}")?;
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
            found: schedule.parse().unwrap(),
        };
        let profile = |module, address, threads, inputs: &str| SavedLoop {
            module,
            address,
            clause: "runtime".to_owned(),
            threads,
            found: parse_inputs(inputs).unwrap(),
        };
        Saved {
            all: true,
            modules: vec![module(Some("3f6c"), "/home/me/the app"), module(None, "/lib/b.so")],
            loops: vec![one(0, 100, 2, "fac2"), one(0, 100, 4, "ss,8"), one(1, 100, 2, "tap,4,alpha=1.5")],
            profiles: vec![profile(0, 100, 2, "mean_ns=210.5,overhead_ns=25"), profile(1, 100, 2, "mean_ns=3")],
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
            assert_eq!(saved.profile(path, address, clause, threads), None);
        }
        assert_eq!(saved.profile("/opt/the app", 100, "runtime", 2), Some(0));
        assert_eq!(saved.profile("/lib/b.so", 100, "runtime", 2), Some(1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let first = FIRST_LINE;
        for (text, said) in [
            ("", "the first line is not"),
            ("coxswain loop schedules 2\n", "the first line is not"),
            (&format!("{first}\nloop 0 1 runtime 2 fac2\n"), "line 2 cannot be read"),
            (&format!("{first}\nmodule - /a\n\nloop 0 1 runtime 2 fax2\n"), "line 4 cannot be read"),
            (&format!("{first}\nmodule - /a\nprofile 0 1 runtime 2 mean=3\n"), "line 3 cannot be read"),
            (&format!("{first}\nword\n"), "line 2 cannot be read: 'word'"),
        ] {
            let error = Saved::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
