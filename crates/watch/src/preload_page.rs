//! Reads, without a system call, what the preload library inside a program reports ([`wire::preload`]).
//!
//! The program may be any user's, and may write anything into the memory at any time. So no value is trusted that could do harm. The memory must have
//! its fixed size, and must be sealed against shrinking; otherwise reading it could fault. Numbers are checked before they are used as counts or
//! indices. The contents of a slot are only used for a thread of the same process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use machine::Root;
use machine::process::{self, Backing};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use wire::preload::{
    BYTES, KEPT_FROM, MAGIC, NAME, ORDERS_AT, Orders, PHASES_AT, PreloadPage, REFUSED, SLOTS, SLOTS_AT, Slot, TASKS,
    THROTTLED, VERSION,
};

use crate::mapping::Mapping;

/// Reason why the memory of a program's preload library is not read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The memory cannot be opened or mapped. Without CAP_CHECKPOINT_RESTORE, it can be opened only if the program keeps a descriptor of it.
    #[error("the preload library's memory: {0}")]
    System(#[from] io::Error),
    /// The memory is not that of a preload library, or not of this process.
    #[error("the preload library's memory is not valid: {0}")]
    Not(&'static str),
}

/// The mapped memory of one process's preload library.
#[derive(Debug)]
pub struct Page {
    memory: Mapping,
    /// The inode of the memfd, which identifies the page. It changes when the program calls exec.
    pub inode: u64,
}

/// The barrier state of one thread of the program: what the thread's slot (entry) in the shared memory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierState {
    /// The thread's id in the PID namespace of its program.
    pub tid: u32,
    /// Whether the thread waits at a barrier, or for the next parallel region. `None`: unknown, since it may be running tasks there.
    pub in_barrier: Option<bool>,
    /// Number of barriers that the thread has passed.
    pub phases: u64,
    /// Whether the thread is gone.
    pub has_ended: bool,
}

/// How long a process computed from one synchronisation to the next: the words of [`wire::preload::PhaseLengths`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseLengths {
    /// What the process synchronised with: bits of [`wire::preload::PreloadPage::seen`].
    pub seen: u32,
    /// Sum of all lengths, ns.
    pub sum_ns: u64,
    /// The longest one, ns.
    pub longest_ns: u64,
    /// Number of phases in each of the [`wire::preload::PHASE_BUCKETS`] buckets.
    pub counts: Vec<u64>,
}

/// State of the spin throttle, with which libgomp's threads sleep at barriers instead of spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinThrottle {
    /// libgomp spins as usual.
    AsItWas,
    /// libgomp's threads go to sleep soon after they arrive at a barrier.
    Throttled,
    /// The preload library cannot shorten the spinning in this program.
    Refused,
}

/// Returns whether a mapping maps the shared memory of a preload library, from offset 0.
#[must_use]
pub fn is_page(mapping: &process::Mapping) -> bool {
    let Backing::File { path, .. } = &mapping.backing else { return false };
    mapping.shared
        && mapping.offset_bytes == 0
        && path.as_os_str().as_bytes().strip_prefix(b"/memfd:") == Some(NAME.to_bytes())
}

impl Page {
    /// Opens the preload library's memory, which process `pid` has mapped as `mapping`.
    ///
    /// # Errors
    /// If the memory cannot be opened, or is not valid; the latter also while the library is still initialising it.
    pub fn open(root: &Root, pid: u32, mapping: &process::Mapping) -> Result<Page, PageError> {
        let path = root.path(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_own(root, pid) => {
                open(&kept_descriptor(root, pid, mapping)?.ok_or(error)?)
            }
            opened => opened,
        };
        Page::map(&file?, pid)
    }

    /// Maps the memory in a file that process `pid` shares.
    ///
    /// # Errors
    /// As [`Page::open`].
    pub fn map(file: &File, pid: u32) -> Result<Page, PageError> {
        // Only a memfd has seals.
        let seals = fcntl_get_seals(file).map_err(|_| PageError::Not("it has no seals"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(PageError::Not("it is not sealed against shrinking"));
        }
        let status = fstat(file).map_err(io::Error::from)?;
        if status.st_size != BYTES as i64 {
            return Err(PageError::Not("its size is wrong"));
        }
        let memory = Mapping::new(file, BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        let page = Page { memory, inode: status.st_ino };
        let words = page.words();
        if words.magic.load(Ordering::Acquire) != MAGIC {
            return Err(PageError::Not("its magic number is wrong"));
        }
        for (word, wanted, what) in [
            (&words.version, VERSION, "its version is unknown"),
            (&words.bytes, BYTES as u32, "its size is wrong"),
            (&words.slots, SLOTS as u32, "its number of slots is wrong"),
            // The process id differs in a forked child that shares its parent's page, and in a container with its own process ids.
            (&words.pid, pid, "it belongs to another process"),
        ] {
            if word.load(Ordering::Relaxed) != wanted {
                return Err(PageError::Not(what));
            }
        }
        Ok(page)
    }

    /// Returns the number of slots that the library has assigned to threads of the program.
    #[must_use]
    pub fn given(&self) -> usize {
        (self.words().given.load(Ordering::Acquire) as usize).min(SLOTS)
    }

    /// Returns the barrier state of the thread to which the library has assigned slot `number`, a number below [`Page::given`]. Returns `None` while
    /// the library is still assigning the slot.
    #[must_use]
    pub fn slot(&self, number: usize) -> Option<BarrierState> {
        if number >= SLOTS {
            return None;
        }
        // SAFETY: the reference points into the mapping, which lives as long as self.
        let slot = unsafe { &*self.memory.at::<Slot>(SLOTS_AT + number * size_of::<Slot>()) };
        let tid = slot.tid.load(Ordering::Acquire);
        let at_work = self.words().seen.load(Ordering::Relaxed) & TASKS != 0;
        (tid != 0).then(|| BarrierState {
            tid,
            in_barrier: (!at_work).then(|| slot.in_barrier.load(Ordering::Acquire) != 0),
            phases: slot.phases.load(Ordering::Relaxed),
            has_ended: slot.ended.load(Ordering::Acquire) != 0,
        })
    }

    /// Returns whether a thread belongs to the preload library and does none of the program's work: the thread itself or its creator is listed as
    /// a helper. Ids are those in the program's PID namespace.
    #[must_use]
    pub fn is_helper(&self, tid: u32, creator_tid: u32) -> bool {
        let helpers = self.words().helpers.iter().map(|helper| helper.load(Ordering::Acquire));
        helpers.filter(|helper| *helper != 0).any(|helper| helper == tid || helper == creator_tid)
    }

    /// Returns the number of CPUs that the program could use at its start; 0 if unknown.
    #[must_use]
    pub fn cpus_at_start(&self) -> u32 {
        self.words().cpus_at_start.load(Ordering::Relaxed)
    }

    /// Returns the state of the spin throttle (it lets libgomp's threads sleep at barriers instead of spinning), as the program reports it.
    #[must_use]
    pub fn throttle(&self) -> SpinThrottle {
        match self.words().throttle.load(Ordering::Relaxed) {
            THROTTLED => SpinThrottle::Throttled,
            REFUSED => SpinThrottle::Refused,
            _ => SpinThrottle::AsItWas,
        }
    }

    /// Returns the lengths of the phases between synchronisations so far. They stay readable when the program has ended.
    #[must_use]
    pub fn phases(&self) -> PhaseLengths {
        // SAFETY: the reference points into the mapping, which lives as long as self.
        let words = unsafe { &*self.memory.at::<wire::preload::PhaseLengths>(PHASES_AT) };
        PhaseLengths {
            seen: self.words().seen.load(Ordering::Relaxed),
            sum_ns: words.sum_ns.load(Ordering::Relaxed),
            longest_ns: words.longest_ns.load(Ordering::Relaxed),
            counts: words.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
        }
    }

    /// Tells the program how many CPUs its threads share while they are packed; 0: they are not packed. The value expires at `until_ns` on
    /// CLOCK_MONOTONIC, in case cox is killed.
    pub fn order(&self, cpus_now: u32, until_ns: u64) {
        let orders = self.orders();
        orders.until_ns.store(until_ns, Ordering::Release);
        if orders.cpus_now.swap(cpus_now, Ordering::Release) != cpus_now {
            // The number of threads that were woken does not matter.
            let _ = futex::wake(&orders.cpus_now, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    fn words(&self) -> &PreloadPage {
        // SAFETY: the mapping begins with this struct, is aligned to pages, and lives as long as self.
        unsafe { &*self.memory.at(0) }
    }

    fn orders(&self) -> &Orders {
        // SAFETY: the reference points into the mapping, which lives as long as self.
        unsafe { &*self.memory.at(ORDERS_AT) }
    }
}

/// Opens a file. The program may have put any file there, so this neither waits for another process (FIFO) nor acquires a controlling terminal.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Returns whether cox may open the descriptor that a program keeps of its preload library's memory: only if both run as the same user, and not as
/// root. Programs of root keep no such descriptor, and cox must not use its own rights to open files that programs of other users have open.
fn is_own(root: &Root, pid: u32) -> bool {
    let own = rustix::process::geteuid();
    !own.is_root() && fs::metadata(root.path(format!("/proc/{pid}"))).is_ok_and(|status| status.uid() == own.as_raw())
}

/// Returns the path in /proc of the descriptor through which the preload library keeps this mapping's file open; `None` if it is closed.
fn kept_descriptor(root: &Root, pid: u32, mapping: &process::Mapping) -> io::Result<Option<PathBuf>> {
    let Backing::File { path: name, .. } = &mapping.backing else { return Ok(None) };
    for entry in fs::read_dir(root.path(format!("/proc/{pid}/fd")))? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        // The descriptor may lead to any file. So the target of its link is compared first, which does not access the file; only then is the file's
        // inode read.
        let leads_there = || fs::read_link(entry.path()).is_ok_and(|link| is_of(&link, name));
        let is_it = || fs::metadata(entry.path()).is_ok_and(|status| status.ino() == mapping.inode);
        if number.is_some_and(|number| number >= KEPT_FROM) && leads_there() && is_it() {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Returns whether a descriptor's link names a mapping's file. The file is deleted, as all memfds are.
fn is_of(link: &Path, name: &Path) -> bool {
    link.as_os_str().as_bytes().strip_suffix(b" (deleted)") == Some(name.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    const PID: u32 = 77;

    fn memory(bytes: usize, seals: SealFlags) -> File {
        let file = File::from(memfd_create(NAME, MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap());
        ftruncate(file.as_fd(), bytes as u64).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    fn write(file: &File, at: usize, word: u32) {
        file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
    }

    /// As the preload library makes it, for [`PID`], with two threads.
    fn good() -> File {
        let file = memory(BYTES, SealFlags::SHRINK | SealFlags::GROW);
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).unwrap();
        for (place, word) in [VERSION, BYTES as u32, PID, SLOTS as u32, 2].into_iter().enumerate() {
            write(&file, 8 + 4 * place, word);
        }
        for (number, tid) in [(0, 78), (1, 79)] {
            write(&file, SLOTS_AT + number * size_of::<Slot>(), tid);
        }
        file
    }

    fn why_not(file: &File) -> String {
        Page::map(file, PID).unwrap_err().to_string()
    }

    #[test]
    fn slots_are_read_and_orders_reach_the_other_side() {
        let file = good();
        let page = Page::map(&file, PID).unwrap();
        assert_eq!((page.given(), page.throttle()), (2, SpinThrottle::AsItWas));
        assert!(!page.is_helper(79, 0) && !page.is_helper(0, 0));
        write(&file, 48, 79);
        assert!(page.is_helper(79, 1) && page.is_helper(5, 79) && !page.is_helper(78, 1));
        write(&file, SLOTS_AT + 64 + 4, 1);
        write(&file, SLOTS_AT + 64 + 8, 5);
        let said = BarrierState { tid: 79, in_barrier: Some(true), phases: 5, has_ended: false };
        assert_eq!(page.slot(1), Some(said));
        assert_eq!(page.slot(2), None, "not given out");
        write(&file, 28, TASKS);
        assert_eq!(page.slot(1), Some(BarrierState { in_barrier: None, ..said }), "it may be at work");
        page.order(3, 9);
        let mut orders = [0; 16];
        file.read_exact_at(&mut orders, ORDERS_AT as u64).unwrap();
        assert_eq!(orders, [3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_not_the_preload_librarys_is_refused() {
        assert!(why_not(&memory(BYTES, SealFlags::GROW)).contains("shrink"));
        assert!(why_not(&memory(BYTES - 1, SealFlags::SHRINK)).contains("size"));
        assert!(why_not(&memory(0, SealFlags::SHRINK)).contains("size"));
        assert!(why_not(&memory(BYTES, SealFlags::SHRINK)).contains("magic"));
        assert!(why_not(&File::open("/dev/null").unwrap()).contains("seals"));
        for (at, part) in [(0, "magic"), (8, "version"), (12, "size"), (16, "another process"), (20, "slots")] {
            let file = good();
            write(&file, at, u32::MAX);
            assert!(why_not(&file).contains(part), "{at}");
        }
        assert!(Page::map(&good(), PID + 1).is_err());
    }

    #[test]
    fn a_kept_descriptor_is_found_by_its_number_its_name_and_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("proc/5/fd");
        fs::create_dir_all(&place).unwrap();
        // Their names as files have them that were deleted: here they have not been.
        let file = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            (fs::metadata(&path).unwrap().ino(), path)
        };
        let ((other, other_path), (inode, path)) = (file("other (deleted)"), file("page (deleted)"));
        let of = |inode: u64| mapping(&format!("1000-2000 rw-s 00000000 00:01 {inode} {}\n", path.display()));
        let root = Root::at(folder.path());
        let kept = |inode: u64| kept_descriptor(&root, 5, &of(inode)).unwrap();
        assert_eq!(kept(inode), None, "there are none");
        let low = (KEPT_FROM - 1).to_string();
        std::os::unix::fs::symlink(&path, place.join(low)).unwrap();
        std::os::unix::fs::symlink(&other_path, place.join("1001")).unwrap();
        std::os::unix::fs::symlink("pipe:[7]", place.join("1002")).unwrap();
        assert_eq!(kept(inode), None, "the program's own");
        std::os::unix::fs::symlink(&path, place.join("1003")).unwrap();
        assert_eq!(kept(inode), Some(place.join("1003")));
        assert_eq!(kept(other), None, "another file of this name");
    }

    /// A line of /proc/PID/maps.
    fn mapping(line: &str) -> process::Mapping {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/5")).unwrap();
        fs::write(folder.path().join("proc/5/maps"), line).unwrap();
        process::Task::process(&Root::at(folder.path()), 5).maps().unwrap().remove(0)
    }

    #[test]
    fn a_mapping_is_known_by_its_name_and_place() {
        assert!(is_page(&mapping("1000-2000 rw-s 00000000 00:01 7 /memfd:coxswain-preload (deleted)\n")));
        assert!(!is_page(&mapping("1000-2000 r--s 00001000 00:01 7 /memfd:coxswain-preload (deleted)\n")));
        assert!(!is_page(&mapping("1000-2000 rw-s 00000000 00:01 7 /memfd:coxswain-preload2 (deleted)\n")));
        assert!(!is_page(&mapping("1000-2000 rw-p 00000000 00:01 7 /lib/coxswain-preload\n")));
    }

    proptest! {
        /// Whatever the program writes: everything is read, nothing is read outside.
        #[test]
        fn hostile_words_are_only_words(words in prop::collection::vec(any::<u32>(), 16..64), at in 24usize..64) {
            let file = good();
            for (place, word) in words.iter().enumerate() {
                write(&file, (at / 4 + place) * 4, *word);
                write(&file, SLOTS_AT + (SLOTS - 1) * 64 + 4 * (place % 16), *word);
            }
            let page = Page::map(&file, PID).unwrap();
            prop_assert!(page.given() <= SLOTS);
            for number in (0..page.given()).chain([SLOTS, usize::MAX]) {
                let _anything = page.slot(number);
            }
            let _any_throttle = page.throttle();
        }
    }
}
