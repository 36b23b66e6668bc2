//! Checks of the house that no general tool makes.
//!
//! - [`rooms`]: the plan: which crate is on which floor and may use which others.
//! - [`arrows`]: whether a workspace keeps to a plan; pure.
//! - [`circles`]: files of a crate that use one another.
//! - [`words`]: retired words in names and texts.
//! - [`workspace`]: the workspace as it is, told by `cargo metadata`.
//! - [`lines`]: long source files.
//! - [`btf`]: whether the BPF programs fit kernels other than this one.
//! - [`conformance`]: other people's OpenMP tests, plain and under cox.
//! - [`supervise`]: runs a test program with a limit, and ends what it leaves behind.
//! - [`walk`]: README.md's commands in a fresh Debian, and what newcomers try next.

#![forbid(unsafe_code)]

pub mod arrows;
pub mod btf;
pub mod circles;
pub mod conformance;
mod for_tests;
pub mod lines;
pub mod rooms;
pub mod supervise;
pub mod walk;
pub mod words;
pub mod workspace;
