//! Exit codes of cox itself.

use outputs::diagnostics::say;
use pack::live::Summary;
use session::Ended;

/// cox failed before the program ran, or a command that runs no program failed. env(1) and timeout(1) use the same code.
pub const FAILED: u8 = 125;
/// The options cannot be carried out. Nothing was started.
pub const WRONG_OPTIONS: u8 = 2;
/// The program succeeded, but cox could not restore a change; scripts must be able to detect that.
pub const UNRESTORED: u8 = 1;

/// Returns the exit code after a session: if the program has ended, its own exit code, even if cox failed. `failed`: whether observing, packing,
/// running tasks, or an output failed.
pub fn after(ended: &Ended, failed: bool) -> u8 {
    match ended.exit {
        Some(exit) => exit.shell_code() as u8,
        None if failed => FAILED,
        None => 0,
    }
}

/// Returns `code` if packing restored everything. Otherwise prints what is still changed, and returns 1 if `code` is 0, else
/// `code`.
pub fn undone_or(code: u8, summary: &Summary) -> u8 {
    if !summary.unrestored {
        return code;
    }
    let what = summary.diagnostics.join("; ");
    say(&format!("not everything was put back: {what}; see `cox changes status`"));
    if code == 0 { UNRESTORED } else { code }
}
