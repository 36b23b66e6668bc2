//! Reads what a ULP passes by address. A wrong address is the ULP's fault, and must not end the host.
#![allow(unsafe_code, reason = "process_vm_readv has no safe wrapper in the libraries we use")]

use std::ffi::CString;
use std::io;

/// Maximum length of a string, and of all strings of a list, bytes (as for execve: MAX_ARG_STRLEN, and three quarters of _STK_LIM).
const LONGEST: usize = 128 << 10;
const LONGEST_ALL: usize = 6 << 20;
/// Memory is read in aligned pieces of so many bytes, none of which crosses the end of a page.
const PIECE: u64 = 256;

/// Reads memory of this process.
///
/// # Errors
/// EFAULT if it is not all readable, or what the kernel says.
pub fn read(at: u64, bytes: &mut [u8]) -> Result<(), i32> {
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(at as usize), iov_len: bytes.len() };
    // SAFETY: the kernel writes into the buffer only, and checks the other address.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    match usize::try_from(read) {
        Ok(length) if length == bytes.len() => Ok(()),
        Ok(_) => Err(libc::EFAULT),
        Err(_) => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EFAULT)),
    }
}

/// Reads the string at an address.
///
/// # Errors
/// EFAULT if it is not all readable, E2BIG if it is too long.
pub(super) fn string(at: u64) -> Result<CString, i32> {
    let mut text = Vec::new();
    while text.len() < LONGEST {
        let here = at.wrapping_add(text.len() as u64);
        let mut piece = vec![0; (PIECE - here % PIECE) as usize];
        read(here, &mut piece)?;
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend(&piece[..end]);
                return CString::new(text).map_err(|_| libc::EFAULT);
            }
            None => text.extend(piece),
        }
    }
    Err(libc::E2BIG)
}

/// Reads the strings whose addresses are in a list that ends with 0; none if there is no list.
///
/// # Errors
/// As for [`string`].
pub(super) fn strings(list: u64) -> Result<Vec<CString>, i32> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    if list == 0 {
        return Ok(all);
    }
    loop {
        let mut address = [0; 8];
        read(list.wrapping_add(8 * all.len() as u64), &mut address)?;
        let at = u64::from_le_bytes(address);
        if at == 0 {
            return Ok(all);
        }
        let text = string(at)?;
        bytes += text.as_bytes().len() + 8;
        if bytes > LONGEST_ALL {
            return Err(libc::E2BIG);
        }
        all.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_and_wrong_addresses_refused() {
        let long = CString::new(vec![b'x'; 5000]).unwrap();
        let words = [c"".as_ptr(), c"one".as_ptr(), long.as_ptr(), std::ptr::null()];
        let list = words.as_ptr() as u64;
        assert_eq!(strings(list), Ok(vec![c"".to_owned(), c"one".to_owned(), long]));
        assert_eq!((strings(0), strings(8), string(1 << 50)), (Ok(vec![]), Err(libc::EFAULT), Err(libc::EFAULT)));
        let endless = vec![b'x'; LONGEST + 1000];
        assert_eq!(string(endless.as_ptr() as u64), Err(libc::E2BIG));
        let wrong = [c"one".as_ptr() as u64, 8, 0];
        assert_eq!(strings(wrong.as_ptr() as u64), Err(libc::EFAULT));
    }
}
