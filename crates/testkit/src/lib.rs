//! Helpers that only tests use.
//!
//! - [`skip`]: tests that cannot run on this machine, and machines that must not skip them.
//! - [`random`]: reproducible pseudorandom numbers. [`bytes`], [`text`], [`trace_events`] and [`perf`] use them to change inputs. Changed bytes test
//!   the decoders; changes before the encoding test the code behind the decoders. [`trace_events`] and [`perf`] also make the recordings.
//! - [`memory`]: how much memory some work takes.
//! - [`native`]: the C transitions that BPF runs, compiled natively: the oracle for tests of the Rust rules.
//! - [`audit`]: parses a printed report and checks its arithmetic.
//! - [`machine_state`]: what cox could have changed on this machine, and what differs later. The program `quiet-check` uses it in virtual machines.
//!
//! With the feature `programs`, for tests that run this workspace's programs:
//!
//! - `built`: paths of the programs. `run`: runs commands with and without cox. `terminal`: runs commands on a terminal.
//! - `measured`: runs a program and returns its account. `recorded`: records it with perf. `traced`: also writes its traces. `staged`: stages a
//!   situation and returns the verdict.
//! - `packed`: runs `cox pack`. `overlapped`: runs `cox run --overlap`.
//! - `user`, `installed`, `container`: run commands as other users, with an installation, and inside containers.
//! - `schema`: checks documents against `cox schema`. `browser`: opens pages in a browser.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod audit;
pub mod bytes;
pub mod group;
pub mod guardians;
pub mod machine_state;
pub mod memory;
pub mod native;
pub mod perf;
pub mod random;
pub mod skip;
pub mod text;
pub mod trace_events;

#[cfg(feature = "programs")]
pub mod browser;
#[cfg(feature = "programs")]
pub mod built;
#[cfg(feature = "programs")]
pub mod container;
#[cfg(feature = "programs")]
pub mod installed;
#[cfg(feature = "programs")]
pub mod measured;
#[cfg(feature = "programs")]
pub mod overlapped;
#[cfg(feature = "programs")]
pub mod packed;
#[cfg(feature = "programs")]
pub mod recorded;
#[cfg(feature = "programs")]
pub mod run;
#[cfg(feature = "programs")]
pub mod schema;
#[cfg(feature = "programs")]
pub mod staged;
#[cfg(feature = "programs")]
pub mod terminal;
#[cfg(feature = "programs")]
pub mod traced;
#[cfg(feature = "programs")]
pub mod user;

pub use random::Random;

/// Boundary values for lengths, times and IDs.
pub const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0xff,
    1023,
    1024,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

/// Returns how often a test whose result depends on thread interleaving is repeated: `few` times, or `COX_TEST_TIMES` times as often (`make soak`).
#[must_use]
pub fn repeated(few: usize) -> usize {
    few * number("COX_TEST_TIMES").and_then(|times| usize::try_from(times).ok()).unwrap_or(1)
}

/// Returns how many inputs a test tries: `COX_FUZZ_TIMES` (`make fuzz`), or `few`.
#[must_use]
pub fn times(few: u64) -> u64 {
    number("COX_FUZZ_TIMES").unwrap_or(few)
}

/// Returns the number of a test's first input: `COX_FUZZ_SEED`, or 0.
#[must_use]
pub fn seed() -> u64 {
    number("COX_FUZZ_SEED").unwrap_or(0)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
