//! Parts that are loaded in one BPF object: there is one program per tracepoint, and no part changes another part's figures. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common_owner;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use common_owner::may;
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use watch::bpf::{Parts, Snapshots, expect};
use watch::snapshots::Traced;
use watch::umt::{Doorbells, Given, Pages, Umt};
use watch::{BpfObserver, Intake, Observer, Settings, ThreadSnapshots};
use wire::umt::{ProgramPage, VERSION, place};

/// A process has one session at a time.
static SESSION: Mutex<()> = Mutex::new(());

fn settings() -> Settings {
    Settings { sample_period_ns: 0, ..Settings::new(std::thread::available_parallelism().unwrap().get() as u32, 1024) }
}

fn all() -> Parts {
    let snapshots = Some(Snapshots { children: true });
    Parts { clocks: Some(settings()), snapshots, overlap: true, noise: None, owner: None }
}

/// BPF programs that this process has descriptors of.
fn programs() -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.to_str() == Some("anon_inode:bpf-prog")).count()
}

/// Programs and maps in the kernel, by the kinds of their descriptors and their ids, with their names.
fn loaded() -> BTreeMap<(&'static str, u32), String> {
    let programs = ProgInfoIter::default().map(|p| (("prog", p.id), p.name.into_string().unwrap()));
    let maps = MapInfoIter::default().map(|m| (("map", m.id), m.name.into_string().unwrap()));
    programs.chain(maps).collect()
}

/// Those of them that this process has descriptors of.
fn own() -> BTreeMap<(&'static str, u32), String> {
    let mut all = loaded();
    let described = fs::read_dir("/proc/self/fdinfo").unwrap();
    let described: Vec<String> = described.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok()).collect();
    let id = |line: &str| {
        let (kind, id) = line.split_once("_id:")?;
        let kind = ["prog", "map"].into_iter().find(|known| *known == kind)?;
        Some((kind, id.trim().parse().ok()?))
    };
    let ids: BTreeSet<_> = described.iter().flat_map(|text| text.lines().filter_map(id)).collect();
    all.retain(|id, _| ids.contains(id));
    all
}

#[test]
fn a_part_loads_what_it_needs_and_leaves_nothing() {
    if !may("a_part_loads_what_it_needs_and_leaves_nothing") {
        return;
    }
    let _session = SESSION.lock().unwrap();
    // What each part alone has of programs, and of maps that only one part has.
    let always = ["enrol_tasks", "on_newtask", "on_exec"];
    let clocks = ["on_wakeup_new", "on_waking", "on_migrate", "on_switch", "on_sample", "dump_clocks"];
    let snapshots = ["on_waking", "on_plain_switch", "on_look"];
    let overlap = ["on_wakeup", "on_migrate", "on_plain_switch"];
    let of_clocks = ["exited", "samples", "unlisted", "wakeups", "preemptors", "trace_events"];
    let of_snapshots = ["snapshots", "snapshot_counts", "looks", "others", "other_since"];
    let of_overlap = ["program_pages", "kernel_pages", "bells"];
    let some_maps: BTreeSet<&str> = [&of_clocks[..], &of_snapshots, &of_overlap].concat().into_iter().collect();

    let before: BTreeSet<_> = own().into_keys().collect();
    let check = |part: &str, programs: &[&str], maps: &[&str], handle: Box<dyn std::any::Any>| {
        let mut new = own();
        new.retain(|id, _| !before.contains(id));
        let names = |kind: &str| -> BTreeSet<&str> {
            new.iter().filter(|((of, _), _)| *of == kind).map(|(_, name)| name.as_str()).collect()
        };
        let wanted: BTreeSet<&str> = always.iter().chain(programs).copied().collect();
        assert_eq!(names("prog"), wanted, "programs of {part}");
        let of_parts: BTreeSet<&str> = names("map").intersection(&some_maps).copied().collect();
        assert_eq!(of_parts, maps.iter().copied().collect(), "maps of {part}");
        drop(handle);
        // The kernel frees them behind grace periods.
        let since = Instant::now();
        while loaded().keys().any(|id| new.contains_key(id)) {
            assert!(since.elapsed() < Duration::from_secs(60), "{part} leaves something in the kernel");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    check("clocks", &clocks, &of_clocks, Box::new(BpfObserver::new(&settings(), None).unwrap()));
    check("snapshots", &snapshots, &of_snapshots, Box::new(Traced::new(true, None, &[]).unwrap()));
    check("overlap", &overlap, &of_overlap, Box::new(Umt::new(None).unwrap()));
    let together = expect(all());
    let handles =
        (BpfObserver::new(&settings(), None).unwrap(), Umt::new(None).unwrap(), Traced::new(true, None, &[]).unwrap());
    let mut programs: Vec<&str> = [&clocks[..], &snapshots, &overlap].concat();
    programs.retain(|name| *name != "on_plain_switch");
    let maps = [&of_clocks[..], &of_snapshots, &of_overlap].concat();
    check("all parts", &programs, &maps, Box::new(handles));
    drop(together);
}

/// Has a thread of this process counted, as a runtime would.
fn enlist(given: &Given, tid: u32) {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a whole page, at an address of the kernel's choice, which is never given back; its words are atomics.
    let program_page = unsafe {
        let page = mmap(std::ptr::null_mut(), size_of::<ProgramPage>(), both, MapFlags::SHARED, &given.program_page, 0)
            .unwrap();
        &*page.cast::<ProgramPage>()
    };
    program_page.version.store(VERSION, Relaxed);
    program_page.tids[place(tid, 0)].store(tid, Relaxed);
    program_page.generation.fetch_add(1, Relaxed);
}

#[test]
fn parts_share_programs_and_end_one_by_one() {
    if !may("parts_share_programs_and_end_one_by_one") {
        return;
    }
    let _session = SESSION.lock().unwrap();
    let (tid, naps, over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    let nap = |until: u32| {
        while naps.load(Relaxed) < until {
            std::thread::sleep(Duration::from_millis(1))
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Relaxed);
            while !over.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
                naps.fetch_add(1, Relaxed);
            }
        });
        nap(1);
        let tid = tid.load(Relaxed);
        let _together = expect(all());
        let mut observer = BpfObserver::new(&settings(), None).unwrap();
        let loaded = programs();
        let (mut umt, mut traced) = (Umt::new(None).unwrap(), Traced::new(true, None, &[]).unwrap());
        assert_eq!(programs(), loaded, "all parts are loaded with the first");
        observer.enrol(std::process::id()).unwrap();
        traced.enrol(std::process::id()).unwrap();
        let given = umt.give(std::process::id()).unwrap();
        enlist(&given, tid);
        let begun = naps.load(Relaxed);
        nap(begun + 200);

        let pages = Pages::map(given.program_page.as_fd(), given.kernel_page.as_fd()).unwrap();
        umt.end();
        // What was under way on another CPU has ended by then.
        std::thread::sleep(Duration::from_millis(10));
        let counted = pages.kernel_page().blocks.load(Relaxed);
        let table = traced.table();
        let snapshot =
            || (0..table.given()).filter_map(|at| table.read(at)).find(|snapshot| snapshot.tid == tid).unwrap();
        let met = snapshot().blocks;
        nap(begun + 400);
        assert_eq!(pages.kernel_page().blocks.load(Relaxed), counted, "overlap is over");
        let blocks = snapshot().blocks;
        assert!(blocks >= met + 100, "snapshots go on: {met} and then {blocks}");
        drop(traced);
        std::thread::sleep(Duration::from_millis(10));
        let blocks = snapshot().blocks;
        nap(begun + 600);
        assert_eq!(snapshot().blocks, blocks, "snapshots are over");

        let record = observer.finish(&mut Intake::default()).unwrap();
        over.store(true, Relaxed);
        let clock = record.living.iter().map(|living| living.clock).find(|clock| clock.tid == tid).unwrap();
        assert!(clock.is_whole());
        let all = clock.switches_voluntary;
        assert!(counted >= 150 && counted < all, "overlap counted {counted} blocks of {all}");
        assert!(
            u64::from(blocks) >= counted + 100 && u64::from(blocks) < all,
            "snapshots saw {blocks} blocks of {all}"
        );
        assert!(all >= 500 && clock.impossible == 0, "{clock:?}");
    });
}

#[test]
fn what_is_not_as_expected_is_loaded_alone() {
    if !may("what_is_not_as_expected_is_loaded_alone") {
        return;
    }
    let _session = SESSION.lock().unwrap();
    let together = expect(all());
    let first = Umt::new(None).unwrap();
    let loaded = programs();
    let _twice = Umt::new(None).unwrap();
    let twice = programs();
    assert!(twice > loaded, "a part is given once");
    let _without_children = Traced::new(false, None, &[]).unwrap();
    assert!(programs() > twice, "other settings");
    drop(together);
    let all = programs();
    let _later = Traced::new(true, None, &[]).unwrap();
    assert!(programs() > all, "nothing is expected any more");
    drop(first);
}
