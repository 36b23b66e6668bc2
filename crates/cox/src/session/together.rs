//! Engines together: an engine made of engines, for one target in one life cycle.
//!
//! They take hold in the given order and let go in reverse. Before the program is let go, all or none: the first
//! that cannot take hold ends the session. After that each stands for itself: one that fails is left alone, and the
//! others go on and have their sections. Only when none is left the whole has failed.

use std::os::fd::BorrowedFd;

use anyhow::{Error, Result, anyhow};
use outputs::diagnostics::chain;

use super::Subject;
use super::engine::Engine;

/// Some engines as one.
pub struct Together<'e> {
    /// In the order in which they take hold.
    parts: Vec<Part<'e>>,
}

struct Part<'e> {
    engine: &'e mut dyn Engine,
    failed: Option<Error>,
}

impl<'e> Together<'e> {
    /// Of these engines, which take hold in this order.
    pub fn new(engines: Vec<&'e mut dyn Engine>) -> Together<'e> {
        Together { parts: engines.into_iter().map(|engine| Part { engine, failed: None }).collect() }
    }

    /// What went wrong after the program was let go, for each engine in the order in which they were given. Not
    /// told again when all have failed: that was the whole's error.
    pub fn into_failures(self) -> Vec<Option<Error>> {
        self.parts.into_iter().map(|part| part.failed).collect()
    }

    /// Something that every engine that works does.
    fn each(&mut self, mut act: impl FnMut(&mut dyn Engine) -> Result<()>) -> Result<()> {
        for part in self.parts.iter_mut().filter(|part| part.failed.is_none()) {
            part.failed = act(part.engine).err();
        }
        self.unless_all_failed()
    }

    fn unless_all_failed(&mut self) -> Result<()> {
        if self.parts.iter().any(|part| part.failed.is_none()) {
            return Ok(());
        }
        let failures = self.parts.iter_mut().filter_map(|part| part.failed.take());
        match failures.reduce(|first, next| anyhow!("{}; {}", chain(&first), chain(&next))) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Engine for Together<'_> {
    fn apply(&mut self, subject: &Subject) -> Result<()> {
        for at in 0..self.parts.len() {
            if let Err(error) = self.parts[at].engine.apply(subject) {
                for earlier in self.parts[..at].iter_mut().rev() {
                    // The session ends with the first error; what cannot be undone now is when the engine goes.
                    let _ = earlier.engine.undo();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Not of those that have failed: nobody would read there any more.
    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        self.parts.iter().filter(|part| part.failed.is_none()).flat_map(|part| part.engine.readiness()).collect()
    }

    fn tick(&mut self) -> Result<()> {
        self.each(|engine| engine.tick())
    }

    fn anything_alive(&mut self) -> Result<bool> {
        let mut alive = false;
        self.each(|engine| {
            alive |= engine.anything_alive()?;
            Ok(())
        })?;
        Ok(alive)
    }

    /// Also of those that have failed: whatever they still hold goes back.
    fn undo(&mut self) -> Result<()> {
        for part in self.parts.iter_mut().rev() {
            let undone = part.engine.undo();
            part.failed = part.failed.take().or(undone.err());
        }
        self.unless_all_failed()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::fd::AsFd;

    use anyhow::bail;

    use super::super::{Exit, Launch, Limits, Target, run};
    use super::*;

    /// Says what happens to it, and fails where it is told to.
    struct Told<'l> {
        name: &'static str,
        fails: &'static str,
        log: &'l RefCell<Vec<String>>,
        file: File,
    }

    impl<'l> Told<'l> {
        fn new(name: &'static str, fails: &'static str, log: &'l RefCell<Vec<String>>) -> Told<'l> {
            // Always readable.
            Told { name, fails, log, file: File::open("/dev/null").unwrap() }
        }

        fn told(&self, what: &str) -> Result<()> {
            self.log.borrow_mut().push(format!("{} {what}", self.name));
            if self.fails == what {
                bail!("{} {what} failed", self.name);
            }
            Ok(())
        }
    }

    impl Engine for Told<'_> {
        fn apply(&mut self, _: &Subject) -> Result<()> {
            self.told("apply")
        }

        fn readiness(&self) -> Vec<BorrowedFd<'_>> {
            vec![self.file.as_fd()]
        }

        fn tick(&mut self) -> Result<()> {
            self.told("tick")
        }

        fn anything_alive(&mut self) -> Result<bool> {
            self.told("alive")?;
            Ok(self.name == "b")
        }

        fn undo(&mut self) -> Result<()> {
            self.told("undo")
        }
    }

    /// Two engines, `a` and `b`, that fail where they are told to, over a program that exits with 7.
    fn session(fails: [&'static str; 2]) -> (Vec<String>, Result<Option<String>>, Vec<Option<String>>) {
        let log = RefCell::new(Vec::new());
        let (mut a, mut b) = (Told::new("a", fails[0], &log), Told::new("b", fails[1], &log));
        let mut together = Together::new(vec![&mut a, &mut b]);
        let command = ["sh", "-c", "sleep 0.1; exit 7"].map(OsString::from).to_vec();
        let outcome =
            run(&Target::Launch(vec![Launch { command, ..Launch::default() }]), &mut together, Limits::default());
        let failed = outcome.map(|outcome| {
            assert_eq!(outcome.exit, Some(Exit::Code(7)));
            outcome.failed.map(|error| error.to_string())
        });
        let failures = together.into_failures().into_iter().map(|failed| failed.map(|error| error.to_string()));
        let failures = failures.collect();
        (log.into_inner(), failed, failures)
    }

    fn ticks(log: &[String], name: &str) -> usize {
        log.iter().filter(|line| **line == format!("{name} tick")).count()
    }

    fn but_ticks(log: Vec<String>) -> Vec<String> {
        log.into_iter().filter(|line| !line.ends_with("tick")).collect()
    }

    #[test]
    fn they_take_hold_in_order_and_let_go_in_reverse() {
        let (log, failed, failures) = session(["", ""]);
        assert!(ticks(&log, "a") > 0 && ticks(&log, "a") == ticks(&log, "b"));
        assert_eq!(but_ticks(log), ["a apply", "b apply", "b undo", "a undo"]);
        assert_eq!((failed.unwrap(), failures), (None, vec![None, None]));
    }

    #[test]
    fn all_or_none_take_hold() {
        let (log, failed, _) = session(["", "apply"]);
        assert_eq!(log, ["a apply", "b apply", "a undo"]);
        assert_eq!(failed.unwrap_err().to_string(), "b apply failed");
    }

    #[test]
    fn one_that_fails_takes_nothing_from_the_other() {
        let (log, failed, failures) = session(["tick", ""]);
        assert_eq!(failed.unwrap(), None);
        assert_eq!(failures, [Some("a tick failed".to_owned()), None]);
        assert!(ticks(&log, "a") == 1 && ticks(&log, "b") > 1, "a is left alone");
        assert_eq!(but_ticks(log), ["a apply", "b apply", "b undo", "a undo"]);
        let (log, failed, failures) = session(["undo", "undo"]);
        assert_eq!(failed.unwrap().as_deref(), Some("a undo failed; b undo failed"));
        assert_eq!((failures, log.last().map(String::as_str)), (vec![None, None], Some("a undo")));
    }

    #[test]
    fn what_has_failed_is_not_waited_for() {
        let log = RefCell::new(Vec::new());
        let (mut a, mut b) = (Told::new("a", "tick", &log), Told::new("b", "", &log));
        let mut together = Together::new(vec![&mut a, &mut b]);
        assert_eq!(together.readiness().len(), 2);
        together.tick().unwrap();
        assert_eq!(together.readiness().len(), 1);
        assert!(together.anything_alive().unwrap(), "b says so");
    }
}
