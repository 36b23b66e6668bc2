//! Runs a command on a pseudo terminal, as a user would.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::run::{end_of, shell_code, wait_for};

/// Byte that the key Ctrl-C sends.
pub const CTRL_C: u8 = 3;
/// Byte that the key Ctrl-Z sends.
pub const CTRL_Z: u8 = 26;

/// A pseudo terminal, the command that it controls, and its output.
pub struct Terminal {
    keyboard: File,
    command: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a command in a new session on a new terminal.
    pub fn start(words: &[&str]) -> Terminal {
        let (master, name) = open_master();
        let slave = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let stream = || Stdio::from(slave.try_clone().unwrap());
        // setsid(1) makes stdin the controlling terminal.
        let mut setsid = Command::new("setsid");
        setsid.arg("--ctty").args(words).stdin(stream()).stdout(stream()).stderr(stream());
        let command = setsid.spawn().unwrap();
        drop(setsid);
        drop(slave);

        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut shown, written) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        // The read fails when no process has the terminal open any more; the thread then ends.
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = shown.read(&mut bytes) {
                written.lock().unwrap().extend(&bytes[..n]);
            }
        });
        Terminal { keyboard, command, screen }
    }

    /// Returns the command's process ID.
    pub fn pid(&self) -> u32 {
        self.command.id()
    }

    /// Presses a key.
    pub fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).unwrap();
    }

    /// Returns the output so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until the output contains a text.
    pub fn wait_for(&self, text: &str) {
        wait_for(&format!("{text:?} on the terminal"), || self.screen().contains(text).then_some(()));
    }

    /// Waits for the end of the command. Returns its exit code as a shell reports it.
    pub fn end(&mut self) -> i32 {
        shell_code(end_of(&mut self.command))
    }
}

/// Opens a new pseudo terminal. Returns its master side, and the path of its slave side.
fn open_master() -> (OwnedFd, String) {
    // SAFETY: takes no pointers; the kernel returns a new descriptor or -1.
    let fd = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let master = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut name = [0; 64];
    // SAFETY: `master` is open, and `name` is valid for writes of its length.
    let unlocked = unsafe {
        libc::grantpt(master.as_raw_fd()) == 0
            && libc::unlockpt(master.as_raw_fd()) == 0
            && libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr(), name.len()) == 0
    };
    assert!(unlocked, "{}", std::io::Error::last_os_error());
    // SAFETY: ptsname_r has written a string that ends with NUL.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap().to_owned();
    (master, name)
}
