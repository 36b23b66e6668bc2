//! Each kind of knob on the real machine: files below a folder, affinity and scheduling of the test's own threads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use changes::{
    ChangeRequest, Claim, Error, JournalFolder, Knob, KnobIo, LiveKnobIo, Scheduling, Session, Thread, Value,
};
use machine::Root;
use machine::process::Task;
use tempfile::TempDir;

/// A thread that sleeps while `work` has its id.
fn beside<T>(work: impl FnOnce(Thread) -> T) -> T {
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        // Ends when the other side hangs up.
        let _ = ended.recv();
    });
    let result = work(LiveKnobIo::new(Root::live()).thread(told.recv().unwrap()).unwrap());
    drop(end);
    sleeper.join().unwrap();
    result
}

#[test]
fn a_file_has_its_text_without_the_line_end_and_is_never_created() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("proc/sys/kernel")).unwrap();
    let file = folder.path().join("proc/sys/kernel/watchdog");
    fs::write(&file, "1\n").unwrap();
    let knob_io = LiveKnobIo::new(Root::at(folder.path()));
    let knob = Knob::File("/proc/sys/kernel/watchdog".into());
    assert_eq!(knob_io.read(&knob).unwrap(), Value::Text("1".into()));
    knob_io.write(&knob, &Value::Text("0".into())).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "0\n");
    fs::remove_file(&file).unwrap();
    assert!(matches!(knob_io.write(&knob, &Value::Text("0".into())), Err(Error::Gone(_))));
    assert!(matches!(knob_io.read(&knob), Err(Error::Gone(_))) && !file.exists());
}

#[test]
fn an_affinity_is_set_and_read() {
    beside(|thread| {
        let knob_io = LiveKnobIo::new(Root::live());
        let knob = Knob::Affinity(thread);
        let Value::Cpus(all) = knob_io.read(&knob).unwrap() else { panic!("no mask") };
        let one = Value::Cpus(all.iter().take(1).collect());
        knob_io.write(&knob, &one).unwrap();
        assert_eq!(knob_io.read(&knob).unwrap(), one);
        // The kernel leaves out CPUs that it does not have.
        let Value::Cpus(mut long) = one.clone() else { panic!("no mask") };
        long.insert(1500);
        knob_io.write(&knob, &Value::Cpus(long)).unwrap();
        assert_eq!(knob_io.read(&knob).unwrap(), one);
        let beyond = Value::Cpus([1500].into_iter().collect());
        assert!(matches!(knob_io.write(&knob, &beyond), Err(Error::Knob { .. })), "none of its CPUs exists");
    });
}

#[test]
fn a_writer_sees_whether_a_mask_is_within_another() {
    let (knob_io, folder) = (LiveKnobIo::new(Root::live()), TempDir::new().unwrap());
    let mut session = Session::begin(&knob_io, JournalFolder::at(folder.path()), 1, "test", |_| Ok(None)).unwrap();
    beside(|thread| {
        let knob = Knob::Affinity(thread);
        let Value::Cpus(all) = knob_io.read(&knob).unwrap() else { panic!("no mask") };
        assert!(all.is_subset(&knob_io.possible_cpus(thread).unwrap()));
        let claim = Claim::Within(all.clone());
        session
            .take([ChangeRequest { engine: "test".into(), knob: knob.clone(), claim, heir_of: Vec::new() }])
            .unwrap();
        let handle = session.handle(&knob).unwrap();
        let (one, all) = (Value::Cpus(all.iter().take(1).collect()), Value::Cpus(all));
        let (one, all) = (handle.prepare(&one).unwrap(), handle.prepare(&all).unwrap());
        assert!(handle.is_within(&all).unwrap());
        assert_eq!(handle.is_within(&one).unwrap(), one.value() == all.value());
        handle.apply(&one).unwrap();
        assert!(handle.is_within(&one).unwrap() && handle.is_within(&all).unwrap());
    });
}

/// A machine below a folder, with a CPU of the thread's cpuset offline.
#[test]
fn a_cpu_that_is_offline_is_not_possible() {
    let folder = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("proc/77/cgroup", "0::/job\n");
    write("sys/fs/cgroup/cgroup.controllers", "cpuset\n");
    write("sys/fs/cgroup/job/cpuset.cpus.effective", "0-2\n");
    write("sys/devices/system/cpu/online", "0,2-3\n");
    let knob_io = LiveKnobIo::new(Root::at(folder.path()));
    let thread = |tid| Thread { tid, start_ns: 0 };
    assert_eq!(Value::Cpus(knob_io.possible_cpus(thread(77)).unwrap()), Value::Cpus("0,2".parse().unwrap()));
    assert!(matches!(knob_io.possible_cpus(thread(78)), Err(Error::Gone(_))));
}

#[test]
fn a_scheduling_is_set_and_read() {
    beside(|thread| {
        let knob_io = LiveKnobIo::new(Root::live());
        let knob = Knob::Scheduling(thread);
        let Value::Scheduling(before) = knob_io.read(&knob).unwrap() else { panic!("no scheduling") };
        // SCHED_BATCH, and nicer if that is possible: what needs no privilege.
        let nice = (before.nice + 3).min(19);
        let batch = Scheduling { policy: 3, nice, slice_ns: 0, ..before };
        knob_io.write(&knob, &Value::Scheduling(batch)).unwrap();
        let Value::Scheduling(after) = knob_io.read(&knob).unwrap() else { panic!("no scheduling") };
        assert_eq!((after.policy, after.nice), (3, nice));
    });
}

#[test]
fn a_thread_is_not_mistaken_for_one_that_had_its_id() {
    beside(|thread| {
        let knob_io = LiveKnobIo::new(Root::live());
        let earlier = Knob::Affinity(Thread { start_ns: thread.start_ns - 1, ..thread });
        assert!(matches!(knob_io.read(&earlier), Err(Error::Gone(_))));
        let value = knob_io.read(&Knob::Affinity(thread)).unwrap();
        assert!(matches!(knob_io.write(&earlier, &value), Err(Error::Gone(_))));
    });
}

#[test]
fn a_knob_has_only_its_own_values_and_threads_are_the_live_machines() {
    beside(|thread| {
        let knob_io = LiveKnobIo::new(Root::live());
        assert!(matches!(knob_io.write(&Knob::Affinity(thread), &Value::Text("0".into())), Err(Error::Knob { .. })));
        let elsewhere = LiveKnobIo::new(Root::at("/nowhere"));
        assert!(matches!(elsewhere.read(&Knob::Affinity(thread)), Err(Error::Knob { .. })));
    });
}

#[test]
fn the_threads_of_a_process_are_listed_if_it_is_the_one_that_is_meant() {
    beside(|thread| {
        let knob_io = LiveKnobIo::new(Root::live());
        let leader = knob_io.thread(std::process::id()).unwrap();
        let threads = knob_io.threads_of(leader).unwrap();
        assert!(threads.contains(&leader.tid) && threads.contains(&thread.tid));
        let earlier = Thread { start_ns: leader.start_ns - 1, ..leader };
        assert!(matches!(knob_io.threads_of(earlier), Err(Error::Gone(_))));
        assert_eq!(knob_io.started_ns(thread.tid), Some(thread.start_ns));
    });
}

#[test]
fn a_handle_moves_a_thread_until_it_ends() {
    let (knob_io, folder) = (LiveKnobIo::new(Root::live()), TempDir::new().unwrap());
    let mut session = Session::begin(&knob_io, JournalFolder::at(folder.path()), 1, "test", |_| Ok(None)).unwrap();
    let (handle, setting) = beside(|thread| {
        let knob = Knob::Affinity(thread);
        let Value::Cpus(all) = knob_io.read(&knob).unwrap() else { panic!("no mask") };
        let claim = Claim::Within(all.clone());
        session
            .take([ChangeRequest { engine: "test".into(), knob: knob.clone(), claim, heir_of: Vec::new() }])
            .unwrap();
        let handle = session.handle(&knob).unwrap();
        for cpu in all.iter() {
            let one = Value::Cpus([cpu].into_iter().collect());
            handle.apply(&handle.prepare(&one).unwrap()).unwrap();
            assert_eq!(knob_io.read(&knob).unwrap(), one);
        }
        let setting = handle.prepare(handle.original()).unwrap();
        (handle, setting)
    });
    // Who joins a thread goes on a moment before the kernel has done with it.
    let answer = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        handle.apply(&setting).err()
    });
    assert!(matches!(answer, Some(Error::Gone(_))), "{answer:?}");
    assert!(matches!(knob_io.writer(&Knob::File("/proc/version".into())), Err(Error::Knob { .. })));
}

#[test]
fn a_thread_comes_from_its_process_a_process_from_its_parent_and_the_kernels_from_nobody() {
    let knob_io = LiveKnobIo::new(Root::live());
    let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
    assert_eq!(beside(|thread| knob_io.creator_of(thread.tid)), Some(own));
    assert_eq!(knob_io.creator_of(own), Some(parent));
    let processes = Root::live().list_numbers("/proc").unwrap().into_iter();
    let is_of_kernel = |tid: &u32| Task::process(&Root::live(), *tid).stat().is_ok_and(|stat| stat.is_of_kernel());
    // A container shows none.
    for tid in processes.filter(is_of_kernel) {
        assert_eq!(knob_io.creator_of(tid), None, "{tid}");
    }
}
