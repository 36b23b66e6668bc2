//! The text about a ULP that has crashed. Pure.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use ulp::carriers::Crash;

/// Where an instruction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a function of a file, so many bytes behind its begin.
    Function { name: String, into: u64, path: PathBuf },
    /// In a file without a name for it: its address as linked, which addr2line(1) takes.
    File { address: u64, path: PathBuf },
    /// In memory without a file (compiled at run time), or where nothing is.
    Memory { address: u64 },
    /// Where a signal handler returns to: what follows was interrupted by the signal.
    Signal,
}

/// The functions that were called when a ULP crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frames {
    /// The innermost one first. `has_more`: there are further ones.
    Of { places: Vec<Place>, has_more: bool },
    /// They were not looked for, because that was done for so many ULPs.
    After(usize),
}

/// Returns what is printed.
pub fn text(crash: &Crash, frames: &Frames) -> String {
    let mut text = format!("cox: ULP {} (pid {}", crash.number, crash.pid);
    // Writing to a string does not fail.
    if crash.thread != crash.pid {
        let _ = write!(text, ", thread {}", crash.thread);
    }
    let _ = write!(text, ") was ended by signal {}", crash.signal);
    if let Some(name) = name(crash.signal) {
        let _ = write!(text, " ({name})");
    }
    if let Some(address) = crash.address {
        let _ = write!(text, ", address {address:#x}");
    }
    // 0: a process that this one cannot see.
    if let Some(sender) = crash.sender.filter(|sender| ![0, crash.pid].contains(sender)) {
        let _ = write!(text, ", sent by process {sender}");
    }
    text.push('\n');
    match frames {
        Frames::Of { places, has_more } => {
            for (number, place) in places.iter().enumerate() {
                let _ = writeln!(text, "cox:   #{number} {}", line(place));
            }
            if *has_more {
                text.push_str("cox:   and further callers\n");
            }
        }
        Frames::After(count) => {
            let _ = writeln!(text, "cox:   callers are shown for the first {count} crashes only");
        }
    }
    text
}

fn line(place: &Place) -> String {
    let in_file = |path: &Path| format!("({})", path.display());
    match place {
        Place::Function { name, into, path } => format!("{name}+{into:#x} {}", in_file(path)),
        Place::File { address, path } => format!("{address:#x} {}", in_file(path)),
        Place::Memory { address } => format!("{address:#x} (in no file)"),
        Place::Signal => "<signal handler called>".to_owned(),
    }
}

/// Returns the name of a signal, as strsignal(3) has it.
fn name(signal: i32) -> Option<&'static str> {
    match signal {
        libc::SIGSEGV => Some("Segmentation fault"),
        libc::SIGBUS => Some("Bus error"),
        libc::SIGILL => Some("Illegal instruction"),
        libc::SIGFPE => Some("Floating point exception"),
        libc::SIGABRT => Some("Aborted"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arch::frame::UNWOUND;

    use super::*;

    fn crash() -> Crash {
        let registers = [0; UNWOUND];
        Crash { number: 3, pid: 4713, thread: 4713, signal: 11, address: Some(0x10), sender: None, registers }
    }

    #[test]
    fn a_crash_has_a_line_for_itself_and_one_for_each_function() {
        let path = PathBuf::from("/path/app");
        let places = vec![
            Place::Function { name: "solve".to_owned(), into: 0x1c, path },
            Place::File { address: 0x29f45, path: "/lib/libc.so.6".into() },
            Place::Memory { address: 0x10 },
            Place::Signal,
        ];
        let right = "cox: ULP 3 (pid 4713) was ended by signal 11 (Segmentation fault), address 0x10\n\
                     cox:   #0 solve+0x1c (/path/app)\n\
                     cox:   #1 0x29f45 (/lib/libc.so.6)\n\
                     cox:   #2 0x10 (in no file)\n\
                     cox:   #3 <signal handler called>\n";
        assert_eq!(text(&crash(), &Frames::Of { places: places.clone(), has_more: false }), right);
        let more = text(&crash(), &Frames::Of { places, has_more: true });
        assert_eq!(more.strip_prefix(right), Some("cox:   and further callers\n"));
    }

    #[test]
    fn the_thread_and_the_sender_are_named_if_they_are_others() {
        let none = Frames::Of { places: Vec::new(), has_more: false };
        let own = Crash { signal: 6, address: None, sender: Some(4713), ..crash() };
        assert_eq!(text(&own, &none), "cox: ULP 3 (pid 4713) was ended by signal 6 (Aborted)\n");
        let other = Crash { thread: 4720, sender: Some(99), ..own };
        let right = "cox: ULP 3 (pid 4713, thread 4720) was ended by signal 6 (Aborted), sent by process 99\n";
        assert_eq!(text(&other, &none), right);
        let right = right.to_owned() + "cox:   callers are shown for the first 64 crashes only\n";
        assert_eq!(text(&other, &Frames::After(64)), right);
    }
}
