//! Doorbells: which threads are counted, and which process bears the cost. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common_owner;

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common_owner::{Running, USER, gated, may};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use testkit::skip::{Need, skip};
use watch::WatchError;
use watch::umt::{Doorbells, Given, Pages, Umt};
use wire::umt::{KernelPage, ProgramPage, QUEUES, VERSION, place};

/// The page that a process writes, mapped as a process maps it; it stays.
fn program_page(given: &Given) -> &'static ProgramPage {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a whole page, at an address of the kernel's choice, which is never given back; its words are atomics.
    unsafe {
        let page = mmap(std::ptr::null_mut(), size_of::<ProgramPage>(), both, MapFlags::SHARED, &given.program_page, 0)
            .unwrap();
        &*page.cast::<ProgramPage>()
    }
}

fn pages(given: &Given) -> Pages {
    Pages::map(given.program_page.as_fd(), given.kernel_page.as_fd()).unwrap()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn asleep() -> Running {
    Running(Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap())
}

#[test]
fn only_the_owners_processes_are_given_pages() {
    if !may("only_the_owners_processes_are_given_pages") {
        return;
    }
    // As ping(8) may be.
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in("/var/tmp").unwrap();
    let capable = folder.path().join("capable").to_str().unwrap().to_owned();
    fs::copy("/bin/sleep", &capable).unwrap();
    assert!(Command::new("setcap").args(["cap_net_raw+ep", &capable]).status().unwrap().success());
    let mut capables = gated(&format!("exec {capable} 60"));
    capables.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let name = format!("/proc/{}/comm", capables.0.id());
    wait_for("the program", || fs::read_to_string(&name).unwrap() == "capable\n");
    let (roots, users) = (asleep(), gated("true"));
    // As a set-group-id program runs.
    let (user, group) = (USER.to_string(), (USER + 1).to_string());
    let ids = ["--reuid", &user, "--rgid", &user, "--egid", &group, "--clear-groups"];
    let grouped = Running(Command::new("setpriv").args(ids).args(["sleep", "60"]).spawn().unwrap());
    let name = format!("/proc/{}/comm", grouped.0.id());
    wait_for("sleep", || fs::read_to_string(&name).unwrap() == "sleep\n");
    let mut umt = Umt::new(Some(USER)).unwrap();
    for other in [&roots, &capables, &grouped].map(|running| running.0.id()) {
        let refused = umt.give(other).unwrap_err();
        assert!(matches!(refused, WatchError::NoTarget { pid, .. } if pid == other), "{refused}");
    }
    let given = umt.give(users.0.id()).unwrap();
    assert_eq!(given.process, 0, "who is refused takes no number");
    // What the kernel writes, nobody else can.
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let page =
        unsafe { mmap(std::ptr::null_mut(), size_of::<KernelPage>(), both, MapFlags::SHARED, &given.kernel_page, 0) };
    assert!(page.is_err());
}

/// setuid(2) without an exec: in a user namespace with a subordinate user id, as container engines without root use them.
#[test]
fn a_thread_that_calls_setuid_counts_no_more() {
    let test = "a_thread_that_calls_setuid_counts_no_more";
    if !may(test) {
        return;
    }
    let program = "import ctypes, os, time\n\
        input()\n\
        for i in range(20): time.sleep(0.001)\n\
        assert ctypes.CDLL(None).unshare(0x10000000) == 0\n\
        while not open('/proc/self/uid_map').read(): time.sleep(0.001)\n\
        os.setresuid(1, 1, 1)\n\
        for i in range(100): time.sleep(0.004)\n";
    let mut child = gated(&format!("exec python3 -c \"{program}\""));
    let pid = child.0.id();
    let mut input = child.0.stdin.take().unwrap();
    input.write_all(b"go\n").unwrap();
    // Executing the program, it would be let go.
    let is_python = || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("python3"));
    if !is_python() && Command::new("python3").arg("--version").output().is_err() {
        return skip(test, Need::Python, "there is no python3");
    }
    wait_for("python3", is_python);
    let mut umt = Umt::new(Some(USER)).unwrap();
    let given = umt.give(pid).unwrap();
    let (page, pages) = (program_page(&given), pages(&given));
    page.version.store(VERSION, Relaxed);
    page.tids[place(pid, 0)].store(pid, Relaxed);
    page.generation.fetch_add(1, Relaxed);
    input.write_all(b"go\n").unwrap();
    let blocks = || pages.kernel_page().blocks.load(Relaxed);
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while namespace(&pid.to_string()) == namespace("self") {
        if child.0.try_wait().unwrap().is_some() || Instant::now() > deadline {
            return skip(test, Need::Namespaces, "users may not make user namespaces");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = blocks();
    wait_for("blocks of a thread that counts", || blocks() > before + 3);
    fs::write(format!("/proc/{pid}/uid_map"), format!("0 {USER} 1\n1 54321 1\n")).unwrap();
    let status = format!("/proc/{pid}/status");
    wait_for("another user", || fs::read_to_string(&status).unwrap().contains("Uid:\t54321"));
    // It counts to the end of its stint.
    std::thread::sleep(Duration::from_millis(50));
    let (after, runnable) = (blocks(), pages.kernel_page().runnable.load(Relaxed));
    assert!(child.0.try_wait().unwrap().is_none());
    child.0.wait().unwrap();
    assert_eq!((blocks(), runnable), (after, 0), "it is counted on");
}

/// A runtime learns from its own thread's number which of its tasks block.
#[test]
fn blocks_are_counted_where_the_thread_is_listed() {
    if !may("blocks_are_counted_where_the_thread_is_listed") {
        return;
    }
    let mut child = gated("while :; do sleep 0.001; done");
    let pid = child.0.id();
    let mut umt = Umt::new(None).unwrap();
    let given = umt.give(pid).unwrap();
    let (page, pages) = (program_page(&given), pages(&given));
    page.version.store(VERSION, Relaxed);
    // Where it is if its first places are taken.
    let at = place(pid, 3);
    page.tids[at].store(pid, Relaxed);
    page.generation.fetch_add(1, Relaxed);
    child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let blocks = || pages.kernel_page().thread_blocks[at].load(Relaxed);
    wait_for("blocks", || blocks() > 20);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_eq!(u64::from(blocks()), pages.kernel_page().blocks.load(Relaxed), "it is the only thread that counts");
    let all: u32 = pages.kernel_page().thread_blocks.iter().map(|blocks| blocks.load(Relaxed)).sum();
    assert_eq!(all, blocks(), "nothing is counted elsewhere");
}

/// The kernel waits while a CPU that goes idle looks at queues: it looks at some of them, at others next time, whatever processes say that they have.
#[test]
fn a_cpu_that_goes_idle_looks_at_some_queues_only() {
    const PROCESSES: usize = 12;
    if !may("a_cpu_that_goes_idle_looks_at_some_queues_only") {
        return;
    }
    let sleepers: Vec<Running> = (0..=PROCESSES).map(|_| asleep()).collect();
    // A task is in the last of so many queues, and no standby is parked: each time that it is found is counted.
    let with_task = |umt: &mut Umt, sleeper: &Running, queues: usize| {
        let given = umt.give(sleeper.0.id()).unwrap();
        let page = program_page(&given);
        page.queue[queues - 1].end.0.store(1, Relaxed);
        page.queues.store(queues as u32, Relaxed);
        page.allowed.iter().for_each(|word| word.store(u64::MAX, Relaxed));
        page.version.store(VERSION, Relaxed);
        (given.process, page, pages(&given))
    };
    let found = |(_, _, pages): &(u32, &ProgramPage, Pages)| pages.kernel_page().no_standby.load(Relaxed);
    let (mut umt, mut other) = (Umt::new(None).unwrap(), Umt::new(None).unwrap());
    // Of one process it looks at the queue each time.
    let each_time = with_task(&mut other, &sleepers[PROCESSES], 1);
    let all: Vec<_> = sleepers[..PROCESSES].iter().map(|sleeper| with_task(&mut umt, sleeper, QUEUES)).collect();
    let (earlier, earlier_all) = (found(&each_time), all.iter().map(found).collect::<Vec<_>>());
    wait_for("CPUs that go idle", || found(&each_time) > earlier + 100);
    let each: Vec<u64> = all.iter().zip(&earlier_all).map(|(one, earlier)| found(one) - earlier).collect();
    let times = found(&each_time) - earlier;
    let looked: u64 = each.iter().sum();
    assert!(looked < times * PROCESSES as u64 * 2 / 3, "{times} times, in which tasks were found: {each:?}");
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(*least * 2 > *most, "each has its turn, in {times} times: {each:?}");
    // Those that have hung up take no turns, whatever they say: who is left is looked at each time.
    all.iter().for_each(|(process, ..)| umt.over(*process));
    let last = with_task(&mut umt, &sleepers[PROCESSES], 1);
    let (earlier, earlier_last) = (found(&each_time), found(&last));
    wait_for("CPUs that go idle", || found(&each_time) > earlier + 100);
    let (found_at_last, times) = (found(&last) - earlier_last, found(&each_time) - earlier);
    assert!(found_at_last * 3 > times * 2, "{found_at_last} of {times} times");
}
