//! What tests share; nothing but tests uses it.
//!
//! - [`skip`]: tests that cannot run on this machine, and machines that promised they can.
//! - [`random`]: numbers, the same each time. [`bytes`], [`text`], [`moments`], [`perf`]: what is changed by them at random. Bytes reach the decoders;
//!   what is behind them is reached by changing what was meant before it is encoded. [`moments`] and [`perf`] also make the recordings that are changed.
//! - [`memory`]: how much of it something took.
//! - [`audit`]: reads a printed report back and adds it up.
//!
//! With the feature `programs`, for tests that run what this workspace builds:
//!
//! - `built`: where it is. `run`: commands with and without cox. `terminal`: … on a terminal.
//! - `measured`: a program's account. `recorded`: … by perf. `traced`: … and its traces. `staged`: a situation, and the verdict.
//! - `packed`: `cox pack`. `overlapped`: `cox run --overlap`.
//! - `user`, `installed`, `container`: as other users, with an installation, inside containers.
//! - `schema`: documents as `cox schema` says. `browser`: pages in one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod audit;
pub mod bytes;
pub mod memory;
pub mod moments;
pub mod perf;
pub mod random;
pub mod skip;
pub mod text;

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

/// Numbers at which lengths, times and ids go wrong.
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

/// How often what depends on the order in which threads meet is repeated: `few` times, or `COX_TEST_TIMES` as often (`make soak`).
#[must_use]
pub fn repeated(few: usize) -> usize {
    few * number("COX_TEST_TIMES").and_then(|times| usize::try_from(times).ok()).unwrap_or(1)
}

/// How many inputs a test is to try: `COX_FUZZ_TIMES` (`make fuzz`), or so many.
#[must_use]
pub fn times(few: u64) -> u64 {
    number("COX_FUZZ_TIMES").unwrap_or(few)
}

/// With which number it is to begin: `COX_FUZZ_SEED`, or 0.
#[must_use]
pub fn seed() -> u64 {
    number("COX_FUZZ_SEED").unwrap_or(0)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
