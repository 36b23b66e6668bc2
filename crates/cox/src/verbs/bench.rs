//! `cox bench`: runs the experiments, which are a separate program so that an installation of cox does not need them.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use session::sigpipe;

/// Replaces this process by `cox-bench`, found beside cox or on PATH.
pub fn bench(arguments: &[OsString]) -> Result<u8> {
    let beside = env::current_exe().context("cannot find the path of cox itself")?.with_file_name("cox-bench");
    let program = if beside.exists() { beside } else { "cox-bench".into() };
    sigpipe::restore();
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run '{}' (build it with: make build)", program.display()))
}
