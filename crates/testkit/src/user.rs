//! Commands of an ordinary user, from a test that runs as root.

/// The user called nobody.
pub const NOBODY: u32 = 65534;

/// Arguments of setpriv(1) that make a user of root, without any group but their own; what comes behind is their command.
pub fn as_user(uid: u32) -> Vec<String> {
    let id = uid.to_string();
    ["--reuid", &id, "--regid", &id, "--clear-groups", "--"].map(str::to_owned).to_vec()
}
