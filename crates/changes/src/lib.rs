//! The only crate that changes settings of the machine or of threads. It restores all of them.
//!
//! Terms:
//!
//! - **knob**: something that can be changed and read back: a thread's affinity mask, its scheduling, or a file of
//!   the kernel.
//! - **original**: a knob's value before any session changed it.
//! - **claim**: the values that a session may give a knob. A value within the claim counts as the session's.
//! - **take**: to journal a knob with its original and its claim, and to set its first value. The session then
//!   *holds* the knob.
//! - **restore**: to set a knob back to its original.
//! - **settle**: to restore all knobs of a session and remove its journal.
//! - **keep**: to end a session without restoring its knobs: its changes *last*, as the machine's.
//! - **adopt**: to journal, before any thread of a process is changed, which values its new threads may inherit. These
//!   values are the process's *births*.
//!
//! Engines ask for changes ([`ChangeRequest`]), and a [`Session`] makes them. When the session ends, the session
//! itself, its guardian or a later session restores everything. This is safe because of the order of the steps:
//!
//! 1. **Merge** the change requests of all engines by knob. If two engines want different values for one knob, the
//!    session refuses both by name, before anything is changed ([`request`]).
//! 2. **Lock** the owner's folder: only one session of a user changes knobs at a time ([`journals`]).
//! 3. **Check** the other sessions. Two sessions may hold the same knob if both have the same claim; the second one
//!    inherits the *original* value. Else the request is refused, and the error names the other session.
//! 4. **Journal** the original value and the claim of each knob, and fsync the journal.
//! 5. **Write** the new values.
//! 6. **Read back** each value. If the kernel shows another value, the original is restored and an error is returned.
//! 7. **Undo** in reverse order when the session ends, or, by its guardian, when it is killed. Under the lock, each
//!    knob gets its original value back if no other session holds it and its value is still within the claim. A value
//!    that somebody else has set meanwhile stays.
//! 8. **Forget**: the journal is removed last. Doing step 7 twice changes nothing.
//!
//! If a journal's last line is incomplete, the change that it announces (step 5) has not been made. A journal of
//! another boot is void, because no change made here survives a reboot. Journals are settled one by one: a damaged one
//! is undone as far as it can be read, and reported. Undoing needs no disk space.
//!
//! A session of the machine ([`Session::keep`]) has no process that could be killed. Until it is kept, it is restored as
//! any other session. The line of the journal that says that its changes last is written once all of them are made.
//!
//! Knobs of the machine need more than a list of files:
//!
//! - A file's value is compared, not its text: `3` and `00000003` are the same CPUs ([`Knob::CpuMask`]).
//! - An interrupt is known by its name, because its number changes ([`Knob::Interrupt`]).
//! - A cgroup that a session has made ([`Knob::Directory`]) is emptied before its files are restored and it is removed.
//!   Threads that were created in it go where their creator came from (`evacuation`).
//! - Sessions that keep different CPUs free share a knob ([`Claim::Without`]): its value is the original without the CPUs
//!   of all of them. When one of them ends, it sets the value of the others; the last one restores the original.
//! - A cpuset that was made meanwhile has copied what the session had left to the one around it. It gets what that has after
//!   the session (`copies`).
//! - When a thread changes its cpuset, the kernel changes its mask, and need not change it back. So masks are taken
//!   before memberships ([`Claim::Confined`]), and therefore restored after them. Before Linux 6.2, threads that were
//!   created meanwhile get the mask of their creator (`forgotten_masks`).
//!
//! A claim may cover a *set* of values ([`Claim::Within`]) or a value that is set only *at times*
//! ([`Claim::AtTimes`]). A packer moves threads thousands of times per second, and the file system would be busier
//! than the program if each move were journaled. So the original value is journaled once, and any mask within the
//! pack counts as the session's. The moves themselves go through a [`KnobHandle`], with one system call each.
//!
//! A new thread inherits the mask and the scheduling of its creator, including values that a session has set. So a
//! process is *adopted* before its threads are changed ([`Session::adopt`]): the originals of its leader (its first
//! thread) and the claims are journaled. A new thread that is taken later gets its creator's original
//! ([`ChangeRequest::heir_of`]). At the end of the undo, a sweep through the process finds the threads that were never
//! taken, and restores them. Of threads that lack CPUs ([`Claim::Without`]), children are found by listing the root cgroup
//! (`heirs`).

#![deny(unsafe_code)]

pub mod claim;
mod copies;
pub mod entry;
mod error;
mod evacuation;
mod files;
mod forgotten_masks;
pub mod format;
pub mod guardian;
mod handle;
mod heirs;
mod housekeeping;
pub mod journal;
pub mod journals;
mod kernel_value;
pub mod knob;
pub mod knob_io;
mod lock;
mod other_sessions;
mod ownership;
mod place;
pub mod reading;
pub mod realtime;
pub mod recorder;
pub mod request;
mod restoring;
mod rights;
pub mod session;
mod setting;
mod settling;
mod shared_knobs;
mod sweep;
pub mod undo;
mod undone;
mod unmoved;
pub mod value;
pub mod waiting;

pub use claim::Claim;
pub use error::Error;
pub use files::Name;
pub use handle::KnobHandle;
pub use journals::{JournalFolder, inherited};
pub use knob::{Knob, Thread};
pub use knob_io::{KnobIo, LiveKnobIo, Writer, probe, value_of};
pub use lock::Lock;
pub use request::ChangeRequest;
pub use rights::Right;
pub use session::Session;
pub use setting::Setting;
pub use unmoved::{Unmoved, Why};
pub use value::{Scheduling, Value};
