//! The helper to which `make install` gives CAP_BPF and CAP_PERFMON: it observes for a cox without these capabilities. The code is in `broker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    broker::helper::main()
}
