//! Makes the system calls of a ULP that map memory, with an address of its own, and redirects those of the libraries that it maps.
//!
//! This runs in the ULP's context, with its thread-local storage: it must use nothing of the host's C library, and no memory allocator. On a carrier, its
//! system calls are dispatched as the program's are.

use arch::redirections::{Call, SITE_BYTES, jump, system_call};

use super::files::{Files, LONGEST_CODE_BYTES, Sites};
use super::mapper::Mapper;
use crate::program::layout::{PAGE, up};

arch::redirections!(Mapper, serve);

/// A mapping at an address where another one is fails with EEXIST (Linux 4.17).
const FIXED_NOREPLACE: u64 = 0x10_0000;
/// So many places are tried.
const PLACES: usize = 8;

/// The files whose code ULPs have mapped.
static FILES: Files = Files::new();

/// Makes a system call whose site was replaced. Returns what the kernel returns.
///
/// # Safety
/// Called by an entry.
unsafe extern "C" fn serve(call: &Call) -> i64 {
    // SAFETY: the entry is behind its ULP's mapper. The program has made the call itself.
    unsafe {
        let (mapper, number) = Mapper::of(call);
        match number.into() {
            libc::SYS_mmap => map(mapper, call.arguments),
            libc::SYS_mremap => remap(mapper, call.arguments),
            number => system_call(number, call.arguments),
        }
    }
}

/// Makes a mapping. Where the program does not mind, its address is the ULP's own.
unsafe fn map(mapper: &Mapper, mut arguments: [u64; 6]) -> i64 {
    let [address, bytes, prot, flags, file, offset] = arguments;
    let is_code = prot & libc::PROT_EXEC as u64 != 0
        && flags & (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64 == libc::MAP_PRIVATE as u64;
    if is_code {
        // Writing to it must not count as memory that may be needed some day.
        arguments[3] |= libc::MAP_NORESERVE as u64;
    }
    // SAFETY: the program has made this call; what differs is the address, which it has left to the kernel.
    let at = unsafe {
        match address == 0 && flags & CHOOSES == 0 {
            true => map_somewhere(mapper, arguments).unwrap_or_else(|| system_call(libc::SYS_mmap, arguments)),
            false => system_call(libc::SYS_mmap, arguments),
        }
    };
    if is_code && at > 0 {
        redirect_file(mapper, at as u64, bytes, prot, (file as i32, offset));
    }
    at
}

/// Flags of mappings for which only certain addresses will do.
const CHOOSES: u64 =
    (libc::MAP_FIXED | libc::MAP_32BIT | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB) as u64 | FIXED_NOREPLACE;

/// Makes a mapping at an address of the ULP. Returns `None` if that is not possible: the kernel must choose then, and say what is wrong with the call.
unsafe fn map_somewhere(mapper: &Mapper, mut arguments: [u64; 6]) -> Option<i64> {
    arguments[3] |= FIXED_NOREPLACE;
    for _ in 0..PLACES {
        arguments[0] = mapper.next(arguments[1])?;
        // SAFETY: the mapping replaces nothing.
        match unsafe { system_call(libc::SYS_mmap, arguments) } {
            at if at == arguments[0] as i64 => return Some(at),
            // An old mapping is still there.
            error if error == -i64::from(libc::EEXIST) => {}
            _ => return None,
        }
    }
    None
}

/// Changes the length of a mapping. If it must move, to an address of the ULP.
unsafe fn remap(mapper: &Mapper, arguments: [u64; 6]) -> i64 {
    let [address, before, after, flags, ..] = arguments;
    // SAFETY: the program has made this call. The new place is a mapping made here, of which nobody else knows.
    unsafe {
        if flags != libc::MREMAP_MAYMOVE as u64 || after <= before || before == 0 {
            return system_call(libc::SYS_mremap, arguments);
        }
        let grown = system_call(libc::SYS_mremap, [address, before, after, 0, 0, 0]);
        if grown != -i64::from(libc::ENOMEM) {
            return grown;
        }
        let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let Some(place) = map_somewhere(mapper, [0, after, libc::PROT_NONE as u64, reserve as u64, u64::MAX, 0]) else {
            return system_call(libc::SYS_mremap, arguments);
        };
        let moves = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let moved = system_call(libc::SYS_mremap, [address, before, after, moves, place as u64, 0]);
        if moved < 0 {
            system_call(libc::SYS_munmap, [place as u64, after, 0, 0, 0, 0]);
            return system_call(libc::SYS_mremap, arguments);
        }
        moved
    }
}

/// Redirects the calls in a file's code that has just been mapped. `file`: its descriptor, and the position of the code in it.
fn redirect_file(mapper: &Mapper, at: u64, bytes: u64, prot: u64, (file, offset): (i32, u64)) {
    if bytes > LONGEST_CODE_BYTES || prot & libc::PROT_WRITE as u64 != 0 {
        return;
    }
    // SAFETY: all fields are numbers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid.
    if unsafe { system_call(libc::SYS_fstat, [file as u64, (&raw mut status) as u64, 0, 0, 0, 0]) } != 0 {
        return;
    }
    // Behind the file's end, a mapping cannot be read.
    let bytes = bytes.min((status.st_size as u64).saturating_sub(offset));
    let key = [
        status.st_dev,
        status.st_ino,
        status.st_size as u64,
        (status.st_mtime as u64) << 30 ^ status.st_mtime_nsec as u64,
        (status.st_ctime as u64) << 30 ^ status.st_ctime_nsec as u64,
        offset,
    ];
    // SAFETY: the mapping is there, and can be read: on this processor, what can be executed can.
    let code = unsafe { std::slice::from_raw_parts(at as *const u8, bytes as usize) };
    let sites = FILES.sites_of(&key, code);
    // SAFETY: nobody executes the code yet.
    unsafe { redirect(mapper, at, bytes, prot, &sites) };
}

/// Redirects the calls at some sites of code at `at`. Where that is not possible, they stay as they are.
///
/// # Safety
/// The code must be mapped privately, with `prot`, and nobody may execute it meanwhile.
pub unsafe fn redirect(mapper: &Mapper, at: u64, bytes: u64, prot: u64, sites: &Sites) {
    if sites.iter().all(Option::is_none) || bytes == 0 {
        return;
    }
    let protect = |prot: u64| {
        // SAFETY: the caller's mapping.
        unsafe { system_call(libc::SYS_mprotect, [at, up(bytes), prot, 0, 0, 0]) }
    };
    // All of it: a part would be a mapping of its own from then on.
    if protect((libc::PROT_READ | libc::PROT_WRITE) as u64) != 0 {
        return;
    }
    for site in sites.iter().flatten() {
        let place = at + site.at as u64;
        // SAFETY: the site is in the code, which can be written.
        unsafe { redirect_one(mapper, place, site.number) };
    }
    protect(prot);
}

/// Replaces one site by a jump to an entry.
unsafe fn redirect_one(mapper: &Mapper, place: u64, number: u32) {
    // Whether it is near enough is the same for all entries.
    if jump(place, (&raw const *mapper) as u64 + PAGE).is_none() {
        return;
    }
    let entry = mapper.take_entry(number, place + SITE_BYTES as u64);
    if let Some(code) = entry.and_then(|entry| jump(place, entry)) {
        // SAFETY: the caller's.
        unsafe { (place as *mut [u8; SITE_BYTES]).write_unaligned(code) };
    }
}
