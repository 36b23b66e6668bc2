//! Communication with the preload libraries inside the program.
//!
//! A preload library shares a page of memory with cox. It creates the page only when threads first meet at a barrier,
//! and exec removes the page. Therefore, the manager searches the maps of the program's processes for such pages from
//! time to time. The page has an entry (a *slot*) for each thread, which says whether the thread waits at a barrier.
//! cox writes *orders* into the page: the number of CPUs of the pack.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use machine::Root;
use machine::process::{Mapping, Task};
use watch::preload_page::{BarrierState, Page, SpinThrottle, is_page};
use wire::ThreadSnapshot;

/// How long orders to a preload library (the number of CPUs of the pack) stay valid unless cox renews them, ns. They
/// expire, because a killed cox cannot cancel them.
const ORDERS_NS: u64 = 1_000_000_000;
/// cox renews the orders to a preload library (the number of CPUs of the pack) when they stay valid for less than this
/// time, ns.
const RENEW_NS: u64 = 600_000_000;
/// Time between two searches of a process's maps for a page, ns: the first pause, which doubles each time, and the
/// longest pause.
const PAUSE_NS: (u64, u64) = (20_000_000, 1_000_000_000);
/// Maximum number of attempts to open a page. The first ones can fail because the library is still creating the page.
const REFUSALS: u32 = 5;
/// File name of the library.
const LIBRARY: &str = "libcox_preload.so";

/// For each thread, by process and thread id: its preload page, and the index of its entry (slot) there. All methods
/// take a short lock.
#[derive(Default)]
pub struct Places {
    by_thread: Mutex<HashMap<(u32, u32), Place>>,
}

struct Place {
    page: Arc<Page>,
    slot: usize,
}

impl Places {
    /// Returns what a thread's entry in its preload page says about barriers; `None` if there is no such entry.
    pub fn barrier_state(&self, snapshot: &ThreadSnapshot) -> Option<BarrierState> {
        let by_thread = self.by_thread.lock().ok()?;
        let place = by_thread.get(&(snapshot.tgid, snapshot.tid))?;
        place.page.slot(place.slot)
    }
}

/// Effects of the preload libraries over the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreloadSummary {
    /// Number of processes that have used their preload library.
    pub preloaded: u64,
    /// Number of processes in which the preload library has throttled the spinning of libgomp. Included in `preloaded`.
    pub throttled: u64,
    /// Processes whose libgomp spins for milliseconds at each barrier.
    pub wasteful: Vec<Wasteful>,
    /// Processes whose library's page could not be read, and why.
    pub unread: Vec<(u32, String)>,
}

impl PreloadSummary {
    /// Adds the result of a later pack of the same processes. A process that is in both counts once.
    pub(super) fn then(self, later: PreloadSummary) -> PreloadSummary {
        let mut wasteful = self.wasteful;
        let is_new = |new: &Wasteful| wasteful.iter().all(|known| known.pid != new.pid);
        let new: Vec<Wasteful> = later.wasteful.into_iter().filter(is_new).collect();
        wasteful.extend(new);
        let mut unread = self.unread;
        let new = later.unread.into_iter().filter(|new| unread.iter().all(|(pid, _)| *pid != new.0));
        let new: Vec<(u32, String)> = new.collect();
        unread.extend(new);
        PreloadSummary {
            preloaded: self.preloaded.max(later.preloaded),
            throttled: self.throttled.max(later.throttled),
            wasteful,
            unread,
        }
    }
}

/// A process whose libgomp spins, because it counted more CPUs than the pack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wasteful {
    /// The process id.
    pub pid: u32,
    /// CPUs that the process was allowed when cox attached to it.
    pub cpus_at_start: u64,
    /// True if the preload library is loaded in the process but could not stop the spinning.
    pub refused: bool,
}

/// The manager's view of all preload libraries.
pub struct PreloadPages {
    root: Root,
    /// Number of CPUs of the pack.
    cpus: u32,
    processes: BTreeMap<u32, Process>,
    preloads: PreloadSummary,
}

#[derive(Default)]
struct Process {
    pid: u32,
    page: Option<Arc<Page>>,
    /// The inode of a page that could not be opened, and the number of attempts.
    refused: (u64, u32),
    /// How many entries (slots) of the page have been read; each belongs to one thread of the process.
    entered: usize,
    ordered_until_ns: u64,
    next_ns: u64,
    pause_ns: u64,
    /// True once the library has reported whether it throttles spinning.
    judged: bool,
    /// Number of CPUs that the process was allowed before it was packed. Set only if these were more than the pack has,
    /// and no environment variable tells libgomp how to wait: then libgomp may spin.
    wide: Option<u64>,
}

impl PreloadPages {
    /// Makes a view without processes; the pack has `cpus` CPUs.
    pub fn new(root: Root, cpus: usize) -> PreloadPages {
        PreloadPages { root, cpus: cpus as u32, processes: BTreeMap::new(), preloads: PreloadSummary::default() }
    }

    /// Returns how many CPUs a process may use now.
    pub fn allowed(&self, pid: u32) -> usize {
        machine::limits::allowed_cpus(&self.root, machine::limits::Who::Task(pid)).map_or(0, |allowed| allowed.len())
    }

    /// Adds a running process that is about to be packed; its libgomp has counted `counted` CPUs.
    pub fn attach(&mut self, pid: u32, counted: usize) {
        let wide =
            (counted > self.cpus as usize && may_spin(&Task::process(&self.root, pid))).then_some(counted as u64);
        self.processes.insert(pid, Process { wide, ..Process::new(pid) });
    }

    /// Adds a process of the program, unless it is known already.
    pub fn meet(&mut self, pid: u32) {
        self.processes.entry(pid).or_insert_with(|| Process::new(pid));
    }

    /// Removes a process that has ended.
    pub fn forget(&mut self, pid: u32, places: &Places) {
        self.processes.remove(&pid);
        leave(pid, places);
    }

    /// Returns whether a thread belongs to the preload library (is a helper), and does none of the program's work.
    pub fn is_helper(&self, tgid: u32, tid: u32, creator_tid: u32) -> bool {
        let page = self.processes.get(&tgid).and_then(|process| process.page.as_ref());
        page.is_some_and(|page| page.is_helper(tid, creator_tid))
    }

    /// Does the regular work for each process: opens the page of a new preload library, reads the page's entries for
    /// new threads, and renews the orders (the number of CPUs of the pack).
    pub fn look(&mut self, now_ns: u64, places: &Places) {
        for process in self.processes.values_mut() {
            if now_ns >= process.next_ns {
                process.next_ns = now_ns + process.pause_ns;
                process.pause_ns = (process.pause_ns * 2).min(PAUSE_NS.1);
                process.look_at_maps(&self.root, self.cpus, places, &mut self.preloads);
            }
            let Some(page) = process.page.clone() else { continue };
            if process.ordered_until_ns < now_ns + RENEW_NS {
                process.ordered_until_ns = now_ns + ORDERS_NS;
                page.order(self.cpus, process.ordered_until_ns);
            }
            process.enter(&page, places);
            process.look_at_throttle(&page, &mut self.preloads);
        }
    }

    /// Cancels the orders to all preload libraries, because the program is not packed any more. Returns what the
    /// libraries did.
    pub fn end(&mut self) -> PreloadSummary {
        for page in self.processes.values().filter_map(|process| process.page.as_ref()) {
            page.order(0, 0);
        }
        self.processes.clear();
        std::mem::take(&mut self.preloads)
    }
}

impl Drop for PreloadPages {
    /// Cancels the orders to all preload libraries, even after a failure elsewhere.
    fn drop(&mut self) {
        self.end();
    }
}

impl Process {
    fn new(pid: u32) -> Process {
        Process { pid, pause_ns: PAUSE_NS.0, ..Process::default() }
    }

    /// Searches the process's maps for the page of a preload library, and opens the page if it is new (after the
    /// library was loaded, or after an exec). If there is no library but libgomp spins, records this, because nothing
    /// can stop it.
    fn look_at_maps(&mut self, root: &Root, cpus: u32, places: &Places, preloads: &mut PreloadSummary) {
        let task = Task::process(root, self.pid);
        // The process is ending, or cox may not read its maps, or its first thread has ended, which hides the maps.
        let Some(maps) = task.maps().ok().filter(|maps| !maps.is_empty()) else { return };
        let mapped = maps.iter().find(|mapping| is_page(mapping));
        let known = self.page.as_ref().map(|page| page.inode);
        let inode = mapped.map(|mapping| mapping.inode);
        let is_refused = inode == Some(self.refused.0) && self.refused.1 >= REFUSALS;
        if inode != known && !is_refused {
            self.page = mapped.and_then(|mapping| self.open(root, mapping, preloads)).map(Arc::new);
            (self.entered, self.ordered_until_ns) = (0, 0);
            leave(self.pid, places);
            preloads.preloaded += u64::from(self.page.is_some());
        }
        let Some(cpus_at_start) = self.wide else { return };
        let has = |library: &str| maps.iter().filter_map(Mapping::file_name).any(|file| file.starts_with(library));
        if has(LIBRARY) {
            // The preload library itself reports whether libgomp spins. So it need not be guessed from `wide`, the
            // number of CPUs that libgomp has counted.
            self.wide = None;
            return;
        }
        // libgomp does not spin if there are more threads than CPUs that it has counted.
        let threads = task.threads().map_or(0, |threads| threads.len() as u64);
        if has("libgomp") && threads > u64::from(cpus) && threads <= cpus_at_start {
            preloads.wasteful.push(Wasteful { pid: self.pid, cpus_at_start, refused: false });
            self.wide = None;
        }
    }

    /// Opens a library's page. After the last failed attempt, the failure goes into the summary.
    fn open(&mut self, root: &Root, mapping: &Mapping, preloads: &mut PreloadSummary) -> Option<Page> {
        let error = match Page::open(root, self.pid, mapping) {
            Ok(page) => return Some(page),
            Err(error) => error,
        };
        let before = if self.refused.0 == mapping.inode { self.refused.1 } else { 0 };
        self.refused = (mapping.inode, before + 1);
        if self.refused.1 == REFUSALS {
            preloads.unread.push((self.pid, error.to_string()));
        }
        None
    }

    /// Adds to `places` the entries (slots) of the page that the preload library has given to threads since the last
    /// look. If two entries have the same thread id, the later one replaces the other: the kernel has given the id of
    /// an ended thread to a new one.
    fn enter(&mut self, page: &Arc<Page>, places: &Places) {
        let given = page.given();
        if self.entered == given {
            return;
        }
        let Ok(mut by_thread) = places.by_thread.lock() else { return };
        while self.entered < given {
            // The preload library is just giving this entry to a thread. The next call adds it.
            let Some(barrier_state) = page.slot(self.entered) else { break };
            if !barrier_state.has_ended {
                by_thread.insert((self.pid, barrier_state.tid), Place { page: Arc::clone(page), slot: self.entered });
            }
            self.entered += 1;
        }
    }

    fn look_at_throttle(&mut self, page: &Page, preloads: &mut PreloadSummary) {
        if self.judged {
            return;
        }
        match page.throttle() {
            SpinThrottle::AsItWas => return,
            SpinThrottle::Throttled => preloads.throttled += 1,
            SpinThrottle::Refused => {
                let cpus_at_start = page.cpus_at_start().into();
                preloads.wasteful.push(Wasteful { pid: self.pid, cpus_at_start, refused: true });
            }
        }
        self.judged = true;
    }
}

fn leave(pid: u32, places: &Places) {
    if let Ok(mut by_thread) = places.by_thread.lock() {
        by_thread.retain(|(tgid, _), _| *tgid != pid);
    }
}

/// Returns whether libgomp's threads spin before they sleep, according to the process's environment variables.
fn may_spin(task: &Task) -> bool {
    let environment = task.environment().unwrap_or_default();
    let policy = environment.variable("OMP_WAIT_POLICY");
    let passive = policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("passive"));
    !passive && environment.variable("GOMP_SPINCOUNT").is_none()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    const PID: u32 = 77;

    /// A process with two threads and a libgomp, allowed on four CPUs.
    fn machine(environment: &str, maps: &str) -> (TempDir, Root) {
        let folder = TempDir::new().unwrap();
        let process = folder.path().join("proc/77");
        for tid in ["77", "78"] {
            fs::create_dir_all(process.join("task").join(tid)).unwrap();
        }
        fs::write(process.join("environ"), environment).unwrap();
        fs::write(process.join("maps"), maps).unwrap();
        let online = folder.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&online).unwrap();
        fs::write(online.join("online"), "0-7\n").unwrap();
        fs::write(
            process.join("status"),
            "Name:\tx\nTgid:\t77\nPid:\t77\nPPid:\t1\nThreads:\t2\nCpus_allowed_list:\t0-3\n",
        )
        .unwrap();
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn wasteful(environment: &str, maps: &str, cpus: usize) -> Vec<Wasteful> {
        let (_folder, root) = machine(environment, maps);
        let mut preload_pages = PreloadPages::new(root, cpus);
        preload_pages.attach(PID, preload_pages.allowed(PID));
        preload_pages.look(0, &Places::default());
        preload_pages.end().wasteful
    }

    const LIBGOMP: &str = "7000-8000 r-xp 00000000 fe:00 9 /usr/lib/libgomp.so.1.0.0\n";
    const BUNDLED: &str = "7000-8000 r-xp 00000000 fe:00 9 /opt/x.libs/libgomp-a34b3233.so.1.0.0\n";

    #[test]
    fn a_libgomp_that_counted_more_cpus_is_named_once() {
        let named = [Wasteful { pid: PID, cpus_at_start: 4, refused: false }];
        assert_eq!(wasteful("A=1\0OMP_NUM_THREADS=2\0", LIBGOMP, 1), named);
        assert_eq!(wasteful("", BUNDLED, 1), named);
        assert_eq!(wasteful("OMP_WAIT_POLICY=active\0", LIBGOMP, 1), named);
    }

    #[test]
    fn who_does_not_spin_is_not_named() {
        for environment in ["OMP_WAIT_POLICY= Passive\0", "X=\0GOMP_SPINCOUNT=10\0"] {
            assert_eq!(wasteful(environment, LIBGOMP, 1), []);
        }
        assert_eq!(wasteful("", "7000-8000 r-xp 00000000 fe:00 9 /usr/lib/libm.so.6\n", 1), []);
        assert_eq!(wasteful("", LIBGOMP, 4), [], "as many CPUs as before");
        assert_eq!(wasteful("", LIBGOMP, 2), [], "as many CPUs as threads");
        let inside = format!("{LIBGOMP}9000-a000 r-xp 00000000 fe:00 9 /x/libcox_preload.so\n");
        assert_eq!(wasteful("", &inside, 1), [], "the library sees to it");
    }
}
