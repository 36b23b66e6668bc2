//! Which file an address of the program comes from.

use std::ffi::{CStr, c_int, c_void};

use wire::loop_records::PATH;

/// An address that is looked for, and the module where it is.
struct Search {
    place: usize,
    found: Option<(u64, Vec<u8>)>,
}

/// Returns the path of the module of an address, and the address as the module's file counts them.
pub fn locate(place: usize) -> Option<(Vec<u8>, u64)> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description; `search` is what the caller below passes.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        let segments: &[libc::Elf64_Phdr] = match info.dlpi_phnum {
            0 => &[],
            // SAFETY: the description has this many segments.
            count => unsafe { std::slice::from_raw_parts(info.dlpi_phdr, count.into()) },
        };
        let address = (search.place as u64).wrapping_sub(info.dlpi_addr);
        let contains = |segment: &libc::Elf64_Phdr| {
            segment.p_type == libc::PT_LOAD && address.wrapping_sub(segment.p_vaddr) < segment.p_memsz
        };
        if !segments.iter().any(contains) {
            return 0;
        }
        // SAFETY: the name is null or a C string.
        let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        search.found = Some((address, name.to_bytes().to_vec()));
        1
    }
    let mut search = Search { place, found: None };
    // SAFETY: `visit` has the type of the callback, and the search lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let (address, name) = search.found?;
    // The loader gives the program itself no name.
    let path = if name.is_empty() { own_path()? } else { name };
    Some((path, address))
}

fn own_path() -> Option<Vec<u8>> {
    let mut path = vec![0u8; PATH];
    // SAFETY: writes at most as many bytes as there are.
    let length = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    path.truncate(usize::try_from(length).ok()?);
    Some(path)
}
