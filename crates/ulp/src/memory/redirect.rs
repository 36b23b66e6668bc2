//! Makes the system calls of a ULP that map memory, with an address of its own, and those that read the path of its program. Redirects the calls of the
//! libraries that it maps.
//!
//! This runs in the ULP's context, with its thread-local storage: it must use nothing of the host's C library, and no memory allocator. On a carrier, its
//! system calls are dispatched as the program's are.

use std::sync::atomic::{AtomicU8, Ordering};

use arch::redirections::{Call, MAP_LOW, SITE_BYTES, Site, jump, sites, system_call};

use super::files::{Files, Key, LONGEST_CODE_BYTES, Sites, is_empty};
use super::mapper::Mapper;
use crate::program::layout::{PAGE, up};

arch::redirections!(Mapper, serve);

/// A mapping at an address where another one is fails with EEXIST (Linux 4.17).
const FIXED_NOREPLACE: u64 = 0x10_0000;
/// So many places are tried.
const PLACES: usize = 8;

/// The files whose code ULPs have mapped.
static FILES: Files = Files::new();

/// Returns the address of what entries call.
pub fn enter_address() -> u64 {
    enter as *const () as u64
}

/// Makes a system call whose site was replaced. Returns what the kernel returns.
///
/// # Safety
/// Called by an entry.
unsafe extern "C" fn serve(call: &Call) -> i64 {
    // SAFETY: the entry is behind its ULP's mapper. The program has made the call itself.
    unsafe {
        let (mapper, number) = Mapper::of(call);
        // Often enough: a dynamic linker maps libraries, and a program allocates memory.
        mapper.listing.look(mapper.path);
        match number.into() {
            libc::SYS_mmap => map(mapper, call.arguments),
            libc::SYS_mremap => remap(mapper, call.arguments),
            READLINK => read_link(mapper, call.arguments),
            number => system_call(number, call.arguments),
        }
    }
}

/// Makes a mapping. In code that is mapped from a file, calls are redirected.
unsafe fn map(mapper: &Mapper, arguments: [u64; 6]) -> i64 {
    let [_, bytes, prot, flags, file, offset] = arguments;
    let is_private_file = flags & (MAP_TYPE | libc::MAP_ANONYMOUS as u64) == libc::MAP_PRIVATE as u64;
    let is_code = prot == (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let key =
        (is_private_file && is_code && bytes <= LONGEST_CODE_BYTES).then(|| key(file as i32, offset, bytes)).flatten();
    // SAFETY: the caller's.
    unsafe {
        match key {
            Some((key, file_bytes)) => map_code(mapper, arguments, &key, file_bytes),
            None => map_as_asked(mapper, arguments),
        }
    }
}

/// Makes a mapping. Where the program does not mind, its address is the ULP's own.
unsafe fn map_as_asked(mapper: &Mapper, arguments: [u64; 6]) -> i64 {
    let [address, _, _, flags, ..] = arguments;
    // SAFETY: the program has made this call; what differs is the address, which it has left to the kernel.
    unsafe {
        let own = (address == 0 && flags & CHOOSES == 0).then(|| map_somewhere(mapper, arguments)).flatten();
        own.unwrap_or_else(|| system_call(libc::SYS_mmap, arguments))
    }
}

/// Maps code, and redirects the calls in it. `file_bytes`: so many bytes of the file can be read there.
unsafe fn map_code(mapper: &Mapper, mut arguments: [u64; 6], key: &Key, file_bytes: u64) -> i64 {
    let [_, bytes, prot, flags, file, offset] = arguments;
    let at_this_place = flags & !FIXED_NOREPLACE | libc::MAP_FIXED as u64;
    // SAFETY: the program has made this call. A mapping that is replaced was made here.
    unsafe {
        let sites = match FILES.known(key) {
            Some(sites) => sites,
            None => {
                let at = map_as_asked(mapper, arguments);
                if at < 0 {
                    return at;
                }
                arguments = [at as u64, bytes, prot, at_this_place, file, offset];
                let sites =
                    FILES.find(key, std::slice::from_raw_parts(at as *const u8, bytes.min(file_bytes) as usize));
                if is_empty(&sites) {
                    return at;
                }
                sites
            }
        };
        if is_empty(&sites) {
            return map_as_asked(mapper, arguments);
        }
        let [address, _, _, flags, ..] = arguments;
        let at = map_as_asked(mapper, [address, bytes, WRITABLE, flags | NO_ACCOUNT, file, offset]);
        if at < 0 {
            // The limit of writable memory, or a real error.
            return map_as_asked(mapper, arguments);
        }
        if redirect(mapper, at as u64, bytes, prot, &sites) {
            return at;
        }
        // It may not be executed now.
        system_call(libc::SYS_mmap, [at as u64, bytes, prot, at_this_place, file, offset])
    }
}

/// Protection of code while calls in it are redirected.
const WRITABLE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
/// Code that can be written must not count as memory that may be needed some day.
const NO_ACCOUNT: u64 = libc::MAP_NORESERVE as u64;

/// The bits of the flags that say whether a mapping is shared (the kernel's linux/mman.h).
const MAP_TYPE: u64 = 0x0f;
/// Flags of mappings for which only certain addresses will do.
const CHOOSES: u64 = (libc::MAP_FIXED | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB) as u64 | MAP_LOW | FIXED_NOREPLACE;

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

/// readlink(2); aarch64 has only readlinkat(2).
const READLINK: i64 = 89;

/// Reads a link. That to the program leads to the ULP's.
unsafe fn read_link(mapper: &Mapper, arguments: [u64; 6]) -> i64 {
    let [path, buffer, bytes, ..] = arguments;
    // SAFETY: the program has made this call. When it has succeeded, the path can be read, and the buffer has its length.
    unsafe {
        let result = system_call(READLINK, arguments);
        if result < 0 || !is_own_file(path as *const u8) {
            return result;
        }
        let (mut count, own) = (0, mapper.path as *const u8);
        while count < bytes as usize && own.add(count).read() != 0 {
            (buffer as *mut u8).add(count).write(own.add(count).read());
            count += 1;
        }
        count as i64
    }
}

/// Whether a path is the link to the program of this process: for the kernel, that of the host. realpath(3) asks with the pid.
///
/// # Safety
/// The path must end with a zero byte.
unsafe fn is_own_file(path: *const u8) -> bool {
    // SAFETY: nothing is read behind the first byte that differs.
    let behind = |path: *const u8, text: &[u8]| unsafe {
        let is_same = text.iter().enumerate().all(|(at, byte)| path.add(at).read() == *byte);
        is_same.then(|| path.add(text.len()))
    };
    let Some(process) = behind(path, b"/proc/") else { return false };
    let rest = behind(process, b"self").or_else(|| behind(process, b"thread-self")).or_else(|| {
        let (mut number, mut at) = (0_i64, process);
        // SAFETY: as above.
        while let digit @ b'0'..=b'9' = unsafe { at.read() } {
            number = number.checked_mul(10)?.checked_add((digit - b'0').into())?;
            // SAFETY: as above.
            at = unsafe { at.add(1) };
        }
        // SAFETY: a call without conditions.
        (number == unsafe { system_call(libc::SYS_getpid, [0; 6]) }).then_some(at)
    });
    rest.is_some_and(|rest| behind(rest, b"/exe\0").is_some())
}

/// Returns what tells a part of a file from others, and how many bytes the file has from there on.
fn key(file: i32, offset: u64, bytes: u64) -> Option<(Key, u64)> {
    // SAFETY: all fields are numbers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid.
    let error = unsafe { system_call(libc::SYS_fstat, [file as u64, (&raw mut status) as u64, 0, 0, 0, 0]) };
    let key = [
        status.st_dev,
        status.st_ino,
        status.st_size as u64,
        (status.st_mtime as u64) << 30 ^ status.st_mtime_nsec as u64,
        (status.st_ctime as u64) << 30 ^ status.st_ctime_nsec as u64,
        offset,
        bytes,
    ];
    (error == 0).then_some((key, (status.st_size as u64).saturating_sub(offset)))
}

/// Redirects the calls at some sites of code at `at`, which can be written, and gives it the protection `prot`. Where that is not possible, they stay as
/// they are.
/// Returns whether it has this protection: a security module may refuse to let modified code be executed.
///
/// # Safety
/// The code must be mapped privately, readable and writable, and be of no other use meanwhile. All of a mapping: otherwise, a part would be one of its own.
#[must_use]
pub unsafe fn redirect(mapper: &Mapper, at: u64, bytes: u64, prot: u64, sites: &Sites) -> bool {
    let is_inside = |site: &&Site| site.at as u64 + SITE_BYTES as u64 <= bytes;
    for site in sites.iter().flatten().filter(is_inside) {
        // SAFETY: the site is in the code, which can be written.
        unsafe { redirect_one(mapper, at + site.at as u64, site.number) };
    }
    // SAFETY: the caller's mapping.
    unsafe { system_call(libc::SYS_mprotect, [at, up(bytes), prot, 0, 0, 0]) == 0 }
}

/// Replaces one site by a jump to an entry.
unsafe fn redirect_one(mapper: &Mapper, place: u64, number: u32) {
    // This exchange is a write even if it changes nothing, as long as the compiler keeps it: the page becomes a private copy by one fault. If it were read first, the pages
    // around it would be mapped, and there would be a second fault.
    // SAFETY: the code can be written, and nobody executes it.
    let _ =
        unsafe { AtomicU8::from_ptr(place as *mut u8) }.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
    // The file may have been changed since its sites were found.
    // SAFETY: the caller's.
    let code = unsafe { std::slice::from_raw_parts(place as *const u8, SITE_BYTES) };
    if sites(code).next() != Some(Site { at: 0, number }) {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_to_the_own_program_has_several_names() {
        // SAFETY: the strings end with a zero byte.
        let is_own = |path: String| unsafe { is_own_file(format!("{path}\0").as_ptr()) };
        let pid = std::process::id();
        let own = ["self".to_owned(), "thread-self".to_owned(), pid.to_string()];
        assert!(own.iter().all(|process| is_own(format!("/proc/{process}/exe"))));
        for process in [(pid + 1).to_string(), format!("{pid}0"), "selfish".to_owned(), String::new(), "9".repeat(40)] {
            assert!(!is_own(format!("/proc/{process}/exe")), "{process}");
        }
        for path in ["", "/proc", "/proc/self", "/proc/self/ex", "/proc/self/exes", "/proc/self/cwd"] {
            assert!(!is_own(path.to_owned()), "{path}");
        }
    }
}
