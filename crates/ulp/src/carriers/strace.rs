//! `--strace`: prints the system calls of ULPs on carriers.
//!
//! strace(1) cannot show them: a traced ULP stays at home. It shows those that ULPs make at home.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use arch::argument_count;
use syscalls::Sysno;

use super::machine;

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Length of the longest line, bytes: six arguments of 18 bytes, and the rest.
const LINE_BYTES: usize = 240;

/// Says whether calls are to be printed.
pub(super) fn set(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
}

/// Prints a system call of a ULP, if that is wanted. `number`: `None` for one with the numbers of 32-bit programs. `result`: of a call that the carrier has made; `None`: the ULP goes home for it.
///
/// The caller is the signal handler, in the context of a ULP: nothing here allocates, or uses thread-local storage.
#[inline]
pub(super) fn show(ulp: u32, number: Option<usize>, arguments: [u64; 6], result: Option<i64>) {
    if IS_WANTED.load(Ordering::Relaxed) {
        print(ulp, number, arguments, result);
    }
}

#[cold]
fn print(ulp: u32, number: Option<usize>, arguments: [u64; 6], result: Option<i64>) {
    let line = line(ulp, number, arguments, result);
    let mut text = line.text();
    while !text.is_empty() {
        let (file, at, bytes) = (libc::STDERR_FILENO as u64, text.as_ptr() as u64, text.len() as u64);
        // SAFETY: the text is valid.
        match unsafe { machine::call4(libc::SYS_write, file, at, bytes, 0) } {
            written @ 1.. => text = text.get(written as usize..).unwrap_or_default(),
            error if error == i64::from(-libc::EINTR) => {}
            // The rest is lost.
            _ => return,
        }
    }
}

fn line(ulp: u32, number: Option<usize>, arguments: [u64; 6], result: Option<i64>) -> Line {
    let mut line = Line { bytes: [0; LINE_BYTES], length: 0 };
    // It ends where there is no room.
    let _ = write_line(&mut line, ulp, number, arguments, result);
    line
}

fn write_line(
    line: &mut Line,
    ulp: u32,
    number: Option<usize>,
    arguments: [u64; 6],
    result: Option<i64>,
) -> fmt::Result {
    match (number, number.and_then(Sysno::new)) {
        (_, Some(call)) => write!(line, "cox: ULP {ulp}: {}(", call.name())?,
        (Some(number), None) => write!(line, "cox: ULP {ulp}: call {number}(")?,
        (None, _) => write!(line, "cox: ULP {ulp}: a 32-bit call(")?,
    }
    for (index, argument) in arguments.iter().take(number.map_or(0, argument_count)).enumerate() {
        write!(line, "{}{argument:#x}", if index == 0 { "" } else { ", " })?;
    }
    match result {
        Some(result @ -4095..0) => writeln!(line, ") on its carrier: error {}", -result),
        Some(result) => writeln!(line, ") on its carrier: {result:#x}"),
        None => writeln!(line, ") at home"),
    }
}

/// A line of limited length.
struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Line {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_arguments_of_the_call_and_where_it_is_made() {
        let text = |number, result| {
            String::from_utf8(line(3, Some(number), [1, 0x2a, 3, 4, 5, 6], result).text().to_vec()).unwrap()
        };
        assert_eq!(text(1, None), "cox: ULP 3: write(0x1, 0x2a, 0x3) at home\n");
        assert_eq!(text(39, Some(0x1269)), "cox: ULP 3: getpid() on its carrier: 0x1269\n");
        assert_eq!(text(11, Some(-22)), "cox: ULP 3: munmap(0x1, 0x2a) on its carrier: error 22\n");
        assert_eq!(text(5000, None), "cox: ULP 3: call 5000(0x1, 0x2a, 0x3, 0x4, 0x5, 0x6) at home\n");
    }

    #[test]
    fn calls_of_32_bit_programs_have_other_numbers() {
        assert_eq!(line(3, None, [1; 6], None).text(), b"cox: ULP 3: a 32-bit call() at home\n");
    }

    #[test]
    fn the_longest_line_has_room() {
        let longest = line(u32::MAX, Some(usize::MAX), [u64::MAX; 6], Some(i64::MAX));
        assert_eq!(longest.text().last(), Some(&b'\n'));
    }
}
