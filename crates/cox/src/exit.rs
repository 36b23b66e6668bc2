//! The exit codes that are cox's own.

use outputs::diagnostics::say;
use pack::live::Summary;
use session::Ended;

/// cox itself failed before the program ran, or without one, as env(1) and timeout(1) have it.
pub const FAILED: u8 = 125;
/// Something is still changed, and the program has ended well: a script has to hear of it.
const UNRESTORED: u8 = 1;

/// The code to end with after a session: the program's own, whatever has failed. `failed`: whether anything has.
pub fn after(ended: &Ended, failed: bool) -> u8 {
    match ended.exit {
        Some(exit) => exit.shell_code() as u8,
        None if failed => FAILED,
        None => 0,
    }
}

/// The code, if everything was put back that packing has changed. Else what is still changed is said, and no program's success hides it.
pub fn undone_or(code: u8, summary: &Summary) -> u8 {
    if !summary.unrestored {
        return code;
    }
    let what = summary.complaints.join("; ");
    say(&format!("not everything was put back: {what}; see `cox changes status`"));
    if code == 0 { UNRESTORED } else { code }
}
