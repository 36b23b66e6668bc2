//! An engine on the machine itself, made of nothing but the contract: how busy the CPUs are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use machine::Root;
use machine::busy::busy_ns;
use serde::Deserialize;
use session::control::{Found, session_of};
use session::{Ended, Engine, Engines, Limits, Live, Subject, Target, run};

/// The engine.
#[derive(Default)]
struct Busy {
    begun_ns: Option<u64>,
    ticks: u64,
    /// What it was told to watch for, and is put back.
    label: Option<String>,
}

#[derive(Deserialize)]
struct Label(String);

/// CPU time of all CPUs, ticks, and the label.
type Section = (u64, u64, Option<String>);

fn all_busy_ns() -> Result<u64> {
    Ok(busy_ns(&Root::live())?.values().sum())
}

impl Engine for Busy {
    const NAME: &'static str = "busy";
    type Section = Section;
    type Command = Label;

    fn probe(&mut self, target: &Target) -> Result<()> {
        ensure!(matches!(target, Target::Machine), "this is about the machine");
        busy_ns(&Root::live()).map(|_| ()).context("/proc/stat tells it")
    }

    fn apply(&mut self, _: &Subject) -> Result<()> {
        self.begun_ns = Some(all_busy_ns()?);
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        self.ticks += 1;
        Ok(())
    }

    fn command(&mut self, Label(label): Label) -> Result<String> {
        self.label = Some(label);
        Ok(format!("after {} ticks", self.ticks))
    }

    fn snapshot(&mut self) -> Result<Option<Section>> {
        let begun_ns = self.begun_ns.context("not begun")?;
        Ok(Some((all_busy_ns()?.saturating_sub(begun_ns), self.ticks, self.label.clone())))
    }

    fn undo(&mut self) -> Result<()> {
        Ok(())
    }

    fn section(&mut self, _: &Ended) -> Result<Section> {
        self.snapshot()?.context("it knows at any time")
    }
}

#[test]
fn an_engine_on_the_machine_needs_nothing_but_the_contract() {
    let mut shown: Vec<Section> = Vec::new();
    let mut show = |mut findings: session::Findings| shown.extend(findings.section::<Busy>());
    let asking = std::thread::spawn(|| {
        let asks = std::iter::repeat_with(|| session_of(Busy::NAME, std::process::id()).unwrap());
        let asks = asks.inspect(|_| std::thread::sleep(Duration::from_millis(10)));
        let mut sessions = asks.filter_map(|found| if let Found::Session(asks) = found { Some(asks) } else { None });
        sessions.next().unwrap().ask(&"noise", "the session").unwrap()
    });
    let limits = Limits {
        length: Some(Duration::from_secs(2)),
        live: Some(Live { every: Duration::ZERO, show: &mut show }),
        ..Limits::default()
    };
    let mut outcome = run(&Target::Machine, Engines::new().with(Busy::default()), limits).unwrap();
    assert!(asking.join().unwrap().starts_with("after "));
    let (busy_ns, ticks, label) = outcome.findings.section::<Busy>().unwrap();
    assert_eq!((outcome.ended.exit, label.as_deref()), (None, Some("noise")));
    assert!(ticks > 1 && shown.len() as u64 == ticks, "each tick is shown: {ticks}");
    assert!(shown.is_sorted_by_key(|(busy_ns, ticks, _)| (*busy_ns, *ticks)) && shown.last().unwrap().0 <= busy_ns);
    assert!(outcome.ended.end_ns > outcome.ended.start_ns && outcome.findings.failures().is_empty());
}

#[test]
fn an_engine_that_cannot_work_on_the_target_says_so_before_anything_starts() {
    let launch = session::Launch { command: vec!["/no/such/program".into()], ..session::Launch::default() };
    let engines = Engines::new().with(Busy::default());
    let refused = run(&Target::Launch(vec![launch]), engines, Limits::default()).err().unwrap();
    assert_eq!(refused.to_string(), "this is about the machine");
}
