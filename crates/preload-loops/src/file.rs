//! The file that cox reads after the run: [`wire::loop_records`]. It is made at the first loop, in the folder that cox names, and mapped.
//!
//! The bytes are reserved before they are used, because a store to a mapped page for which the disk has no room would kill the program. Without a folder
//! or without room, records are kept nowhere, and the program runs on.
//!
//! A child process that is forked shares the parent's mapping. Before it can write there, the same addresses are mapped to zeroed memory of its own, and
//! at its first loop to a file of its own.

use std::ffi::{CStr, CString, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use wire::loop_records::{File, MAGIC, MODULES, Module, PATH, RECORDS, Record, VERSION};

use crate::{clock, cpu_time, delays, modules};

/// The folder of the session, if there is one.
static FOLDER: OnceLock<CString> = OnceLock::new();
/// The mapping; null before the first loop.
static MAPPING: AtomicPtr<File> = AtomicPtr::new(null_mut());
/// Changes when a child process is forked, whose records begin anew.
static GENERATION: AtomicU64 = AtomicU64::new(1);
/// The generation whose file has been made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Notes the folder. Called before the program runs.
pub fn at_load(folder: &CStr) {
    let _ = FOLDER.set(folder.to_owned());
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
    let (path, place) = modules::locate(place)?;
    let module = number_of(file, &path)?;
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
    let mut path = FOLDER.get()?.to_bytes().to_vec();
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
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let file = mapping.cast::<File>();
        let header = &(*file).header;
        header.version.store(VERSION, Ordering::Relaxed);
        header.pid.store(libc::getpid() as u64, Ordering::Relaxed);
        header.ns_per_tick.store(clock::ns_per_tick().to_bits(), Ordering::Relaxed);
        header.cpu_time.store(cpu_time::source() as u64, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Some(file)
    }
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
