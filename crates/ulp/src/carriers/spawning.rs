//! How a ULP starts another one, and waits for its end.
//!
//! 1. The ULP goes home, blocks all signals, and writes its [`Request`]. It wakes the host by SIGCHLD, and sleeps.
//! 2. The host maps the program, prepares its stack, and answers.
//! 3. The ULP itself makes the process (clone3(2) with `CLONE_PARENT`). So the new process has descriptors, working directory and limits from the ULP that has
//!    asked, as one of posix_spawn(3) has, and is a child of the host, as all ULPs are.
//! 4. The kernel writes the pid into the new record before either goes on. By that the host knows that the process exists.
//!
//! The ULP may be killed at any time. So nothing that the host needs is on the ULP's stack, and when the ULP has ended, the host looks for a pid in the new
//! record.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{self, AtomicBool};

use super::caller::{Caller, caller, record_of};
use super::carrier::Carrier;
use super::machine;
use super::record::{HAS_ENDED, Record, Task};
use super::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::task;

/// States of a request.
const NONE: u32 = 0;
const CLAIMED: u32 = 1;
const ASKED: u32 = 2;
/// The host works on it.
const TAKEN: u32 = 3;
const READY: u32 = 4;
const REFUSED: u32 = 5;

/// Whether a ULP has asked since the host last looked.
static HAS_ASKED: AtomicBool = AtomicBool::new(false);
/// Pid of the host, whose main thread answers.
static HOST: atomic::AtomicI32 = atomic::AtomicI32::new(0);
/// The requests of all ULPs, by number. They are not in the records, because few ULPs start others: memory that nobody touches costs nothing.
static REQUESTS: atomic::AtomicPtr<Request> = atomic::AtomicPtr::new(ptr::null_mut());

/// What a ULP asks the host to start: at most one program at a time. A request of zeros asks for nothing.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Request {
    state: AtomicU32,
    /// Number of the new ULP, or a negative error number.
    answer: AtomicI32,
    /// Addresses of the path, the arguments and the environment, as for execve(2); signals that the new process begins with blocked.
    asked: [AtomicU64; 4],
    /// Written by the host before the request is ready.
    arguments: UnsafeCell<libc::clone_args>,
}

/// What a ULP has asked for: addresses in its memory.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Of the path.
    pub path: u64,
    /// Of a list of the arguments' addresses that ends with 0.
    pub arguments: u64,
    /// The same for the environment.
    pub environment: u64,
    /// Signals that the new process begins with blocked.
    pub mask: u64,
}

/// Whether the ULP that has asked has made the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It has, with this pid.
    As(i32),
    /// Not yet.
    NotYet,
    /// It could not, and never will.
    Never,
}

impl Request {
    /// Returns the request of a ULP.
    ///
    /// # Safety
    /// [`set`] must have been given requests for this number.
    pub unsafe fn of(number: usize) -> &'static Request {
        // SAFETY: the caller's.
        unsafe { &*REQUESTS.load(Ordering::Relaxed).add(number) }
    }

    /// Takes the request: returns what the ULP asks for; `None`: nothing. For the host, which must answer.
    pub fn take(&self) -> Option<Asked> {
        let [path, arguments, environment, mask] = &self.asked;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let taken = self.state.compare_exchange(ASKED, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Asked {
            path: load(path),
            arguments: load(arguments),
            environment: load(environment),
            mask: load(mask),
        })
    }

    /// Answers the ULP: it makes the process of ULP `number` with these arguments, or learns of an error number. For the host, once for each request.
    pub fn answer(&self, answer: Result<(usize, libc::clone_args), i32>) {
        let (number, state) = match answer {
            Ok((number, arguments)) => {
                // SAFETY: the ULP sleeps, and reads it when the request is ready.
                unsafe { *self.arguments.get() = arguments };
                (number as i32, READY)
            }
            Err(errno) => (-errno, REFUSED),
        };
        self.answer.store(number, Ordering::Relaxed);
        self.state.store(state, Ordering::Release);
        machine::wake(&self.state);
    }

    /// Returns whether the ULP has made the process for which the answer was. `pid` returns what is in the new record. For the host.
    pub fn created(&self, pid: impl FnOnce() -> i32) -> Created {
        // The ULP leaves the state when it has made the process or could not: so the state is looked at first.
        let is_ready = self.state.load(Ordering::Acquire) == READY;
        match pid() {
            0 if is_ready => Created::NotYet,
            0 => Created::Never,
            pid => Created::As(pid),
        }
    }

    /// Claims the request for the calling thread of the ULP. Returns `false` if another one has it.
    fn claim(&self) -> bool {
        self.state.compare_exchange(NONE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Asks. For the ULP that has claimed the request.
    fn ask(&self, asked: [u64; 4]) {
        for (word, value) in self.asked.iter().zip(asked) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.store(ASKED, Ordering::Release);
    }

    /// Takes the question back. Returns `false` if the host has taken it: then it answers. For the ULP.
    fn withdraw(&self) -> bool {
        self.state.compare_exchange(ASKED, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Waits for the answer. `wait` sleeps on the word while it has the value, and may return early. Returns the answer, and whether the ULP is to make a
    /// process. For the ULP.
    fn answered(&self, mut wait: impl FnMut(&AtomicU32, u32)) -> (i32, bool) {
        loop {
            match self.state.load(Ordering::Acquire) {
                state @ (ASKED | TAKEN) => wait(&self.state, state),
                state => return (self.answer.load(Ordering::Relaxed), state == READY),
            }
        }
    }

    /// The request is over: the process has been made, or never will be. For the ULP.
    fn leave(&self) {
        self.state.store(NONE, Ordering::Release);
    }
}

/// Says which process answers, and where requests are: zeros, which stay.
pub(super) fn set(host: i32, requests: *mut Request) {
    HOST.store(host, Ordering::Relaxed);
    REQUESTS.store(requests, Ordering::Relaxed);
}

/// Whether a ULP has asked since the last call. For the host.
pub(super) fn take_asked() -> bool {
    HAS_ASKED.swap(false, Ordering::AcqRel)
}

/// Goes home if the caller is on a carrier. Returns its record; null in an ordinary process.
fn at_home() -> *mut Record {
    loop {
        match caller() {
            // SAFETY: the caller is the ULP that the carrier runs.
            Caller::Carried(carrier) => unsafe { Carrier::go_home(carrier) },
            Caller::Home(record) | Caller::Other(record) => return record,
        }
    }
}

/// Starts a program. Returns the number of the new ULP, or a negative error number.
pub(super) unsafe extern "C" fn spawn(path: u64, arguments: u64, environment: u64) -> i32 {
    let record = at_home();
    if record.is_null() {
        return -libc::EPERM;
    }
    // SAFETY: the record is valid.
    let request = unsafe { Request::of((*record).number as usize) };
    // No signal handler runs before the request is over: it might never return.
    let mask = machine::block_signals();
    let result = if request.claim() { ask(request, [path, arguments, environment, mask]) } else { -libc::EBUSY };
    machine::set_mask(mask);
    result
}

fn ask(request: &Request, asked: [u64; 4]) -> i32 {
    request.ask(asked);
    HAS_ASKED.store(true, Ordering::Release);
    let host = HOST.load(Ordering::Relaxed) as u64;
    // SAFETY: the host waits for this signal.
    let woken = unsafe { machine::call4(libc::SYS_tgkill, host, host, libc::SIGCHLD as u64, 0) };
    // The ULP may have changed its user since it was started. If the host has taken the request all the same, it answers.
    if woken < 0 && request.withdraw() {
        return woken as i32;
    }
    let (mut answer, is_ready) = request.answered(machine::wait);
    if is_ready {
        // SAFETY: the host has prepared an image for this request only.
        let pid = unsafe { task::begin_prepared(request.arguments.get()) };
        if pid < 0 {
            answer = pid as i32;
        }
    }
    request.leave();
    answer
}

/// Waits until a ULP has ended, and stores how, as waitpid(2) does. Returns 0, or a negative error number.
pub(super) unsafe extern "C" fn wait(number: i32, status: *mut i32) -> i32 {
    if Task::current().is_null() {
        return -libc::EPERM;
    }
    let Some(record) = record_of(number) else { return -libc::EINVAL };
    // SAFETY: the record is valid.
    let ended = unsafe { &(*record).ended };
    // If it has ended, the caller stays where it is.
    if ended.load(Ordering::Acquire) == 0 && at_home() == record {
        return -libc::EDEADLK;
    }
    loop {
        match ended.load(Ordering::Acquire) {
            0 => machine::wait(ended, 0),
            found => {
                if !status.is_null() {
                    // SAFETY: the caller passes where the status goes.
                    unsafe { *status = (found & !HAS_ENDED) as i32 };
                }
                return 0;
            }
        }
    }
}

/// Returns the pid of a ULP, or a negative error number.
pub(super) unsafe extern "C" fn pid(number: i32) -> i32 {
    if Task::current().is_null() {
        return -libc::EPERM;
    }
    let Some(record) = record_of(number) else { return -libc::EINVAL };
    // SAFETY: the record is valid.
    let record = unsafe { &*record };
    match record.pid.load(Ordering::Relaxed) {
        _ if record.ended.load(Ordering::Acquire) != 0 => -libc::ESRCH,
        // It has not been started yet.
        0 => -libc::EAGAIN,
        pid => pid,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_host_learns_whether_the_process_was_made() {
        // SAFETY: all fields are numbers.
        let (request, pid) = (unsafe { std::mem::zeroed::<Request>() }, AtomicI32::new(0));
        assert!(request.take().is_none());
        assert!(request.claim() && !request.claim());
        request.ask([1, 2, 3, 4]);
        let asked = request.take().unwrap();
        assert!(request.take().is_none(), "it is taken once");
        assert_eq!([asked.path, asked.arguments, asked.environment, asked.mask], [1, 2, 3, 4]);
        // SAFETY: numbers.
        request.answer(Ok((7, unsafe { std::mem::zeroed() })));
        let created = |request: &Request| request.created(|| pid.load(Ordering::Relaxed));
        assert_eq!(
            (request.answered(|_, _| panic!("there is an answer")), created(&request)),
            ((7, true), Created::NotYet)
        );
        request.leave();
        assert_eq!(created(&request), Created::Never);
        pid.store(9, Ordering::Relaxed);
        assert_eq!(created(&request), Created::As(9));
        request.state.store(READY, Ordering::Relaxed);
        assert_eq!(created(&request), Created::As(9), "it was killed right after");
        request.answer(Err(libc::ENOENT));
        assert_eq!(request.answered(|_, _| panic!("there is an answer")), (-libc::ENOENT, false));
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread::{spawn, yield_now};

    use super::*;

    struct Shared {
        request: Request,
        /// In the new record.
        pid: AtomicU32,
    }

    // SAFETY: only the host writes the arguments, while the ULP sleeps.
    unsafe impl Send for Shared {}
    // SAFETY: as above.
    unsafe impl Sync for Shared {}

    fn shared() -> Arc<Shared> {
        let request = Request {
            state: AtomicU32::new(NONE),
            answer: AtomicI32::new(0),
            asked: Default::default(),
            // SAFETY: numbers.
            arguments: UnsafeCell::new(unsafe { std::mem::zeroed() }),
        };
        Arc::new(Shared { request, pid: AtomicU32::new(0) })
    }

    const ASK: [u64; 4] = [1, 2, 3, 4];

    /// Answers one question, if there is one.
    fn answer(request: &Request) -> bool {
        let asked = request.take();
        if let Some(Asked { path, arguments, environment, mask }) = asked {
            assert_eq!([path, arguments, environment, mask], ASK);
            // SAFETY: numbers.
            request.answer(Ok((7, unsafe { std::mem::zeroed() })));
        }
        asked.is_some()
    }

    /// A ULP asks, and makes a process. The host must not believe at any time that it never will. `state_first`: as it must be.
    fn check(state_first: bool) {
        loom::model(move || {
            let shared = shared();
            let ulp = {
                let shared = shared.clone();
                spawn(move || {
                    assert!(shared.request.claim());
                    shared.request.ask(ASK);
                    assert_eq!(shared.request.answered(|_, _| yield_now()), (7, true));
                    shared.pid.store(9, Ordering::Relaxed);
                    shared.request.leave();
                })
            };
            while !answer(&shared.request) {
                yield_now();
            }
            let pid = || shared.pid.load(Ordering::Relaxed) as i32;
            let before = pid();
            let created = shared.request.created(|| if state_first { pid() } else { before });
            assert_ne!(created, Created::Never);
            ulp.join().unwrap();
            assert_eq!(shared.request.created(pid), Created::As(9));
        });
    }

    #[test]
    fn a_process_that_is_made_is_seen() {
        check(true);
    }

    #[test]
    #[should_panic(expected = "Never")]
    fn the_host_must_look_at_the_state_first() {
        check(false);
    }

    #[test]
    fn a_question_that_was_taken_back_has_no_answer_and_every_other_one_has() {
        loom::model(|| {
            let shared = shared();
            let ulp = {
                let shared = shared.clone();
                spawn(move || {
                    assert!(shared.request.claim());
                    shared.request.ask(ASK);
                    let is_withdrawn = shared.request.withdraw();
                    if !is_withdrawn {
                        assert_eq!(shared.request.answered(|_, _| yield_now()), (7, true));
                        shared.request.leave();
                    }
                    is_withdrawn
                })
            };
            let is_answered = answer(&shared.request);
            if !is_answered {
                // The host looks once more, when the ULP has asked.
                assert!(ulp.join().unwrap() || answer(&shared.request));
                return;
            }
            assert!(!ulp.join().unwrap(), "taken back and answered");
        });
    }
}
