//! Random sequences of actions of sessions, threads and the program, on a simulated machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use std::collections::BTreeMap;

use changes::{ChangeRequest, Error, JournalFolder, KnobHandle, Session, Setting, Value};
use made::{Made, OTHER, affinity, begin, born, cpus, idle, kill, scheduling, within};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tempfile::TempDir;

const LEADERS: u32 = 3;

/// CPUs that the cpuset may have; each has one of every original, and 6, which a thread may set itself.
const CPUSETS: [&str; 4] = ["0-7", "3,5-6", "0,2,5-7", "1-3,5-6"];

/// Threads are named by their place among all; sessions by their number.
#[derive(Clone, Debug)]
enum Step {
    Begin(u32),
    Take(u32, usize, bool),
    Move(u32, usize, u32),
    Idle(u32, usize, bool),
    Late(usize),
    Cpuset(usize),
    Birth(usize, bool),
    Death(usize),
    End(u32),
    Kill(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 1..4u32;
    prop_oneof![
        2 => number().prop_map(Step::Begin),
        4 => (number(), 0..9usize, any::<bool>()).prop_map(|(n, thread, low)| Step::Take(n, thread, low)),
        2 => (number(), 0..9usize, 0..4u32).prop_map(|(n, thread, cpu)| Step::Move(n, thread, cpu)),
        2 => (number(), 0..9usize, any::<bool>()).prop_map(|(n, thread, is_idle)| Step::Idle(n, thread, is_idle)),
        1 => (0..9usize).prop_map(Step::Late),
        1 => (0..CPUSETS.len()).prop_map(Step::Cpuset),
        3 => (0..9usize, any::<bool>()).prop_map(|(creator, own)| Step::Birth(creator, own)),
        1 => (0..9usize).prop_map(Step::Death),
        1 => number().prop_map(Step::End),
        1 => number().prop_map(Step::Kill),
    ]
}

/// What is going on.
struct Play<'m> {
    made: &'m Made,
    folder: &'m TempDir,
    sessions: BTreeMap<u32, Session<'m>>,
    /// Of each thread that was born, by whom; nobody for one that leads a process.
    creators: BTreeMap<u32, u32>,
    /// Handles of sessions that go on, and of those that have ended.
    handles: Vec<(u32, KnobHandle, Setting)>,
    late: Vec<(KnobHandle, Setting)>,
}

impl<'m> Play<'m> {
    fn tid(&self, place: usize) -> u32 {
        let state = self.made.state();
        *state.threads.keys().nth(place % state.threads.len()).unwrap()
    }

    fn leader(&self, tid: u32) -> u32 {
        self.made.state().threads[&tid].leader
    }

    /// Packs the process of a thread and the thread, after its creator.
    fn take(&mut self, number: u32, tid: u32, low: bool) -> Result<(), TestCaseError> {
        let leader = self.leader(tid);
        let list = if low { "0-1" } else { "2-3" };
        let is_held = self.is_held(&within(leader, list));
        let Some(session) = self.sessions.get_mut(&number) else { return Ok(()) };
        match session.adopt([within(leader, list), idle(leader)]) {
            Ok(()) => prop_assert!(!is_held),
            Err(Error::Conflict { .. } | Error::Held { .. }) => {
                prop_assert!(is_held);
                return Ok(());
            }
            // Its last thread has ended.
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        let ancestors: Vec<u32> = self.creators.get(&tid).copied().into_iter().chain([leader]).collect();
        let ancestors = if tid == leader { &[] } else { &ancestors[..] };
        session.take([born(within(tid, list), ancestors), born(idle(tid), ancestors)]).unwrap();
        Ok(())
    }

    /// Whether any journal says that the process is packed for something else.
    fn is_held(&self, request: &ChangeRequest) -> bool {
        let entries = JournalFolder::at(self.folder.path()).look(self.made).unwrap().entries;
        let mut births = entries.iter().flat_map(|entry| entry.births());
        births.any(|births| births.knob == request.knob && births.claim != request.claim)
    }

    fn set(&mut self, number: u32, knob: &changes::Knob, value: &Value) {
        // Refused when it is not taken or not claimed; either way nothing may get lost.
        let Some(session) = self.sessions.get(&number) else { return };
        let Ok(handle) = session.handle(knob) else { return };
        match handle.prepare(value) {
            Ok(setting) => {
                let _ = handle.apply(&setting);
                self.handles.push((number, handle, setting));
            }
            Err(error) => assert!(matches!(error, Error::NotClaimed { .. })),
        }
    }

    fn end(&mut self, number: u32) -> Result<(), TestCaseError> {
        let Some(session) = self.sessions.remove(&number) else { return Ok(()) };
        prop_assert!(session.end().left.is_empty());
        let (ended, going) = std::mem::take(&mut self.handles).into_iter().partition(|(n, ..)| *n == number);
        self.handles = going;
        let ended: Vec<(u32, KnobHandle, Setting)> = ended;
        self.late.extend(ended.into_iter().map(|(_, handle, setting)| (handle, setting)));
        Ok(())
    }

    fn act(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Begin(number) => {
                self.made.is_born(number);
                self.sessions.entry(number).or_insert_with(|| begin(self.made, self.folder, number));
            }
            // What was asked for cannot be read of a mask that is cut down.
            Step::Take(..) if self.made.state().online != cpus(CPUSETS[0]) => {}
            Step::Take(number, place, low) => self.take(number, self.tid(place), low)?,
            Step::Move(number, place, cpu) => {
                self.set(number, &affinity(self.tid(place)), &Value::Cpus([cpu].into_iter().collect()));
            }
            Step::Idle(number, place, is_idle) => {
                let value = Value::Scheduling(if is_idle { OTHER.idle() } else { OTHER });
                self.set(number, &scheduling(self.tid(place)), &value);
            }
            Step::Cpuset(which) => self.made.allows(CPUSETS[which]),
            Step::Late(place) => {
                if let Some((handle, setting)) = self.late.get(place) {
                    prop_assert!(matches!(handle.apply(setting), Err(Error::Ended(_))));
                }
            }
            Step::Birth(place, has_own) => {
                // The child of one with a mask of its own that is never seen would get the leader's.
                let creator = self.tid(place);
                if self.made.state().threads[&creator].wanted != cpus("6") {
                    let tid = self.made.bears(creator);
                    self.creators.insert(tid, creator);
                    if has_own {
                        self.made.sets(tid, "6");
                    }
                }
            }
            Step::Death(place) => {
                let tid = self.tid(place);
                if self.creators.contains_key(&tid) {
                    self.made.ends(tid);
                }
            }
            Step::End(number) => self.end(number)?,
            Step::Kill(number) => {
                if let Some(session) = self.sessions.remove(&number) {
                    self.handles.retain(|(n, ..)| *n != number);
                    kill(self.made, session, number);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever three sessions do, in whatever order they end or are killed, and whoever is born
    /// meanwhile: at the end all is as the program wanted it.
    #[test]
    fn everything_comes_back(steps in prop::collection::vec(step(), 0..60)) {
        let (made, folder) = (Made::with_threads(LEADERS), TempDir::new().unwrap());
        let (sessions, creators) = (BTreeMap::new(), BTreeMap::new());
        let mut play =
            Play { made: &made, folder: &folder, sessions, creators, handles: Vec::new(), late: Vec::new() };
        for step in steps {
            play.act(step)?;
        }
        for number in 1..4 {
            play.end(number)?;
        }
        made.is_born(1);
        begin(&made, &folder, 1).end();
        made.allows(CPUSETS[0]);
        let threads = format!("{:?}", made.state().threads);
        prop_assert!(made.is_original(), "{threads}");
        prop_assert!(JournalFolder::at(folder.path()).look(&made).unwrap().entries.is_empty());
    }
}
