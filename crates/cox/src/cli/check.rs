//! The options of `cox check`.

use std::ffi::OsString;

use clap::Args;

/// Check whether a program can run as a user-level process (`cox ulp`), and what else cox can do for it.
///
/// Nothing is executed: cox reads the program's file. For a script, it checks the interpreter.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cox check ./app\n\n\
Exit codes:\n  0    it can run as a ULP\n  1    it cannot, for the reason given\n  2    wrong options\n  125  cox failed\n  126  the program cannot be executed, or not be read\n  127  the program was not found")]
pub struct Check {
    /// The program
    #[arg(value_name = "PROGRAM")]
    pub file: OsString,
}
