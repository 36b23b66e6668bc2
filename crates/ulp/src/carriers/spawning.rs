//! How a ULP starts another one, and waits for its end.
//!
//! 1. The ULP goes home, blocks all signals, and writes its [`Request`]. It wakes the host by SIGCHLD, and sleeps.
//! 2. The host maps the program, prepares its stack, and answers.
//! 3. The ULP itself makes the process (clone3(2) with `CLONE_PARENT`). So the new process has descriptors, working directory and limits from the ULP that has
//!    asked, as one of posix_spawn(3) has, and is a child of the host, as all ULPs are.
//! 4. The kernel writes the pid into the new record before either goes on. By that the host knows that the process exists.
//!
//! The ULP may be killed between any two of these steps. So nothing that the host needs is on the ULP's stack, and when the ULP has ended, the host looks
//! whether there is a pid.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::calls::{Caller, caller, record_of};
use super::carrier::Carrier;
use super::machine;
use super::record::{HAS_ENDED, Record, Task};
use crate::task;

/// States of a request.
const NONE: u32 = 0;
const CLAIMED: u32 = 1;
const ASKED: u32 = 2;
const READY: u32 = 3;
const REFUSED: u32 = 4;

/// Whether a ULP has asked since the host last looked.
static HAS_ASKED: AtomicBool = AtomicBool::new(false);
/// Pid of the host, whose main thread answers.
static HOST: AtomicI32 = AtomicI32::new(0);
/// The requests of all ULPs, by number. Few ULPs start others, so requests are apart from the records: untouched memory costs nothing.
static REQUESTS: AtomicPtr<Request> = AtomicPtr::new(ptr::null_mut());

/// What a ULP asks the host to start: at most one program at a time. Zeros are one that asks for nothing.
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

/// What became of a promised process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It exists, with this pid.
    Exists(i32),
    /// The ULP has not made it yet.
    NotYet,
    /// The ULP could not make it.
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

    /// Returns what the ULP asks for; `None`: nothing. For the host.
    pub fn asked(&self) -> Option<Asked> {
        let [path, arguments, environment, mask] = &self.asked;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (self.state.load(Ordering::Acquire) == ASKED).then(|| Asked {
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

    /// Returns what became of the promised process whose record has this pid. For the host.
    pub fn kept(&self, pid: &AtomicI32) -> Kept {
        // The ULP leaves the state when it has made the process or could not: so the state is looked at first.
        let is_ready = self.state.load(Ordering::Acquire) == READY;
        match pid.load(Ordering::Relaxed) {
            0 if is_ready => Kept::NotYet,
            0 => Kept::Never,
            pid => Kept::Exists(pid),
        }
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
    let claimed = request.state.compare_exchange(NONE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let result = if claimed { ask(request, [path, arguments, environment, mask]) } else { -libc::EBUSY };
    machine::set_mask(mask);
    result
}

fn ask(request: &Request, asked: [u64; 4]) -> i32 {
    for (word, value) in request.asked.iter().zip(asked) {
        word.store(value, Ordering::Relaxed);
    }
    request.state.store(ASKED, Ordering::Release);
    HAS_ASKED.store(true, Ordering::Release);
    let host = HOST.load(Ordering::Relaxed) as u64;
    // SAFETY: the host waits for this signal.
    let woken = unsafe { machine::call4(libc::SYS_tgkill, host, host, libc::SIGCHLD as u64, 0) };
    // Another user's by now. If the host has seen the request all the same, it is answered, and nobody makes the process.
    if woken < 0 && request.state.compare_exchange(ASKED, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        return woken as i32;
    }
    while request.state.load(Ordering::Acquire) == ASKED {
        machine::wait(&request.state, ASKED);
    }
    let mut answer = request.answer.load(Ordering::Relaxed);
    if request.state.load(Ordering::Relaxed) == READY {
        // SAFETY: the host has prepared an image for this request only.
        let pid = unsafe { task::begin_prepared(request.arguments.get()) };
        if pid < 0 {
            answer = pid as i32;
        }
    }
    request.state.store(NONE, Ordering::Release);
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
        // It has not been started yet.
        0 => -libc::EAGAIN,
        _ if record.ended.load(Ordering::Acquire) != 0 => -libc::ESRCH,
        pid => pid,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_host_learns_what_became_of_a_promise() {
        // SAFETY: all fields are numbers.
        let (request, pid) = (unsafe { std::mem::zeroed::<Request>() }, AtomicI32::new(0));
        assert!(request.asked().is_none());
        for (word, value) in request.asked.iter().zip(1..) {
            word.store(value, Ordering::Relaxed);
        }
        request.state.store(ASKED, Ordering::Relaxed);
        let asked = request.asked().unwrap();
        assert_eq!([asked.path, asked.arguments, asked.environment, asked.mask], [1, 2, 3, 4]);
        // SAFETY: numbers.
        request.answer(Ok((7, unsafe { std::mem::zeroed() })));
        assert_eq!((request.answer.load(Ordering::Relaxed), request.kept(&pid)), (7, Kept::NotYet));
        request.state.store(NONE, Ordering::Relaxed);
        assert_eq!(request.kept(&pid), Kept::Never);
        pid.store(9, Ordering::Relaxed);
        assert_eq!(request.kept(&pid), Kept::Exists(9));
        request.state.store(READY, Ordering::Relaxed);
        assert_eq!(request.kept(&pid), Kept::Exists(9), "it was killed right after");
        request.answer(Err(libc::ENOENT));
        assert_eq!(request.answer.load(Ordering::Relaxed), -libc::ENOENT);
    }
}
