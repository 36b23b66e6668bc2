//! Privilege separation: cox runs without capabilities, and the small program `cox-observe` has CAP_BPF and
//! CAP_PERFMON.
//!
//! - [`protocol`]: encodes and decodes the messages between the two.
//! - [`client`]: the side of cox, a [`watch::Observer`], a [`watch::snapshots::ThreadSnapshots`] and [`watch::noise::NoiseEvents`] whose eBPF
//!   programs are in the helper process.
//! - [`ebpf`]: chooses the process that loads the programs of a session, and explains why neither can.
//! - [`serve`]: the answers of `cox-observe`. It does only what the protocol defines.
//! - [`helper`]: the process `cox-observe`, which loads the programs.
//! - [`confine`]: drops privileges and inherited state before the first message is read.
//! - [`caller`]: the caller's user and groups, and whose processes the caller may observe.
//! - [`sessions`]: limits the number of sessions per user and their kernel memory.
//!
//! `cox` itself has no capabilities. If it had, the dynamic loader would drop LD_LIBRARY_PATH and other variables (AT_SECURE), and the programs that
//! cox starts would inherit the reduced environment. Also, every user could observe every process.

pub mod caller;
pub mod client;
pub mod confine;
pub mod ebpf;
pub mod helper;
pub mod protocol;
pub mod serve;
pub mod sessions;
mod socket;
