//! Carriers: threads of the host that switch between ULPs in user space.
//!
//! A ULP starts on a kernel task of its own, its *home*: it is *coupled*. When it yields often and makes no system calls, it leaves its home, which parks,
//! and its context goes to a carrier: it is *decoupled*. There, a yield to another ULP costs tens of nanoseconds. A system call or a fault brings it home
//! again, where it happens as in any process.
//!
//! | module | what |
//! |---|---|
//! | `policy` | when a ULP leaves its home (pure) |
//! | `record` | what is known of each ULP, and of the task that runs |
//! | `home` | how a context leaves its home and returns |
//! | `inbox` | how it gets to a carrier |
//! | `carrier` | the carrier's loop |
//! | `queue` | its run queue |
//! | `waiting` | how ULPs suspend and resume each other |
//! | `spawning` | how they start further ones |
//! | `exports` | addresses that they give each other by name |
//! | `trap` | system calls, faults and ticks on a carrier |
//! | `strace` | prints these system calls |
//! | `relieving` | what becomes of ULPs whose carrier sleeps in a page fault |
//! | `relief` | who has the run queue meanwhile |
//! | `sentinel` | the thread that notices it |
//! | `looks` | when the host looks for it (pure) |
//! | `caller` | who calls, and where it runs |
//! | `calls` | what a program can call |
//! | `crash` | what a ULP notes when it crashes |
//! | `actions` | actions of signals |
//! | `thread` | the kernel thread of a carrier |
//! | `counts` | what ULPs and carriers did |
//! | `machine` | switching, and system calls where they are dispatched |

mod actions;
mod caller;
mod calls;
mod carrier;
mod counts;
mod crash;
mod exports;
mod home;
mod inbox;
mod looks;
mod machine;
mod policy;
mod queue;
mod record;
mod relief;
mod relieving;
mod sentinel;
mod spawning;
mod strace;
mod sync;
mod thread;
mod trap;
mod waiting;

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::Ordering;

use arch::has_fast_tls;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use carrier::Carrier;
pub use counts::{Totals, Used};
pub use crash::{Crash, Crashes};
use looks::Looks;
use queue::Queue;
use record::{HAS_ENDED, Kind, Record, Task, call};
use spawning::Request;
pub use spawning::{Asked, Created};
pub use thread::probe_dispatch;

use crate::own_code;
use crate::program::layout;

/// Entries of the auxiliary vector: what the processor can do, and the most that a signal frame needs.
const HWCAP2: u64 = 26;
const MINSIGSTKSZ: u64 = 51;
/// Length of a signal frame on processors whose kernel does not tell, bytes. AVX-512 needs about 3,500.
const FRAME_BYTES: u64 = 4096;
/// Length of the stack on which a home task is parked, bytes. It makes a few system calls, and has a buffer of 256 bytes.
const PARKING_BYTES: u64 = 8192;
/// Length of the stack of a carrier's signal handlers, bytes, without the frame.
const HANDLERS_BYTES: u64 = 32 << 10;

/// Whether ULPs may leave their home tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// When it pays, where it is possible.
    #[default]
    Policy,
    /// Never.
    Coupled,
}

/// Why ULPs stay on their home tasks.
#[derive(Debug, thiserror::Error)]
pub enum Coupled {
    /// Somebody wants it so.
    #[error("as requested")]
    Wish,
    /// TLS cannot be switched in user space.
    #[error("this kernel or processor does not let programs set the FS base (FSGSBASE)")]
    Tls,
    /// System calls of carriers cannot be dispatched.
    #[error("syscall user dispatch is not available: {0}")]
    Dispatch(io::Error),
    /// A carrier could not be started.
    #[error("a carrier cannot be started: {0}")]
    Thread(io::Error),
}

/// The records of a number of ULPs, and their carriers.
#[derive(Debug)]
pub struct Carriers {
    records: *mut Record,
    /// The stacks on which home tasks are parked, with room for a signal frame each.
    homes: u64,
    /// Length of each of them, bytes: whole pages.
    home_bytes: u64,
    /// Number of records that have been made, and for how many there is room.
    known: usize,
    room: usize,
    carriers: Vec<*mut Carrier>,
    /// The CPU of each carrier.
    cpus: Vec<usize>,
    looks: Looks,
    coupled: Option<Coupled>,
}

impl Carriers {
    /// Makes records for `count` ULPs, and starts one carrier on each of `cpus`, but not more carriers than ULPs. There is room for the records of `further`
    /// ULPs, `at_once` of which may run at a time. `vector` is the auxiliary vector of this process. Where ULPs cannot leave their home tasks, there are no
    /// carriers.
    ///
    /// # Errors
    /// When memory or threads are not available.
    pub fn start(
        count: usize,
        (further, at_once): (usize, usize),
        cpus: &[usize],
        vector: &[(u64, u64)],
        wish: Wish,
    ) -> io::Result<Carriers> {
        let frame_bytes = frame_bytes(vector);
        let mut coupled = why_coupled(wish, entry(vector, HWCAP2));
        let home_bytes = layout::up(frame_bytes + PARKING_BYTES);
        let room = count + further;
        let homes = map(room as u64 * home_bytes)?;
        let records = map((room * size_of::<Record>()) as u64)? as *mut Record;
        let handlers = HANDLERS_BYTES + frame_bytes;
        let carriers: Vec<*mut Carrier> = if coupled.is_some() {
            Vec::new()
        } else {
            let one = |_: &usize| {
                let stack = map(handlers)?;
                let place = map(size_of::<Carrier>() as u64)? as *mut Carrier;
                let most = count + at_once;
                let places = map((Queue::<Record>::places(most) * size_of::<*mut Record>()) as u64)?;
                // SAFETY: new memory, long enough and aligned to a page.
                unsafe {
                    let queue = Queue::new(places as *mut *mut Record, most);
                    place.write(Carrier::new(place, (stack, stack + handlers), queue));
                }
                Ok(place)
            };
            cpus.iter().take(count).map(one).collect::<io::Result<_>>()?
        };
        let mut all = Carriers {
            records,
            homes,
            home_bytes,
            known: 0,
            room,
            carriers,
            cpus: cpus.to_vec(),
            looks: Looks::new(),
            coupled: None,
        };
        for _ in 0..count {
            all.add();
        }
        set_host_task()?;
        trap::set_runtime(own_code::find().addresses);
        for (cpu, carrier) in cpus.iter().zip(&all.carriers) {
            if let Err(error) = thread::start(*cpu, *carrier) {
                coupled = Some(Coupled::Thread(error));
                break;
            }
        }
        // SAFETY: getpid has no conditions.
        spawning::set(unsafe { libc::getpid() }, map((room * size_of::<Request>()) as u64)? as *mut Request);
        caller::set(records, count as u32, coupled.is_none());
        if coupled.is_some() {
            all.carriers.clear();
        }
        Ok(Carriers { coupled, ..all })
    }

    /// Makes the record of one more ULP. Returns its number; `None`: there is no room.
    pub fn add(&mut self) -> Option<usize> {
        let number = self.known;
        if number == self.room {
            return None;
        }
        let at = self.homes + number as u64 * self.home_bytes;
        let carrier = self.carriers.get(number % self.carriers.len().max(1));
        // SAFETY: carriers are never freed.
        let inbox = carrier.map_or(ptr::null(), |carrier| unsafe { &raw const (**carrier).inbox });
        // SAFETY: there is room, and nobody knows of it yet.
        unsafe {
            let this = self.records.add(number);
            this.write(Record::new(this, number as u32, inbox, at, at + self.home_bytes));
        }
        self.known += 1;
        caller::set_known(self.known as u32);
        Some(number)
    }

    fn record(&self, number: usize) -> &Record {
        assert!(number < self.known, "no such ULP");
        // SAFETY: within the records; the caller uses only atomics.
        unsafe { &*self.records.add(number) }
    }

    fn request(&self, number: usize) -> &Request {
        assert!(number < self.known, "no such ULP");
        // SAFETY: there are requests for all records.
        unsafe { Request::of(number) }
    }

    /// Returns what ULPs have asked to be started since the last call: the number of each, and what it wants.
    pub fn asked(&self) -> Vec<(usize, Asked)> {
        if !spawning::take_asked() {
            return Vec::new();
        }
        // The memory of one that has ended may be another's by now.
        let alive = (0..self.known).filter(|number| self.record(*number).ended.load(Ordering::Relaxed) == 0);
        alive.filter_map(|number| Some((number, self.request(number).take()?))).collect()
    }

    /// Answers ULP `number`, which has asked: it makes a process with these arguments, which is a new ULP of that number, or learns of an error number.
    pub fn answer(&self, number: usize, answer: Result<(usize, libc::clone_args), i32>) {
        self.request(number).answer(answer);
    }

    /// Returns whether ULP `number` has made the process of ULP `new`, for which it has asked.
    #[must_use]
    pub fn created(&self, number: usize, new: usize) -> Created {
        self.request(number).created(|| self.record(new).pid.load(Ordering::Relaxed))
    }

    /// Learns that a ULP will never be started: who waits for it sees it killed.
    pub fn never_started(&self, number: usize) {
        self.record(number).called.fetch_or(call::DEAD, Ordering::Release);
        self.set_status(number, libc::SIGKILL);
    }

    /// Says how a ULP has ended, as waitpid(2) does.
    pub fn set_status(&self, number: usize, status: i32) {
        let ended = &self.record(number).ended;
        ended.store(status as u32 | HAS_ENDED, Ordering::Release);
        machine::wake_all(ended);
    }

    /// Returns the pid of a ULP.
    #[must_use]
    pub fn pid(&self, number: usize) -> i32 {
        self.record(number).pid.load(Ordering::Relaxed)
    }

    /// Returns the number of carriers.
    #[must_use]
    pub fn number(&self) -> usize {
        self.carriers.len()
    }

    /// Why ULPs stay on their home tasks; `None`: there are carriers.
    #[must_use]
    pub fn coupled(&self) -> Option<&Coupled> {
        self.coupled.as_ref()
    }

    /// Returns what a ULP's home task must have as its GS base.
    #[must_use]
    pub fn task_of(&self, number: usize) -> u64 {
        ptr::from_ref(self.record(number)) as u64
    }

    /// Returns where the kernel must write the pid of a ULP when it starts its process.
    #[must_use]
    pub fn pid_of(&self, number: usize) -> *mut i32 {
        self.record(number).pid.as_ptr()
    }

    /// Learns that the process of a ULP has ended. Returns whether no carrier has its context, so that its memory may be unmapped. Ask again later if not.
    pub fn ended(&self, number: usize) -> bool {
        let record = self.record(number);
        record.called.fetch_or(call::DEAD, Ordering::Release);
        // It may wait for another ULP, in no queue.
        // SAFETY: within the records.
        unsafe { home::resume(self.records.add(number)) };
        if !record.inbox.is_null() {
            // SAFETY: carriers are never freed.
            unsafe { (*record.inbox).call() };
            // It may have been killed between handing over its context and waking the carrier.
            // SAFETY: carriers are never freed.
            unsafe { (*record.inbox).rouse(machine::wake) };
        }
        if record.is_carried.load(Ordering::Acquire) {
            return false;
        }
        if record.counts.stays.load(Ordering::Relaxed) > 0 {
            let home = self.homes + number as u64 * self.home_bytes;
            // SAFETY: neither the home task nor a carrier uses it any more. If the memory cannot be given back, it stays.
            let _ = unsafe { madvise(home as *mut c_void, self.home_bytes as usize, Advice::LinuxDontNeed) };
        }
        true
    }
}

/// From now on, up to `room` ULPs can note their crashes. `vector` is the auxiliary vector of this process.
///
/// # Errors
/// When memory is not available.
pub fn note_crashes(room: usize, vector: &[(u64, u64)]) -> io::Result<Crashes> {
    let cells = map(Crashes::bytes(room))?;
    // SAFETY: new memory, long enough and aligned to a page.
    Ok(unsafe { Crashes::new(cells, room, frame_bytes(vector)) })
}

/// Returns the length of a signal frame, bytes.
fn frame_bytes(vector: &[(u64, u64)]) -> u64 {
    FRAME_BYTES.max(entry(vector, MINSIGSTKSZ) + 512).next_multiple_of(64)
}

/// Returns an entry of an auxiliary vector; 0: there is none.
fn entry(vector: &[(u64, u64)], key: u64) -> u64 {
    vector.iter().find(|(other, _)| *other == key).map_or(0, |(_, value)| *value)
}

/// Returns the entry of the auxiliary vector by which a program finds what it can call.
#[must_use]
pub fn auxiliary_entry() -> (u64, u64) {
    (calls::ENTRY, (&raw const calls::TABLE) as u64)
}

/// Says whether system calls that ULPs make on carriers are printed.
pub fn show_calls(is_wanted: bool) {
    strace::set(is_wanted);
}

/// Returns why ULPs cannot leave their home tasks, if they cannot.
fn why_coupled(wish: Wish, hwcap2: u64) -> Option<Coupled> {
    if wish == Wish::Coupled {
        return Some(Coupled::Wish);
    }
    if !has_fast_tls(hwcap2) {
        return Some(Coupled::Tls);
    }
    probe_dispatch().err().map(Coupled::Dispatch)
}

/// Maps memory that a child does not inherit: it finds zeros.
fn map(bytes: u64) -> io::Result<u64> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    let bytes = bytes.max(1) as usize;
    // SAFETY: the kernel chooses a free place.
    let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, flags)? };
    // SAFETY: the advice is for the memory just mapped.
    unsafe { madvise(at, bytes, Advice::LinuxWipeOnFork)? };
    Ok(at as u64)
}

/// Gives the calling thread a [`Task`], as the signal handlers of carriers are those of the whole process.
fn set_host_task() -> io::Result<()> {
    let task = map(size_of::<Task>() as u64)? as *mut Task;
    // SAFETY: new memory, long enough and aligned to a page.
    unsafe { task.write(Task::new(task, Kind::Host)) };
    thread::set_task(task as u64)
}

/// Returns the CPUs on which this process may run.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).map_err(|errno: Errno| io::Error::from(errno))?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn where_programs_may_not_set_the_fs_base_ulps_stay_coupled() {
        let reason = |hwcap2| why_coupled(Wish::Policy, hwcap2).map(|coupled| coupled.to_string());
        assert!(reason(0).is_some_and(|reason| reason.contains("FSGSBASE")));
        let carriers = Carriers::start(3, (0, 0), &[0, 1], &[(MINSIGSTKSZ, 2048)], Wish::Policy).unwrap();
        assert_eq!((carriers.number(), carriers.coupled().map(ToString::to_string)), (0, reason(0)));
    }
}
