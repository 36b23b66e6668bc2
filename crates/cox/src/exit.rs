//! Exit codes of cox itself.

use outputs::diagnostics::say;
use session::Ended;

/// cox failed before the program ran, or a command that runs no program failed. env(1) and timeout(1) use the same code.
pub const FAILED: u8 = 125;
/// The options cannot be carried out. Nothing was started.
pub const WRONG_OPTIONS: u8 = 2;
/// The program succeeded, but cox could not restore a change. Scripts must be able to detect that.
pub const UNRESTORED: u8 = 1;

/// Returns the exit code after a session: if the program has ended, its own exit code, even if cox failed. `failed`: whether observing, packing,
/// running tasks, or an output failed. If changes could not be restored, prints which (`unrestored`), and returns 1 instead of 0.
pub fn after(ended: &Ended, failed: bool, unrestored: &[String]) -> u8 {
    let code = match ended.exit {
        Some(exit) => exit.shell_code() as u8,
        None if failed => FAILED,
        None => 0,
    };
    if unrestored.is_empty() {
        return code;
    }
    say(&format!("not everything was put back: {}; see `cox changes status`", unrestored.join("; ")));
    if code == 0 { UNRESTORED } else { code }
}

#[cfg(test)]
mod tests {
    use session::Exit;

    use super::*;

    #[test]
    fn a_change_that_is_not_restored_is_no_success() {
        let left = ["affinity of thread 5 was not restored".to_owned()];
        for (exit, failed, unrestored, code) in [
            (Some(Exit::Code(0)), true, &[][..], 0),
            (Some(Exit::Code(0)), false, &left, UNRESTORED),
            (Some(Exit::Code(7)), false, &left, 7),
            (Some(Exit::Signal(9)), false, &left, 137),
            (None, false, &left, UNRESTORED),
            (None, true, &left, FAILED),
            (None, false, &[], 0),
        ] {
            let ended = Ended { exit, ..Ended::default() };
            assert_eq!(after(&ended, failed, unrestored), code, "{exit:?}, {failed}, {unrestored:?}");
        }
    }
}
