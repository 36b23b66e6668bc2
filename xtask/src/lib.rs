//! Checks of this workspace that no general tool makes.
//!
//! - [`rooms`]: the plan: the layer of each crate, and the crates that it may use.
//! - [`arrows`]: checks the dependencies between crates against the plan; pure.
//! - [`circles`]: finds dependency cycles between the files of a crate.
//! - [`words`]: finds retired words in names and texts.
//! - [`workspace`]: describes the workspace, by `cargo metadata`.
//! - [`lines`]: finds long source files.
//! - [`apt`]: gets Debian's kernel packages without installing them.
//! - [`benchmarks`]: builds other projects' benchmarks for `cox-bench verdicts`.
//! - [`btf`]: checks that the BPF programs fit kernels other than the running one.
//! - [`conformance`]: runs other projects' OpenMP tests plain and under cox.
//! - [`sample`]: draws comments and messages at random for a reader.
//! - [`supervise`]: runs a test program with a time limit, and kills the processes that it leaves behind.
//! - [`vm`]: runs cox on other kernels in virtual machines.
//! - [`walk`]: runs README.md's commands in a fresh Debian, and what newcomers try next.

#![forbid(unsafe_code)]

pub mod apt;
pub mod arrows;
pub mod benchmarks;
pub mod btf;
pub mod circles;
pub mod conformance;
mod for_tests;
pub mod lines;
pub mod rooms;
pub mod sample;
pub mod supervise;
pub mod vm;
pub mod walk;
pub mod words;
pub mod workspace;
