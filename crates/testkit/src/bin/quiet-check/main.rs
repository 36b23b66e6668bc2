//! Checks `cox quiet` on the machine where it runs, which it changes: the jobs of kernel/vm/init begin it in virtual machines. It needs root, four
//! CPUs, and cgroups of version 2. It prints a line for each fact, `fact NAME = VALUE`, and below it indented lines with the reason.
//!
//! | job | what it checks |
//! |---|---|
//! | `one` | one CPU: what the program has there, what else may run there, what is restored |
//! | `two` | the same for two CPUs with load balancing, and for two isolated ones |
//! | `tick` | timer interrupts of a quiet CPU with one busy thread and with two, and with what keeps the tick of one |
//! | `sessions` | two sessions with different CPUs, which end in both orders |
//! | `apply` | `cox quiet apply`, `status` after somebody changed a setting, `undo` |
//! | `kill` | SIGKILL of cox, and of cox with its guardian, while the program runs |
//! | `kills` | SIGKILL at many moments of a session (long) |
//! | `storm` | sessions that begin and end beside forks and I/O (long) |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a check that cannot go on has failed")]

mod facts;
mod jobs;
mod machine;
mod program;
mod session;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["program"] => program::report_and_wait(),
        ["spin", alone, shared] => {
            program::spin(Duration::from_secs(alone.parse().unwrap()), Duration::from_secs(shared.parse().unwrap()));
        }
        ["wait"] => program::wait(),
        ["fork"] => program::fork(),
        ["write"] => program::write(),
        [job] if jobs::run(job) => {}
        _ => {
            eprintln!("usage: quiet-check one|two|tick|sessions|apply|kill|kills|storm");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
