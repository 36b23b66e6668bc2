use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A folder that looks like a machine with one process.
struct Machine {
    folder: tempfile::TempDir,
    processes: Processes,
    start: Instant,
}

const TGID: u32 = 77;

impl Machine {
    fn new(maps: &str) -> Machine {
        let folder = tempfile::tempdir().expect("temporary folder");
        let machine = Machine { processes: Processes::new(Root::at(folder.path())), folder, start: Instant::now() };
        fs::create_dir_all(machine.folder.path().join("proc/77")).expect("mkdir");
        machine.map(maps);
        machine
    }

    fn map(&self, maps: &str) {
        fs::write(self.folder.path().join("proc/77/maps"), maps).expect("write");
    }

    fn execute(&self, program: &str) {
        let link = self.folder.path().join("proc/77/exe");
        let _absent_at_first = fs::remove_file(&link);
        let target = self.folder.path().join(program);
        fs::write(&target, program).expect("write");
        symlink(target, link).expect("symlink");
    }

    /// Generation and offset in the file of `ip`, as seen after `ms`.
    fn locate(&mut self, ip: u64, ms: u64) -> (u32, Option<u64>) {
        let now = self.start + Duration::from_millis(ms);
        self.processes.look(TGID, now);
        let (generation, range) = self.processes.locate(TGID, ip, now).expect("known process");
        (generation, range.map(|range| range.file_offset(ip)))
    }

    fn module(&self, generation: u32, ip: u64) -> Option<&str> {
        let range = self.processes.range(TGID, generation, ip)?;
        Some(&self.processes.modules.get(range.module).name)
    }
}

const PROGRAM: &str = "400000-401000 r--p 00000000 08:01 5 /bin/app\n\
                       401000-402000 r-xp 00001000 08:01 5 /bin/app\n\
                       7000-8000 r-xp 00000000 00:00 0 [vdso]\n";

#[test]
fn an_address_has_a_place_in_a_file() {
    let mut machine = Machine::new(PROGRAM);
    assert_eq!(machine.locate(0x40_1234, 0), (0, Some(0x1234)));
    assert_eq!(machine.module(0, 0x40_1234), Some("app"));
    assert_eq!(machine.module(0, 0x7010), Some("[vdso]"));
    assert_eq!(machine.locate(0x40_2000, 0), (0, None), "behind the end");
    assert_eq!(machine.locate(0x40_0000, 0), (0, None), "not executable");
}

#[test]
fn a_library_loaded_later_is_found_after_a_while_without_a_new_generation() {
    let mut machine = Machine::new(PROGRAM);
    assert_eq!(machine.locate(0x9010, 0), (0, None));
    machine.map(&format!("{PROGRAM}9000-a000 r-xp 00000000 08:01 6 /lib/late.so\n"));
    assert_eq!(machine.locate(0x9010, 199), (0, None), "maps are not read again so soon");
    assert_eq!(machine.locate(0x9010, 201), (0, Some(0x10)));
    assert_eq!(machine.module(0, 0x9010), Some("late.so"));
    // Unloaded again: what was sampled there stays known.
    machine.map(PROGRAM);
    assert_eq!(machine.locate(0xb000, 500), (0, None));
    assert_eq!(machine.module(0, 0x9010), Some("late.so"));
}

#[test]
fn other_code_at_the_same_address_begins_a_generation() {
    let mut machine = Machine::new(PROGRAM);
    assert_eq!(machine.locate(0x40_1234, 0), (0, Some(0x1234)));
    machine.map("401000-409000 r-xp 00003000 08:01 9 /bin/other\n");
    assert_eq!(machine.locate(0x40_8000, 300), (1, Some(0xa000)));
    assert_eq!(machine.module(0, 0x40_1234), Some("app"));
    assert_eq!(machine.module(1, 0x40_1234), Some("other"));
}

#[test]
fn exec_begins_a_generation_at_once() {
    let mut machine = Machine::new(PROGRAM);
    machine.execute("app");
    assert_eq!(machine.locate(0x40_1234, 0), (0, Some(0x1234)));
    machine.map("401000-402000 r-xp 00000000 08:01 9 /bin/other\n");
    machine.execute("other");
    assert_eq!(machine.locate(0x40_1234, 1), (1, Some(0x234)));
    assert_eq!(machine.locate(0x7010, 1), (0, Some(0x10)), "a sample from before, in the same batch");
}

#[test]
fn growing_memory_of_a_jit_compiler_stays_one_generation() {
    let mut machine = Machine::new("10000-20000 rwxp 00000000 00:00 0 \n");
    assert_eq!(machine.locate(0x1_0010, 0).0, 0);
    machine.map("8000-30000 rwxp 00000000 00:00 0 \n");
    assert_eq!(machine.locate(0x2_0010, 300).0, 0);
    assert_eq!(machine.module(0, 0x2_0010), Some("[anon]"));
    assert_eq!(machine.module(0, 0x8000), Some("[anon]"));
}

#[test]
fn a_process_that_is_gone_is_known_without_ranges() {
    let mut machine = Machine::new(PROGRAM);
    fs::remove_dir_all(machine.folder.path().join("proc/77")).expect("remove");
    assert_eq!(machine.locate(0x40_1234, 0), (0, None));
}

#[test]
fn a_dying_process_keeps_what_was_known() {
    let mut machine = Machine::new(PROGRAM);
    assert_eq!(machine.locate(0x40_1234, 0), (0, Some(0x1234)));
    machine.map("");
    assert_eq!(machine.locate(0x9000, 300), (0, None));
    assert_eq!(machine.locate(0x40_1234, 301), (0, Some(0x1234)));
}

#[test]
fn generations_are_bounded() {
    let mut machine = Machine::new(PROGRAM);
    for round in 0..200u64 {
        let end = 0x40_2000 + round * 0x1000;
        machine.map(&format!("401000-{end:x} r-xp 00000000 08:01 {} /bin/other\n", 100 + round));
        machine.locate(end - 1, round * 300);
    }
    let (generation, offset) = machine.locate(0x40_1000, 100_000);
    assert!((generation as usize) < MAX_GENERATIONS && offset == Some(0), "{generation} {offset:?}");
}
