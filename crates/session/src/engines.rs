//! The list of a session's engines.
//!
//! Engines are probed in reverse order, so that the first engine, which also attaches first, observes as little as
//! possible of the loading of the others. They attach in the given order and detach in reverse. Before the program
//! starts, all engines attach or none does: the first failure ends the session. After the start, engines are
//! independent: if one fails, the others continue and return their results.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Error, Result};

use crate::control::Control;
use crate::engine::{Ended, Engine, NoCommand};
use crate::target::{Launch, Subject, Target};

/// The engines, in the order in which they attach.
#[derive(Default)]
pub struct Engines {
    members: Vec<Member>,
}

/// Results and errors of the engines, by engine name.
#[derive(Default)]
pub struct Findings(BTreeMap<&'static str, Finding>);

#[derive(Default)]
struct Finding {
    section: Option<Box<dyn Any>>,
    failure: Option<Error>,
    unrestored: Vec<String>,
}

impl Findings {
    /// Removes the result of an engine from the findings, and returns it.
    pub fn section<E: Engine>(&mut self) -> Option<E::Section> {
        let section = self.0.get_mut(E::NAME)?.section.take()?;
        section.downcast().ok().map(|section| *section)
    }

    /// Removes the error of an engine from the findings, and returns it, if the engine failed after the target was
    /// started.
    pub fn failure<E: Engine>(&mut self) -> Option<Error> {
        self.0.get_mut(E::NAME)?.failure.take()
    }

    /// Removes all remaining errors from the findings, and returns them with the names of their engines.
    pub fn failures(&mut self) -> Vec<(&'static str, Error)> {
        let failures = self.0.iter_mut().filter_map(|(name, finding)| Some((*name, finding.failure.take()?)));
        failures.collect()
    }

    /// Returns the changes that the engines could not restore, one line each.
    #[must_use]
    pub fn unrestored(&self) -> Vec<String> {
        self.0.values().flat_map(|finding| finding.unrestored.iter().cloned()).collect()
    }
}

/// The interface of an engine without its associated types, so that engines of different types fit into one list.
trait Part {
    fn name(&self) -> &'static str;
    fn probe(&mut self, target: &Target) -> Result<()>;
    fn prepare(&mut self, launch: &mut Launch) -> Result<()>;
    fn apply(&mut self, subject: &Subject) -> Result<()>;
    fn on_start(&mut self);
    fn on_end(&mut self);
    fn readiness(&self) -> Vec<BorrowedFd<'_>>;
    fn tick_every(&self) -> Duration;
    fn tick(&mut self) -> Result<()>;
    fn snapshot(&mut self) -> Result<Option<Box<dyn Any>>>;
    fn anything_alive(&mut self) -> Result<bool>;
    fn undo(&mut self) -> Result<()>;
    fn unrestored(&self) -> Vec<String>;
    fn section(&mut self, ended: &Ended) -> Result<Box<dyn Any>>;
}

/// An engine of the list, and its error.
struct Member {
    part: Box<dyn Part>,
    failed: Option<Error>,
}

/// An engine with its command socket.
struct One<E> {
    engine: E,
    control: Option<Control>,
}

impl<E: Engine> Part for One<E> {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn probe(&mut self, target: &Target) -> Result<()> {
        self.engine.probe(target)
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        self.engine.prepare(launch)
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        if TypeId::of::<E::Command>() != TypeId::of::<NoCommand>() {
            // The socket is optional: without it the engine still works, and clients get an error. It is opened before
            // the engine attaches, so that a process that sees the engine's effect can already send commands.
            self.control = Control::open(E::NAME, &subject.pids()).ok();
        }
        self.engine.apply(subject)
    }

    fn on_start(&mut self) {
        self.engine.on_start();
    }

    fn on_end(&mut self) {
        self.engine.on_end();
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        let clients = self.control.iter().flat_map(Control::readiness);
        self.engine.readiness().into_iter().chain(clients).collect()
    }

    fn tick_every(&self) -> Duration {
        self.engine.tick_every()
    }

    fn tick(&mut self) -> Result<()> {
        if let Err(error) = self.engine.tick() {
            // Closes the socket, so that clients learn that the engine has stopped.
            self.control = None;
            return Err(error);
        }
        if let Some(control) = &mut self.control {
            control.serve(|command| self.engine.command(command));
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Option<Box<dyn Any>>> {
        Ok(self.engine.snapshot()?.map(|section| Box::new(section) as Box<dyn Any>))
    }

    fn anything_alive(&mut self) -> Result<bool> {
        self.engine.anything_alive()
    }

    fn undo(&mut self) -> Result<()> {
        self.control = None;
        self.engine.undo()
    }

    fn unrestored(&self) -> Vec<String> {
        self.engine.unrestored()
    }

    fn section(&mut self, ended: &Ended) -> Result<Box<dyn Any>> {
        Ok(Box::new(self.engine.section(ended)?))
    }
}

impl Engines {
    /// Returns an empty list.
    #[must_use]
    pub fn new() -> Engines {
        Engines::default()
    }

    /// Adds an engine, which attaches after those before it.
    #[must_use]
    pub fn with<E: Engine + 'static>(self, engine: E) -> Engines {
        self.and(Some(engine))
    }

    /// Adds an optional engine.
    #[must_use]
    pub fn and<E: Engine + 'static>(mut self, engine: Option<E>) -> Engines {
        let member = |engine| Member { part: Box::new(One { engine, control: None }), failed: None };
        self.members.extend(engine.map(member));
        self
    }

    /// Checks whether all engines can work.
    pub(crate) fn probe(&mut self, target: &Target) -> Result<()> {
        self.members.iter_mut().rev().try_for_each(|member| member.part.probe(target))
    }

    /// Lets each engine add environment variables or the preload library to the program.
    pub(crate) fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.part.prepare(launch))
    }

    /// Attaches all engines, or none.
    pub(crate) fn apply(&mut self, subject: &Subject) -> Result<()> {
        for at in 0..self.members.len() {
            if let Err(error) = self.members[at].part.apply(subject) {
                for earlier in self.members[..at].iter_mut().rev() {
                    // The first error is returned. Changes that cannot be undone here are undone when the engine is
                    // dropped.
                    let _ = earlier.part.undo();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Tells all engines that the target starts now.
    pub(crate) fn on_start(&mut self) {
        self.members.iter_mut().for_each(|member| member.part.on_start());
    }

    /// Tells all engines that the target has ended.
    pub(crate) fn on_end(&mut self) {
        self.members.iter_mut().for_each(|member| member.part.on_end());
    }

    /// Returns whether an engine is left that has not failed.
    pub(crate) fn any_works(&self) -> bool {
        self.members.iter().any(|member| member.failed.is_none())
    }

    /// Returns the descriptors of the engines that have not failed. Those of failed engines are left out, because
    /// nothing would read them.
    pub(crate) fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        self.members
            .iter()
            .filter(|member| member.failed.is_none())
            .flat_map(|member| member.part.readiness())
            .collect()
    }

    /// Returns the shortest time between two ticks that an engine wants; `None` if all engines have failed.
    pub(crate) fn tick_every(&self) -> Option<Duration> {
        let working = self.members.iter().filter(|member| member.failed.is_none());
        working.map(|member| member.part.tick_every()).min()
    }

    pub(crate) fn tick(&mut self) {
        self.each(|part| part.tick());
    }

    pub(crate) fn anything_alive(&mut self) -> bool {
        let mut alive = false;
        self.each(|part| {
            alive |= part.anything_alive()?;
            Ok(())
        });
        alive
    }

    /// Returns the snapshots of the engines that have not failed.
    pub(crate) fn snapshot(&mut self) -> Findings {
        let mut findings = Findings::default();
        self.each(|part| {
            let section = part.snapshot()?;
            findings.0.insert(part.name(), Finding { section, ..Finding::default() });
            Ok(())
        });
        findings
    }

    /// Detaches all engines, including failed ones, which may still have changes to revert.
    pub(crate) fn undo(&mut self) {
        for Member { part, failed } in self.members.iter_mut().rev() {
            let undone = part.undo();
            *failed = failed.take().or(undone.err());
        }
    }

    /// Returns the changes that the engines could not restore, one line each, after `undo`.
    pub(crate) fn unrestored(&self) -> Vec<String> {
        self.members.iter().flat_map(|member| member.part.unrestored()).collect()
    }

    /// Removes the errors of all engines that have failed so far, and returns these errors.
    pub(crate) fn failures(&mut self) -> Vec<Error> {
        self.members.iter_mut().filter_map(|member| member.failed.take()).collect()
    }

    /// Returns the results of all engines, after `undo`.
    pub(crate) fn into_findings(self, ended: &Ended) -> Findings {
        let finding = |Member { mut part, failed }: Member| {
            let unrestored = part.unrestored();
            let (section, failure) = match part.section(ended) {
                Ok(section) => (Some(section), failed),
                Err(error) => (None, failed.or(Some(error))),
            };
            (part.name(), Finding { section, failure, unrestored })
        };
        Findings(self.members.into_iter().map(finding).collect())
    }

    /// Calls `act` for each engine that has not failed.
    fn each(&mut self, mut act: impl FnMut(&mut dyn Part) -> Result<()>) {
        for Member { part, failed } in self.members.iter_mut().filter(|member| member.failed.is_none()) {
            *failed = act(part.as_mut()).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::rc::Rc;

    use anyhow::bail;

    use super::*;
    use crate::life::{Limits, run};
    use crate::target::Exit;

    type Log = Rc<RefCell<Vec<String>>>;

    /// `a` or `b`: says what happens to it, and fails where it is told to.
    struct Recorder<const IS_B: bool> {
        fails: &'static str,
        log: Log,
        file: File,
    }

    impl<const IS_B: bool> Recorder<IS_B> {
        fn new(fails: &'static str, log: &Log) -> Self {
            // Always readable.
            Recorder { fails, log: Rc::clone(log), file: File::open("/dev/null").unwrap() }
        }

        fn told(&self, what: &str) -> Result<()> {
            let name = Self::NAME;
            self.log.borrow_mut().push(format!("{name} {what}"));
            if self.fails == what {
                bail!("{name} {what} failed");
            }
            Ok(())
        }
    }

    impl<const IS_B: bool> Engine for Recorder<IS_B> {
        const NAME: &'static str = if IS_B { "b" } else { "a" };
        type Section = &'static str;
        type Command = NoCommand;

        fn probe(&mut self, _: &Target) -> Result<()> {
            self.told("probe")
        }

        fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
            launch.variables.push((Self::NAME.into(), "prepared".into()));
            self.told("prepare")
        }

        fn apply(&mut self, _: &Subject) -> Result<()> {
            self.told("apply")
        }

        fn on_start(&mut self) {
            self.log.borrow_mut().push(format!("{} start", Self::NAME));
        }

        fn on_end(&mut self) {
            self.log.borrow_mut().push(format!("{} end", Self::NAME));
        }

        fn readiness(&self) -> Vec<BorrowedFd<'_>> {
            vec![self.file.as_fd()]
        }

        fn tick(&mut self) -> Result<()> {
            self.told("tick")
        }

        fn anything_alive(&mut self) -> Result<bool> {
            self.told("alive")?;
            Ok(IS_B)
        }

        fn undo(&mut self) -> Result<()> {
            self.told("undo")
        }

        fn unrestored(&self) -> Vec<String> {
            (self.fails == "restore").then(|| format!("{} left", Self::NAME)).into_iter().collect()
        }

        fn section(&mut self, _: &Ended) -> Result<&'static str> {
            self.told("section")?;
            Ok(Self::NAME)
        }
    }

    type A = Recorder<false>;
    type B = Recorder<true>;

    /// Whether there is a section of each, what went wrong with each, and what was not restored.
    type Found = ([bool; 2], [Option<String>; 2], Vec<String>);

    /// Two engines, `a` and `b`, that fail where they are told to, over a program that exits with 7.
    fn session(fails: [&'static str; 2]) -> (Vec<String>, Result<Found>) {
        let log = Log::default();
        let engines = Engines::new().with(A::new(fails[0], &log)).with(B::new(fails[1], &log));
        let script = "sleep 0.1; test $a$b = preparedprepared && exit 7";
        let command = ["sh", "-c", script].map(OsString::from).to_vec();
        let target = Target::Launch(vec![Launch { command, ..Launch::default() }]);
        let found = run(&target, engines, Limits::default()).map(|outcome| {
            assert_eq!(outcome.ended.exit, Some(Exit::Code(7)));
            let mut findings = outcome.findings;
            let sections = [findings.section::<A>() == Some("a"), findings.section::<B>() == Some("b")];
            let failures = [findings.failure::<A>(), findings.failure::<B>()];
            assert!(findings.failures().is_empty(), "all are taken");
            (sections, failures.map(|failed| failed.map(|error| error.to_string())), findings.unrestored())
        });
        (log.take(), found)
    }

    fn ticks(log: &[String], name: &str) -> usize {
        log.iter().filter(|line| **line == format!("{name} tick")).count()
    }

    fn but_ticks(log: Vec<String>) -> Vec<String> {
        log.into_iter().filter(|line| !line.ends_with("tick")).collect()
    }

    const BEFORE: [&str; 4] = ["b probe", "a probe", "a prepare", "b prepare"];
    const WHOLE: [&str; 10] =
        ["a apply", "b apply", "a start", "b start", "a end", "b end", "b undo", "a undo", "a section", "b section"];

    #[test]
    fn they_take_hold_in_order_and_let_go_in_reverse() {
        let (log, found) = session(["", ""]);
        assert!(ticks(&log, "a") > 0 && ticks(&log, "a") == ticks(&log, "b"));
        assert_eq!(but_ticks(log), [&BEFORE[..], &WHOLE].concat());
        assert_eq!(found.unwrap(), ([true, true], [None, None], vec![]));
    }

    #[test]
    fn all_or_none_take_hold() {
        let (log, found) = session(["", "apply"]);
        assert_eq!(log, [&BEFORE[..], &["a apply", "b apply", "a undo"]].concat());
        assert_eq!(found.unwrap_err().to_string(), "b apply failed");
    }

    #[test]
    fn one_that_cannot_work_here_ends_the_session_before_anything_starts() {
        let (log, found) = session(["probe", ""]);
        assert_eq!(log, ["b probe", "a probe"]);
        assert_eq!(found.unwrap_err().to_string(), "a probe failed");
    }

    #[test]
    fn one_that_fails_takes_nothing_from_the_other() {
        let failed = |text: &str| Some(text.to_owned());
        let (log, found) = session(["tick", ""]);
        assert_eq!(found.unwrap(), ([true, true], [failed("a tick failed"), None], vec![]));
        assert!(ticks(&log, "a") == 1 && ticks(&log, "b") > 1, "a is left alone");
        assert_eq!(but_ticks(log), [&BEFORE[..], &WHOLE].concat());
        let (log, found) = session(["undo", "undo"]);
        assert_eq!(found.unwrap(), ([true, true], [failed("a undo failed"), failed("b undo failed")], vec![]));
        assert_eq!(log[log.len() - 3..], ["a undo", "a section", "b section"]);
        let (_, found) = session(["section", ""]);
        assert_eq!(found.unwrap(), ([false, true], [failed("a section failed"), None], vec![]));
    }

    #[test]
    fn what_is_not_restored_is_no_failure_of_an_engine() {
        let (_, found) = session(["restore", "restore"]);
        assert_eq!(found.unwrap(), ([true, true], [None, None], vec!["a left".into(), "b left".into()]));
    }

    #[test]
    fn what_has_failed_is_not_waited_for() {
        let log = Log::default();
        let mut engines = Engines::new().with(A::new("tick", &log)).with(B::new("", &log));
        assert_eq!(engines.readiness().len(), 2);
        engines.tick();
        assert_eq!((engines.readiness().len(), engines.any_works()), (1, true));
        assert!(engines.anything_alive(), "b says so");
    }
}
