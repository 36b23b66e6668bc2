//! What preload libraries inside the program say, and what cox tells them.
//!
//! The manager looks for them in the maps of the program's processes, now and then: a library makes its memory
//! when threads first meet, and a process that calls exec loses it. What slots say is entered by thread, for
//! tickers to look up.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

use machine::Root;
use machine::process::{Backing, Mapping, Task};
use watch::preload_page::{BarrierState, Page, SpinThrottle, is_page};
use wire::Stand;

/// Orders hold for so long if they are not renewed: cox may be killed.
const ORDERS_NS: u64 = 1_000_000_000;
/// They are renewed when so much is left.
const RENEW_NS: u64 = 600_000_000;
/// Time between two looks at the maps of a process: the first, doubled each time, the last.
const PAUSE_NS: (u64, u64) = (20_000_000, 1_000_000_000);
/// So often a memory is tried that cannot be read: it may only just be made.
const REFUSALS: u32 = 5;
/// File name of the library.
const LIBRARY: &str = "libcox_preload.so";

/// Where each thread's slot is, by process and thread. All methods take a short lock.
#[derive(Default)]
pub struct Places {
    by_thread: Mutex<HashMap<(u32, u32), Place>>,
}

struct Place {
    page: Arc<Page>,
    slot: usize,
}

impl Places {
    /// What a thread says of itself, if there is a library inside its process.
    pub fn barrier_state(&self, stand: &Stand) -> Option<BarrierState> {
        let by_thread = self.by_thread.lock().ok()?;
        let place = by_thread.get(&(stand.tgid, stand.tid))?;
        place.page.slot(place.slot)
    }
}

/// What became of the processes' waiting, over the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreloadSummary {
    /// Processes with the preload library inside that have used it.
    pub preloaded: u64,
    /// Of these, those whose libgomp was kept from spinning.
    pub throttled: u64,
    /// Processes whose libgomp spins for milliseconds at each barrier.
    pub wasteful: Vec<Wasteful>,
    /// Processes with the library inside that could not be read, and why.
    pub unread: Vec<(u32, String)>,
}

impl PreloadSummary {
    /// The same processes in another pack. Those that are told of twice count once.
    pub(super) fn then(self, later: PreloadSummary) -> PreloadSummary {
        let mut wasteful = self.wasteful;
        let is_new = |new: &Wasteful| wasteful.iter().all(|known| known.pid != new.pid);
        let new: Vec<Wasteful> = later.wasteful.into_iter().filter(is_new).collect();
        wasteful.extend(new);
        let unread = [self.unread, later.unread].concat();
        PreloadSummary {
            preloaded: self.preloaded.max(later.preloaded),
            throttled: self.throttled.max(later.throttled),
            wasteful,
            unread,
        }
    }
}

/// A process whose libgomp spins, because it counted more CPUs than there are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wasteful {
    /// The process.
    pub pid: u32,
    /// CPUs that it was allowed when cox attached to it.
    pub cpus_at_start: u64,
    /// The preload library is inside and could not do anything about it.
    pub refused: bool,
}

/// The manager's side.
pub struct PreloadPages {
    root: Root,
    /// CPUs of the pack.
    cpus: u32,
    processes: BTreeMap<u32, Process>,
    preloads: PreloadSummary,
}

struct Process {
    page: Option<Arc<Page>>,
    /// The memory that could not be opened, by the number of its file, and how often.
    refused: (u64, u32),
    /// Slots that have been looked at.
    entered: usize,
    ordered_until_ns: u64,
    next_ns: u64,
    pause_ns: u64,
    /// Its library has said what becomes of its waiting.
    judged: bool,
    /// CPUs it was allowed before it was packed, where they were more than the pack's and its libgomp was told
    /// nothing about waiting.
    wide: Option<u64>,
}

impl PreloadPages {
    /// Nobody yet; the pack has `cpus` CPUs.
    pub fn new(root: Root, cpus: usize) -> PreloadPages {
        PreloadPages { root, cpus: cpus as u32, processes: BTreeMap::new(), preloads: PreloadSummary::default() }
    }

    /// How many CPUs a process may use now.
    pub fn allowed(&self, pid: u32) -> usize {
        machine::limits::allowed_cpus(&self.root, machine::limits::Who::Task(pid)).map_or(0, |allowed| allowed.len())
    }

    /// A process that runs already and is about to be packed: its libgomp has counted so many CPUs.
    pub fn attach(&mut self, pid: u32, counted: usize) {
        let wide =
            (counted > self.cpus as usize && may_spin(&Task::process(&self.root, pid))).then_some(counted as u64);
        self.processes.insert(pid, Process { wide, ..Process::new() });
    }

    /// A process of the program, once more or for the first time.
    pub fn meet(&mut self, pid: u32) {
        self.processes.entry(pid).or_insert_with(Process::new);
    }

    /// A process has ended.
    pub fn forget(&mut self, pid: u32, places: &Places) {
        self.processes.remove(&pid);
        leave(pid, places);
    }

    /// Whether a thread is no work of the program's.
    pub fn is_helper(&self, tgid: u32, tid: u32, creator_tid: u32) -> bool {
        let page = self.processes.get(&tgid).and_then(|process| process.page.as_ref());
        page.is_some_and(|page| page.is_helper(tid, creator_tid))
    }

    /// Looks at what is due: new libraries, new threads, orders.
    pub fn look(&mut self, now_ns: u64, places: &Places) {
        for (&pid, process) in &mut self.processes {
            if now_ns >= process.next_ns {
                process.next_ns = now_ns + process.pause_ns;
                process.pause_ns = (process.pause_ns * 2).min(PAUSE_NS.1);
                look_at_maps(&self.root, pid, process, self.cpus, places, &mut self.preloads);
            }
            let Some(page) = process.page.clone() else { continue };
            if process.ordered_until_ns < now_ns + RENEW_NS {
                process.ordered_until_ns = now_ns + ORDERS_NS;
                page.order(self.cpus, process.ordered_until_ns);
            }
            enter(pid, process, &page, places);
            look_at_throttle(pid, process, &page, &mut self.preloads);
        }
    }

    /// The program is not packed any more.
    pub fn end(&mut self) -> PreloadSummary {
        for page in self.processes.values().filter_map(|process| process.page.as_ref()) {
            page.order(0, 0);
        }
        self.processes.clear();
        std::mem::take(&mut self.preloads)
    }
}

impl Drop for PreloadPages {
    /// Whatever goes wrong elsewhere.
    fn drop(&mut self) {
        self.end();
    }
}

impl Process {
    fn new() -> Process {
        Process {
            page: None,
            refused: (0, 0),
            entered: 0,
            ordered_until_ns: 0,
            next_ns: 0,
            pause_ns: PAUSE_NS.0,
            judged: false,
            wide: None,
        }
    }
}

/// A new library's memory, or that of an exec'ed program; or a libgomp that nothing is done about.
fn look_at_maps(
    root: &Root,
    pid: u32,
    process: &mut Process,
    cpus: u32,
    places: &Places,
    preloads: &mut PreloadSummary,
) {
    let task = Task::process(root, pid);
    // A process that is going away, or that we may not look into; or its first thread has ended, and took the
    // sight of its maps along.
    let Some(maps) = task.maps().ok().filter(|maps| !maps.is_empty()) else { return };
    let mapped = maps.iter().find(|mapping| is_page(mapping));
    let known = process.page.as_ref().map(|page| page.inode());
    let inode = mapped.map(|mapping| mapping.inode);
    let is_refused = inode == Some(process.refused.0) && process.refused.1 >= REFUSALS;
    if inode != known && !is_refused {
        process.page =
            mapped.and_then(|mapping| open(root, pid, mapping, &mut process.refused, preloads)).map(Arc::new);
        (process.entered, process.ordered_until_ns) = (0, 0);
        leave(pid, places);
        preloads.preloaded += u64::from(process.page.is_some());
    }
    let Some(cpus_at_start) = process.wide else { return };
    if maps.iter().any(|mapping| is_library(mapping, LIBRARY)) {
        // It says so itself when there is something to say.
        process.wide = None;
        return;
    }
    // As libgomp does: with more threads than it has counted CPUs it does not spin.
    let threads = task.threads().map_or(0, |threads| threads.len() as u64);
    if maps.iter().any(|mapping| is_library(mapping, "libgomp"))
        && threads > u64::from(cpus)
        && threads <= cpus_at_start
    {
        preloads.wasteful.push(Wasteful { pid, cpus_at_start, refused: false });
        process.wide = None;
    }
}

/// The memory, if it can be read. When it could not be for the last time, that is told.
fn open(
    root: &Root,
    pid: u32,
    mapping: &Mapping,
    refused: &mut (u64, u32),
    preloads: &mut PreloadSummary,
) -> Option<Page> {
    let error = match Page::open(root, pid, mapping) {
        Ok(page) => return Some(page),
        Err(error) => error,
    };
    let before = if refused.0 == mapping.inode { refused.1 } else { 0 };
    *refused = (mapping.inode, before + 1);
    if refused.1 == REFUSALS {
        preloads.unread.push((pid, error.to_string()));
    }
    None
}

/// Slots that were given out since the last look. A later slot of the same thread id is a later thread.
fn enter(pid: u32, process: &mut Process, page: &Arc<Page>, places: &Places) {
    let given = page.given();
    if process.entered == given {
        return;
    }
    let Ok(mut by_thread) = places.by_thread.lock() else { return };
    while process.entered < given {
        // One that is just being given out is entered at the next look.
        let Some(barrier_state) = page.slot(process.entered) else { break };
        if !barrier_state.has_ended {
            by_thread.insert((pid, barrier_state.tid), Place { page: Arc::clone(page), slot: process.entered });
        }
        process.entered += 1;
    }
}

fn look_at_throttle(pid: u32, process: &mut Process, page: &Page, preloads: &mut PreloadSummary) {
    if process.judged {
        return;
    }
    match page.throttle() {
        SpinThrottle::AsItWas => return,
        SpinThrottle::Throttled => preloads.throttled += 1,
        SpinThrottle::Refused => {
            preloads.wasteful.push(Wasteful { pid, cpus_at_start: page.cpus_at_start().into(), refused: true });
        }
    }
    process.judged = true;
}

fn leave(pid: u32, places: &Places) {
    if let Ok(mut by_thread) = places.by_thread.lock() {
        by_thread.retain(|(tgid, _), _| *tgid != pid);
    }
}

/// Whether libgomp's threads spin before they sleep, as far as its environment goes.
fn may_spin(task: &Task) -> bool {
    let variable = |name: &str| task.variable(name).ok().flatten();
    let passive = variable("OMP_WAIT_POLICY").is_some_and(|policy| policy.trim().eq_ignore_ascii_case("passive"));
    !passive && variable("GOMP_SPINCOUNT").is_none()
}

fn is_library(mapping: &Mapping, name: &str) -> bool {
    let Backing::File { path, .. } = &mapping.backing else { return false };
    path.file_name().and_then(|file| Path::new(file).to_str()).is_some_and(|file| file.starts_with(name))
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
