//! The only room that changes the machine or a thread's placement, and that puts everything back.
//!
//! Engines say what they want ([`ChangeRequest`]); a [`Session`] takes it, and whoever survives lets it go.
//! The order of the steps is what makes it safe:
//!
//! 1. **Merge** the change requests of all engines, knob by knob. Two that want different values for one knob
//!    are refused by name, before anything is changed ([`request`]).
//! 2. **Lock** the owner's folder: one session of a user changes things at a time ([`journals`]).
//! 3. **Look** at the other sessions: a knob that one of them holds may be shared when both claim the
//!    same, else it is refused by that session's name. A sharer inherits the *original* value.
//! 4. **Journal** what the knob was and what will be claimed, and fsync. Only then
//! 5. **write**, and 6. **read back**: a value that did not take is put back and said.
//! 7. **Undo** in reverse order, when the session ends or, by its guardian, when it is killed: under the
//!    lock, each knob that no other session holds and that is still as we claimed goes back to its
//!    original value. What somebody else has changed meanwhile is his, and left alone.
//! 8. **Forget**: the journal is removed last. Doing step 7 twice changes nothing.
//!
//! A journal's last line may be torn: then its write (step 5) had not begun. A journal of another boot
//! is void: what is changed here does not survive one. Each journal is settled on its own: one that is damaged is undone
//! as far as it can be read, and named. Undoing needs no room on the disk.
//!
//! A knob may be claimed for a *set* of values ([`Claim::Within`]) or for one *at times*
//! ([`Claim::AtTimes`]): a packer moves threads thousands of times a second, and the file system would be
//! busier than the program if each move were journaled. The original value is journaled once; any mask
//! within the pack counts as ours. The moves themselves go through a [`KnobHandle`], one system call each.
//!
//! Threads inherit masks and classes from their creators, ours too. A process whose threads are changed is
//! therefore *adopted* first ([`Session::adopt`]): its leader's originals and the claims are journaled, a
//! newborn that is taken has its creator's original ([`ChangeRequest::heir_of`]), and the undo ends with a sweep
//! through the process for threads that nobody has announced.

#![deny(unsafe_code)]

pub mod entry;
mod error;
mod files;
pub mod format;
pub mod guardian;
mod handle;
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
pub mod request;
mod rights;
pub mod session;
mod setting;
mod settling;
mod sweep;
pub mod undo;
pub mod waiting;

pub use error::Error;
pub use files::Name;
pub use handle::KnobHandle;
pub use journals::JournalFolder;
pub use knob::{Claim, Knob, Scheduling, Thread, Value};
pub use knob_io::{KnobIo, LiveKnobIo, Writer};
pub use lock::Lock;
pub use request::ChangeRequest;
pub use rights::Right;
pub use session::Session;
pub use setting::Setting;
