//! The program that `make install` gives CAP_BPF and CAP_PERFMON: it observes for a cox that has none. All of it is in `broker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    broker::helper::main()
}
