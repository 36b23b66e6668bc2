//! Runs commands as an ordinary user, from a test that runs as root.

/// User ID of `nobody`.
pub const NOBODY: u32 = 65534;

/// Returns the arguments of setpriv(1) with which root starts a command as user `uid`, with that user's group only. The caller appends the command.
pub fn as_user(uid: u32) -> Vec<String> {
    let id = uid.to_string();
    ["--reuid", &id, "--regid", &id, "--clear-groups", "--"].map(str::to_owned).to_vec()
}
