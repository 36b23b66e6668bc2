//! For tests of what reads files: recordings that are made by hand, and what happens to files.
//!
//! Nothing but tests uses it. What is changed at random is changed the same way each time: a number says how.
//!
//! - [`random`]: the numbers.
//! - [`bytes`], [`text`], [`moments`], [`perf`]: what is changed. Bytes reach the decoders; what is behind them is reached by changing what was
//!   meant before it is encoded.
//! - [`perf`] also makes the recordings that are changed.
//! - [`memory`]: how much of it something took.

pub mod bytes;
pub mod memory;
pub mod moments;
pub mod perf;
pub mod random;
pub mod text;

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
