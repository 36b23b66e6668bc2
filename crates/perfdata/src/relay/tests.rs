//! Two threads say what one says.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::perf::{compressed, file_mode, pipe_mode, story, switch};
use testkit::{Random, bytes};

use super::*;
use crate::read_with;

/// All that comes of a recording, and how it ends.
fn told(bytes: &[u8], alone: usize) -> (Vec<Event>, String) {
    let mut events = Vec::new();
    let ending = read_with(&mut Cursor::new(bytes), &[], alone, |event| {
        events.push(*event);
        Ok(())
    });
    (events, format!("{ending:?}"))
}

#[test]
fn damaged_recordings_are_read_the_same_by_two() {
    let story = story();
    let originals = [file_mode(&story), pipe_mode(&story), pipe_mode(&compressed(&story, 81, 100).unwrap())];
    let mut ended_well = 0;
    for seed in 0..testkit::times(2_000) {
        let mut random = Random::new(seed);
        let mut file = originals[random.below(originals.len())].clone();
        if seed > 0 {
            bytes::change(&mut file, &mut random);
        }
        let by_one = told(&file, usize::MAX);
        ended_well += u64::from(by_one.1.starts_with("Ok"));
        assert_eq!(told(&file, random.below(8)), by_one, "seed {seed}");
    }
    assert!(ended_well > 100, "{ended_well}");
}

/// Switches in several buffers, with a mark here and there, many batches of them.
fn long() -> Vec<u8> {
    let mut records = story();
    let before = records.len();
    for round in 0..40u64 {
        for cpu in 0..3 {
            let of_cpu = (0..300).map(|nth| switch(10_000 + round * 1_000 + nth * 3 + u64::from(cpu), cpu, 1, 1, 2));
            records.extend(of_cpu);
        }
        records.push(testkit::perf::mark());
    }
    assert!(records.len() - before > 4 * BATCH);
    pipe_mode(&records)
}

#[test]
fn many_batches_come_in_order() {
    let file = long();
    let by_one = told(&file, usize::MAX);
    assert!(by_one.0.len() > 4 * BATCH && by_one.0.is_sorted_by_key(|event| event.t_ns));
    for alone in [0, 1, BATCH, 2 * BATCH + 7] {
        assert_eq!(told(&file, alone), by_one, "{alone}");
    }
    // Cut off in the middle of a record.
    let cut = &file[..file.len() * 2 / 3 + 5];
    let by_one = told(cut, usize::MAX);
    assert!(by_one.1.contains("the file ends here"), "{}", by_one.1);
    assert_eq!(told(cut, 100), by_one);
}

#[test]
fn an_error_of_the_caller_ends_reading() {
    let file = long();
    let (mut taken, mut input) = (0, Cursor::new(&file[..]));
    let error = read_with(&mut input, &[], 0, |_| {
        taken += 1;
        if taken < 100 { Ok(()) } else { Err(io::Error::other("enough")) }
    });
    assert!(matches!(error, Err(Error::Io(error)) if error.to_string() == "enough"));
    assert_eq!(taken, 100);
}

/// A file that breaks, or a pipe, and how many bytes were read of it by which thread.
struct Odd {
    bytes: Cursor<Vec<u8>>,
    breaks_at: u64,
    is_pipe: bool,
    elsewhere: &'static AtomicUsize,
    here: thread::ThreadId,
}

impl Read for Odd {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.bytes.position() >= self.breaks_at {
            return Err(io::Error::other("the disk is broken"));
        }
        let got = self.bytes.read(bytes)?;
        if thread::current().id() != self.here {
            self.elsewhere.fetch_add(got, Ordering::Relaxed);
        }
        Ok(got)
    }
}

impl Seek for Odd {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if self.is_pipe { Err(io::ErrorKind::NotSeekable.into()) } else { self.bytes.seek(to) }
    }
}

#[test]
fn a_pipe_is_read_by_its_caller_and_a_broken_disk_is_told() {
    static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
    let file = long();
    let read = |is_pipe, breaks_at| {
        let odd = Odd {
            bytes: Cursor::new(file.clone()),
            breaks_at,
            is_pipe,
            elsewhere: &ELSEWHERE,
            here: thread::current().id(),
        };
        let mut events = 0;
        let ending = read_with(&mut io::BufReader::with_capacity(4096, odd), &[], 0, |_| {
            events += 1;
            Ok(())
        });
        (ending.map_err(|error| error.to_string()), events, ELSEWHERE.swap(0, Ordering::Relaxed))
    };
    let whole = told(&file, usize::MAX).0.len();
    let (ending, events, elsewhere) = read(true, u64::MAX);
    assert_eq!((ending.is_ok(), events, elsewhere), (true, whole, 0));
    let (ending, events, elsewhere) = read(false, u64::MAX);
    assert!(ending.is_ok() && events == whole && elsewhere > file.len() / 2, "{events} {elsewhere}");
    let (ending, events, _) = read(false, file.len() as u64 / 2);
    let (by_one, events_by_one, _) = read(true, file.len() as u64 / 2);
    assert_eq!(ending.as_ref().unwrap_err(), "the disk is broken");
    assert_eq!((ending, events), (by_one, events_by_one));
}

/// No stack is so large: a thread cannot be started where each has to have one.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "1152921504606846976");

/// Where the reader cannot be started, the caller reads everything. The standard library asks for the size of stacks once: the test runs itself again.
#[test]
fn without_a_second_thread_the_caller_reads_all() {
    if std::env::var(NO_THREADS.0).as_deref() != Ok(NO_THREADS.1) {
        let test = concat!(module_path!(), "::without_a_second_thread_the_caller_reads_all");
        let test = test.strip_prefix("perfdata::").unwrap();
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", test, "--test-threads=1"]).env(NO_THREADS.0, NO_THREADS.1);
        let ran = again.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        return;
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "else this test shows nothing");
    let file = long();
    let by_one = told(&file, usize::MAX);
    assert!(by_one.1.starts_with("Ok") && by_one.0.len() > 4 * BATCH, "{}", by_one.1);
    for alone in [0, 1, BATCH] {
        assert_eq!(told(&file, alone), by_one, "{alone}");
    }
    let cut = &file[..file.len() * 2 / 3 + 5];
    assert_eq!(told(cut, 100), told(cut, usize::MAX));
}
