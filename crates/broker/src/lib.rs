//! Taking the privilege apart: a cox without capabilities, and the small program `cox-observe` that has CAP_BPF and CAP_PERFMON.
//!
//! - [`protocol`]: the messages between the two, as bytes and back; pure.
//! - [`client`]: cox's side, a [`watch::Observer`] and a [`watch::stands::Tracer`] whose eBPF programs are in the other process.
//! - [`ebpf`]: which of the two processes loads what a session needs, and why neither can.
//! - [`serve`]: the other side's answers. It does nothing that the protocol does not name.
//! - [`helper`]: the other side's process, which loads the programs.
//! - [`confine`]: what the privileged process gives up before it reads its first message.
//! - [`caller`]: who asks: their user and groups, and whose processes they may observe.
//! - [`sessions`]: how many sessions one user may have, and how much kernel memory.
//!
//! Why not capabilities on `cox` itself: the dynamic loader then drops LD_LIBRARY_PATH and others (AT_SECURE), the programs that cox starts inherit the
//! poorer environment, and every user could observe every process.

pub mod caller;
pub mod client;
pub mod confine;
pub mod ebpf;
pub mod helper;
pub mod protocol;
pub mod serve;
pub mod sessions;
mod socket;
