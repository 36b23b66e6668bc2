//! Unit tests of the library's modules that need no program. cargo cannot run them in the library itself, because the library would be loaded into
//! its own test program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "only the tests within these are of interest here")]

#[path = "../src/overlap/chunks.rs"]
mod chunks;
#[path = "../src/overlap/clauses.rs"]
mod clauses;
#[path = "../src/overlap/reductions.rs"]
mod reductions;
