//! The process in `fixtures/vm-2cpu`: an awkward name, two threads, a deleted program file.

mod common;

use common::tree;
use machine::Error;
use machine::process::{Backing, SystemCall, Task};

#[test]
fn a_process_with_an_awkward_name() {
    let root = tree("vm-2cpu");
    let process = Task::process(&root, 4711);
    let stat = process.stat().expect("stat");
    assert_eq!(stat.comm, "a) R 1 (b");
    assert_eq!((stat.pid, stat.ppid, stat.state, stat.threads, stat.processor), (4711, 900, 'S', 2, 1));
    assert_eq!((stat.user_ns, stat.system_ns), (5_410_000_000, 260_000_000));
    assert_eq!(stat.start_boottime_ns, 885_500_000_000);
    assert_eq!(process.comm().expect("comm"), "a) R 1 (b");
    let status = process.status().expect("status");
    assert_eq!((status.switches.voluntary, status.switches.involuntary), (1204, 2811));
    let arguments = process.cmdline().expect("cmdline");
    assert_eq!(arguments, ["./heat", "4096", "two words", ""]);
    assert_eq!(process.schedstat().expect("schedstat").run_delay_ns, 4_030_000_000);
    assert_eq!(process.wchan().expect("wchan").as_deref(), Some("futex_wait_queue"));
    let call = process.system_call().expect("syscall");
    assert!(matches!(call, SystemCall::In { number: 202, arguments: [0x7f3a10, 0x80, 2, 0, 0, 0], .. }), "{call:?}");
}

#[test]
fn threads_and_the_children_of_all_of_them() {
    let root = tree("vm-2cpu");
    let process = Task::process(&root, 4711);
    assert_eq!(process.threads().expect("threads"), [4711, 4712]);
    assert_eq!(process.children().expect("children"), [4999, 5000, 5003]);
    let thread = Task::thread(&root, 4711, 4712);
    assert_eq!(thread.comm().expect("comm"), "heat");
    assert_eq!(thread.stat().expect("stat").state, 'R');
    assert_eq!(thread.status().expect("status").allowed_cpus.to_string(), "1");
    assert_eq!(thread.wchan().expect("wchan"), None);
    assert_eq!(thread.system_call().expect("syscall"), SystemCall::Running);
}

#[test]
fn mappings_of_a_deleted_program() {
    let maps = Task::process(&tree("vm-2cpu"), 4711).maps().expect("maps");
    assert_eq!(maps.len(), 6);
    let program = Backing::File { path: "/opt/heat v2/heat".into(), deleted: true };
    assert_eq!((&maps[1].backing, maps[1].executable, maps[1].inode), (&program, true, 4242));
    assert_eq!(maps[1].file_offset(0x55d0_c000_2040), Some(0x2040));
    assert_eq!(maps[2].backing, Backing::Special("[heap]".into()));
    assert_eq!(maps[3].backing, Backing::Anonymous);
}

#[test]
fn processes_that_are_not_there_are_gone() {
    let root = tree("vm-2cpu");
    let process = Task::process(&root, 4);
    assert!(!process.exists());
    let error: Error = process.stat().expect_err("no such process");
    assert!(error.is_gone() && error.to_string().contains("/proc/4/stat"), "{error}");
}

#[test]
fn without_children_files_parents_are_asked() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join("proc").join(path);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    };
    let rest = (5..=52).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    for (pid, parent) in [(10, 1), (11, 10), (12, 11), (13, 10)] {
        write(&format!("{pid}/stat"), &format!("{pid} (x) S {parent} {rest}\n"));
        write(&format!("{pid}/status"), &format!("Tgid:\t{pid}\nPid:\t{pid}\n"));
        write(&format!("{pid}/task/{pid}/stat"), "");
    }
    let root = machine::Root::at(folder.path());
    assert_eq!(Task::process(&root, 10).children().expect("children"), [11, 13]);
}
