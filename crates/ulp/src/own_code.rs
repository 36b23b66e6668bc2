//! Where the host's own code is.

use std::ffi::c_void;
use std::ops::Range;

/// The segment with this crate's code.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnCode {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Its position in the file /proc/self/exe, bytes.
    pub offset: u64,
}

/// Returns where the host's own code is: the segment with this function.
pub(crate) fn find() -> OwnCode {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> i32 {
        // SAFETY: the C library passes valid headers; `found` is the value below.
        unsafe {
            let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into());
            for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
                let begin = (*info).dlpi_addr + header.p_vaddr;
                let addresses = begin..begin + header.p_memsz;
                if addresses.contains(&(find as *const () as u64)) {
                    *found.cast::<OwnCode>() = OwnCode { addresses, offset: header.p_offset };
                    return 1;
                }
            }
        }
        0
    }
    let mut found = OwnCode::default();
    // SAFETY: the callback and its data are valid during the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found
}
