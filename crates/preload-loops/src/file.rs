//! The file that cox reads after the run: [`wire::loop_records`]. It is made at the first loop, in the folder that cox names, and mapped.
//!
//! The bytes are reserved before they are used, because a store to a mapped page for which the disk has no room would kill the program. Without a folder
//! or without room, records are kept nowhere, and the program runs on.
//!
//! A child process that is forked shares the parent's mapping. Before it can write there, the same addresses are mapped to zeroed memory of its own, and
//! at its first loop to a file of its own.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use wire::loop_records::{File, MAGIC, MODULES, Module, PATH, RECORDS, Record, VERSION};

use crate::{clock, delays};

/// The folder of the session; empty if there is none.
static FOLDER: Mutex<Option<CString>> = Mutex::new(None);
/// The mapping; null before the first loop.
static MAPPING: AtomicPtr<File> = AtomicPtr::new(null_mut());
/// Changes when a child process is forked, whose records begin anew.
static GENERATION: AtomicU64 = AtomicU64::new(1);
/// The generation whose file has been made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Notes the folder. Called before the program runs.
pub fn at_load(folder: &CStr) {
    if let Ok(mut place) = FOLDER.lock() {
        *place = Some(folder.to_owned());
    }
    // SAFETY: the handlers have the type that is asked for, and the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

/// The lock is held during a fork, so that the child finds it free.
static FORKING: Mutex<()> = Mutex::new(());

thread_local! {
    static HELD: std::cell::RefCell<Option<std::sync::MutexGuard<'static, ()>>> = const { std::cell::RefCell::new(None) };
}

unsafe extern "C" fn before_fork() {
    let guard = FORKING.lock().ok();
    let _ = HELD.try_with(|held| held.try_borrow_mut().map(|mut held| *held = guard));
}

unsafe extern "C" fn after_fork() {
    let _ = HELD.try_with(|held| held.try_borrow_mut().map(|mut held| held.take()));
}

unsafe extern "C" fn in_child() {
    let mapping = MAPPING.load(Ordering::Relaxed);
    if !mapping.is_null() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: replaces the whole mapping, which belongs to this library, by zeroed memory. If that fails, the old one stays.
        unsafe { libc::mmap(mapping.cast(), size_of::<File>(), ACCESS, flags, -1, 0) };
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    delays::forked();
    // SAFETY: as before, in the thread that has locked.
    unsafe { after_fork() };
}

const ACCESS: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Returns the current generation: a record of another one has to be begun again.
#[inline]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins a record of the loop at this address; `None` if there is no file, or no room in it.
#[cold]
pub fn begin(place: usize) -> Option<&'static Record> {
    let _lock = FORKING.lock().ok()?;
    let file = file()?;
    let number = file.header.records.fetch_add(1, Ordering::Relaxed) as usize;
    let record = file.records.get(number).filter(|_| number < RECORDS)?;
    let (module, place) = locate(file, place)?;
    record.module.store(module, Ordering::Relaxed);
    record.least_trips.store(u64::MAX, Ordering::Relaxed);
    record.place.store(place, Ordering::Release);
    Some(record)
}

/// Returns the file of this process; makes it if there is none.
fn file() -> Option<&'static File> {
    let generation = generation();
    let mut mapping = MAPPING.load(Ordering::Relaxed);
    if MADE.swap(generation, Ordering::Relaxed) != generation {
        let made = make(mapping)?;
        MAPPING.store(made, Ordering::Relaxed);
        mapping = made;
    }
    // SAFETY: null, or a mapping of this size that is never removed; zeroed words are a valid file, all of whose words are atomics.
    unsafe { mapping.as_ref() }
}

/// Makes the file and maps it, at `at` unless that is null.
fn make(at: *mut File) -> Option<*mut File> {
    let folder = FOLDER.lock().ok()?.clone()?;
    let mut path = folder.into_bytes();
    path.extend_from_slice(b"/XXXXXX\0");
    let bytes = size_of::<File>();
    // SAFETY: the path ends in a NUL behind the six letters that mkostemp replaces. The descriptor is this function's own.
    unsafe {
        let descriptor = libc::mkostemp(path.as_mut_ptr().cast(), libc::O_CLOEXEC);
        if descriptor < 0 {
            return None;
        }
        let has_room = libc::posix_fallocate(descriptor, 0, bytes as libc::off_t) == 0;
        let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
        let mapping = if has_room {
            libc::mmap(at.cast(), bytes, ACCESS, libc::MAP_SHARED | fixed, descriptor, 0)
        } else {
            libc::unlink(path.as_ptr().cast());
            libc::MAP_FAILED
        };
        libc::close(descriptor);
        let file = mapping.cast::<File>();
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let header = &(*file).header;
        header.version.store(VERSION, Ordering::Relaxed);
        header.pid.store(libc::getpid() as u64, Ordering::Relaxed);
        header.ns_per_tick.store(clock::ns_per_tick().to_bits(), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Some(file)
    }
}

/// An address that is looked for, and the module where it is.
struct Search {
    place: usize,
    found: Option<(u64, Vec<u8>)>,
}

/// Returns the number of the module of an address, and the address as the module's file counts them.
fn locate(file: &File, place: usize) -> Option<(u64, u64)> {
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
    number_of(file, &path).map(|module| (module, address))
}

fn own_path() -> Option<Vec<u8>> {
    let mut path = vec![0u8; PATH];
    // SAFETY: writes at most as many bytes as there are.
    let length = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    path.truncate(usize::try_from(length).ok()?);
    Some(path)
}

/// Returns the number of a module; adds it if it is new. Called under the lock.
fn number_of(file: &File, path: &[u8]) -> Option<u64> {
    let path = &path[..path.len().min(PATH)];
    let words: Vec<u64> = path.chunks(8).map(word_of).collect();
    let count = (file.header.modules.load(Ordering::Relaxed) as usize).min(MODULES);
    let is_same = |module: &Module| {
        let known = module.path.iter().map(|word| word.load(Ordering::Relaxed));
        module.length.load(Ordering::Relaxed) == path.len() as u64
            && known.zip(&words).all(|(known, word)| known == *word)
    };
    if let Some(known) = file.modules[..count].iter().position(is_same) {
        return Some(known as u64);
    }
    let module = file.modules.get(count)?;
    module.path.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    module.length.store(path.len() as u64, Ordering::Relaxed);
    file.header.modules.store(count as u64 + 1, Ordering::Release);
    Some(count as u64)
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}
