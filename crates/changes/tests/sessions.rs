//! Sessions on a machine that is made up: overlapping, killed, disturbed, in any order.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use changes::undo::Undone;
use changes::{Book, Claim, Desire, Error, Hands, Knob, Session, Thread, Value};
use machine::CpuSet;
use proptest::prelude::*;
use tempfile::TempDir;

/// Threads with affinities, and the processes that live.
#[derive(Default)]
struct Made {
    masks: RefCell<BTreeMap<u32, CpuSet>>,
    /// When each was born: an id may be used again.
    living: RefCell<BTreeMap<u32, u64>>,
    births: RefCell<u64>,
    /// CPUs that exist; the kernel cuts masks down to them.
    online: RefCell<CpuSet>,
    boot: RefCell<u32>,
}

impl Made {
    fn with_threads(count: u32) -> Made {
        let made = Made::default();
        *made.online.borrow_mut() = cpus("0-7");
        made.masks.borrow_mut().extend((0..count).map(|tid| (tid, original(tid))));
        (1..4).for_each(|pid| made.is_born(pid));
        made
    }

    /// A process, if there is none with this id.
    fn is_born(&self, pid: u32) {
        *self.births.borrow_mut() += 1;
        self.living.borrow_mut().entry(pid).or_insert(*self.births.borrow());
    }

    fn mask(&self, tid: u32) -> CpuSet {
        self.masks.borrow()[&tid].clone()
    }

    fn is_original(&self) -> bool {
        self.masks.borrow().iter().all(|(tid, mask)| *mask == original(*tid))
    }
}

fn tid_of(knob: &Knob) -> u32 {
    match knob {
        Knob::Affinity(thread) => thread.tid,
        other => panic!("{other} is not made up"),
    }
}

impl Hands for Made {
    fn read(&self, knob: &Knob) -> Result<Value, Error> {
        let mask = self.masks.borrow().get(&tid_of(knob)).cloned();
        mask.map(Value::Cpus).ok_or_else(|| Error::Gone(Box::new(knob.clone())))
    }

    fn write(&self, knob: &Knob, value: &Value) -> Result<(), Error> {
        let Value::Cpus(wanted) = value else { panic!("{value} is no mask") };
        let possible = wanted.intersection(&self.online.borrow());
        match self.masks.borrow_mut().get_mut(&tid_of(knob)) {
            None => Err(Error::Gone(Box::new(knob.clone()))),
            Some(_) if possible.is_empty() => Err(Error::Knob {
                knob: Box::new(knob.clone()),
                source: std::io::Error::from_raw_os_error(libc::EINVAL),
            }),
            Some(mask) => {
                *mask = possible;
                Ok(())
            }
        }
    }

    fn boot_id(&self) -> Result<String, Error> {
        Ok(format!("boot {}", self.boot.borrow()))
    }

    fn started_ns(&self, pid: u32) -> Option<u64> {
        self.living.borrow().get(&pid).copied()
    }
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Each thread's own mask before anybody came.
fn original(tid: u32) -> CpuSet {
    [cpus("0-7"), cpus("0-3"), cpus("5")][tid as usize % 3].clone()
}

fn knob(tid: u32) -> Knob {
    Knob::Affinity(Thread { tid, start_ns: 0 })
}

fn within(tid: u32, list: &str) -> Desire {
    Desire { engine: "pack".into(), knob: knob(tid), claim: Claim::Within(cpus(list)) }
}

fn begin<'m>(made: &'m Made, folder: &TempDir, pid: u32) -> Session<'m> {
    Session::begin(made, Book::at(folder.path()), pid, &format!("cox {pid}"), |_| Ok(None)).unwrap()
}

/// As after SIGKILL of a session and its guardian: the journal stays.
fn kill(made: &Made, session: Session, pid: u32) {
    made.living.borrow_mut().remove(&pid);
    std::mem::forget(session);
}

fn restored(count: usize) -> Undone {
    Undone { restored: count, ..Undone::default() }
}

#[test]
fn what_was_taken_is_put_back_and_the_journal_is_gone() {
    let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take((0..3).map(|tid| within(tid, "0-1"))).unwrap();
    assert_eq!((made.mask(0), made.mask(2)), (cpus("0-1"), cpus("0-1")));
    session.set(&knob(1), &Value::Cpus(cpus("1"))).unwrap();
    assert!(matches!(session.set(&knob(1), &Value::Cpus(cpus("2"))), Err(Error::NotClaimed { .. })));
    assert!(matches!(session.set(&knob(9), &Value::Cpus(cpus("1"))), Err(Error::NotClaimed { .. })));
    assert_eq!(session.end().unwrap(), restored(3));
    assert!(made.is_original());
    assert!(Book::at(folder.path()).entries(&made).unwrap().is_empty());
}

#[test]
fn dropping_is_ending() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "1")]).unwrap();
    drop(session);
    assert!(made.is_original());
}

#[test]
fn a_second_session_is_refused_by_the_name_of_the_first() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let (mut one, mut two) = (begin(&made, &folder, 1), begin(&made, &folder, 2));
    one.take([within(0, "0-1")]).unwrap();
    // Nothing of what it wants is changed, the free knob neither.
    let refused = two.take([within(1, "2-3"), within(0, "2-3")]).unwrap_err().to_string();
    assert!(refused.contains("affinity of thread 0") && refused.contains("process 1 (cox 1)"), "{refused}");
    assert_eq!(made.mask(1), original(1));
    two.end().unwrap();
    one.end().unwrap();
    assert!(made.is_original());
}

#[test]
fn what_two_sessions_share_goes_back_when_both_have_ended() {
    for first_to_end in [1, 2] {
        let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
        let (mut one, mut two) = (begin(&made, &folder, 1), begin(&made, &folder, 2));
        one.take([within(0, "0-1")]).unwrap();
        two.take([within(0, "0-1")]).unwrap();
        let (first, last) = if first_to_end == 1 { (one, two) } else { (two, one) };
        assert_eq!(first.end().unwrap(), Undone { inherited: 1, ..Undone::default() });
        assert_eq!(made.mask(0), cpus("0-1"));
        assert_eq!(last.end().unwrap(), restored(1));
        assert!(made.is_original());
    }
}

#[test]
fn what_somebody_else_has_set_is_his() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(1, "0-1")]).unwrap();
    made.masks.borrow_mut().insert(0, cpus("6"));
    let undone = session.end().unwrap();
    assert_eq!((undone.restored, undone.left.len(), made.mask(0), made.mask(1)), (1, 1, cpus("6"), original(1)));
    assert!(undone.left[0].to_string().contains("CPUs 6"), "{}", undone.left[0]);
}

#[test]
fn threads_that_end_meanwhile_are_no_fault() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(1, "0-1")]).unwrap();
    made.masks.borrow_mut().remove(&0);
    assert!(matches!(session.set(&knob(0), &Value::Cpus(cpus("1"))), Err(Error::Gone(_))));
    assert_eq!(session.end().unwrap(), Undone { restored: 1, gone: 1, ..Undone::default() });
}

#[test]
fn a_cpu_that_went_offline_is_no_obstacle() {
    let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
    let mut session = begin(&made, &folder, 1);
    session.take([within(0, "0-1"), within(2, "0-1")]).unwrap();
    // The kernel breaks the affinity of a thread whose last CPU has gone.
    *made.online.borrow_mut() = cpus("0-4");
    let undone = session.end().unwrap();
    assert_eq!((undone.restored, made.mask(0)), (1, cpus("0-4")));
    assert!(undone.left[0].reason.contains("Invalid argument"), "thread 2 was on CPU 5: {:?}", undone.left);
}

#[test]
fn a_value_that_did_not_take_is_put_back_and_said() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    *made.online.borrow_mut() = cpus("0");
    made.masks.borrow_mut().insert(0, cpus("0"));
    let mut session = begin(&made, &folder, 1);
    let exactly = Desire { claim: Claim::Exactly(Value::Cpus(cpus("0-1"))), ..within(0, "0") };
    assert!(matches!(session.take([exactly]), Err(Error::NotTaken { .. })));
    assert_eq!(made.mask(0), cpus("0"));
    session.end().unwrap();
}

#[test]
fn the_next_session_settles_what_a_dead_one_has_left() {
    let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
    let mut dead = begin(&made, &folder, 1);
    dead.take([within(0, "0-1")]).unwrap();
    kill(&made, dead, 1);
    let next = begin(&made, &folder, 2);
    assert!(made.is_original());
    next.end().unwrap();
}

#[test]
fn what_another_boot_has_changed_is_void() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let mut dead = begin(&made, &folder, 1);
    dead.take([within(0, "0-1")]).unwrap();
    kill(&made, dead, 1);
    *made.boot.borrow_mut() += 1;
    begin(&made, &folder, 2).end().unwrap();
    assert_eq!(made.mask(0), cpus("0-1"), "another thread's, by now");
    assert!(Book::at(folder.path()).entries(&made).unwrap().is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Begin(u32),
    Take(u32, u32, bool),
    Set(u32, u32, u32),
    End(u32),
    Kill(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let pid = || 1..4u32;
    prop_oneof![
        pid().prop_map(Step::Begin),
        (pid(), 0..4u32, any::<bool>()).prop_map(|(pid, tid, low)| Step::Take(pid, tid, low)),
        (pid(), 0..4u32, 0..4u32).prop_map(|(pid, tid, cpu)| Step::Set(pid, tid, cpu)),
        pid().prop_map(Step::End),
        pid().prop_map(Step::Kill),
    ]
}

proptest! {
    /// Whatever three sessions do, in whatever order they end or are killed: at the end all is as it was.
    #[test]
    fn everything_comes_back(steps in prop::collection::vec(step(), 0..40)) {
        let (made, folder) = (Made::with_threads(4), TempDir::new().unwrap());
        let mut sessions: BTreeMap<u32, Session> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Begin(pid) => {
                    made.is_born(pid);
                    sessions.entry(pid).or_insert_with(|| begin(&made, &folder, pid));
                }
                Step::Take(pid, tid, low) => {
                    let desire = within(tid, if low { "0-1" } else { "2-3" });
                    if let Some(session) = sessions.get_mut(&pid) {
                        let held = sessions_hold(&folder, &made, pid, &desire);
                        prop_assert_eq!(session.take([desire]).is_err(), held);
                    }
                }
                Step::Set(pid, tid, cpu) => {
                    // Refused when it is not claimed; either way nothing may get lost.
                    if let Some(session) = sessions.get(&pid) {
                        let _ = session.set(&knob(tid), &Value::Cpus([cpu].into_iter().collect()));
                    }
                }
                Step::End(pid) => {
                    if let Some(session) = sessions.remove(&pid) {
                        prop_assert!(session.end().unwrap().left.is_empty());
                    }
                }
                Step::Kill(pid) => {
                    if let Some(session) = sessions.remove(&pid) {
                        kill(&made, session, pid);
                    }
                }
            }
        }
        for (_, session) in sessions {
            session.end().unwrap();
        }
        made.is_born(1);
        begin(&made, &folder, 1).end().unwrap();
        prop_assert!(made.is_original(), "{:?}", made.masks);
        prop_assert!(Book::at(folder.path()).entries(&made).unwrap().is_empty());
    }
}

/// Whether a journal of another session claims the knob for something else.
fn sessions_hold(folder: &TempDir, made: &Made, pid: u32, desire: &Desire) -> bool {
    let book = Book::at(folder.path());
    let entries = book.entries(made).unwrap().into_iter().filter(|entry| entry.path != book.journal(pid));
    let mut changes = entries.filter_map(|entry| entry.record).flat_map(|record| record.changes);
    changes.any(|change| change.knob == desire.knob && change.claim != desire.claim)
}
