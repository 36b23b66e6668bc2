//! Parts of the library that need no program around them: their own tests, which cargo cannot run in a library that would be
//! its own harness' guest.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "only the tests within these are of interest here")]

#[path = "../src/overlap/chunks.rs"]
mod chunks;
#[path = "../src/overlap/clauses.rs"]
mod clauses;
#[path = "../src/overlap/reductions.rs"]
mod reductions;
