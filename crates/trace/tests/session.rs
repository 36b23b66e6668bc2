//! A recording in a file: what is written is what is read, and whatever else is in a file is refused, and no more.

use std::collections::BTreeMap;
use std::io;

use trace::paraver::Files;
use trace::session::{ReadError, read, write};
use trace::sorter::Sorter;
use trace::{Cast, Recording, paraver, perfetto};
use wire::{Cause, Left, Migration, Moment, What};

/// Files that are damaged at random; `COX_FUZZ_TIMES` for more (`make fuzz`).
const TIMES: u64 = 20_000;

/// Numbers that look random, the same each time (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Something of every kind.
fn moments(count: u64) -> Vec<Moment> {
    (0..count)
        .map(|n| {
            let (tid, t_ns) = (100 + (n % 3) as u32, 1_000 + n * 700);
            let what = match n % 9 {
                0 => What::Born { tid, tgid: 100, parent_tgid: 1 },
                1 => What::Enrolled { tid, tgid: 100, blocked: Some(Cause::Poll) },
                2 => What::Waking { tid, waker: 0, last_cpu: 1 },
                3 => What::Migration { tid, from: 0, kind: Migration::AtWakeup },
                4 => What::Exec { tid, caller: tid + 1 },
                5 => What::Arrived { tid },
                6 => What::Why { tid, cause: Cause::Disk },
                7 => What::Lost { count: 3 },
                _ => What::Switch {
                    out: tid,
                    left: Left::Blocked(None),
                    out_is_member: true,
                    into: 7,
                    in_is_member: false,
                    in_cause: Some(Cause::Futex),
                },
            };
            Moment::new(t_ns, (n % 2) as u16, what)
        })
        .collect()
}

fn recording(moments: &[Moment]) -> Recording {
    let mut sorter = Sorter::new(&std::env::temp_dir()).expect("room for a file");
    moments.iter().for_each(|moment| sorter.push(*moment).expect("room for a file"));
    let mut cast = Cast { strangers: BTreeMap::from([(7, "kworker/0:1".to_owned())]), ..Cast::default() };
    cast.threads.insert(100, trace::recording::Thread { name: "heat".into(), process: 100 });
    cast.processes.insert(100, trace::recording::Process { name: "heat".into(), ..Default::default() });
    Recording {
        start_ns: 900,
        end_ns: u64::MAX / 2,
        boot_ns: 5,
        epoch_ns: 6,
        cpus: 2,
        cast,
        moments: sorter.sorted().expect("room for a file"),
    }
}

fn file(recording: &Recording, report: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    perfetto::write(recording, &mut bytes).expect("room for a file");
    write(recording, report, &mut bytes).expect("room for a file");
    bytes
}

fn again(bytes: &[u8]) -> Result<(Recording, String), ReadError> {
    read(&mut &bytes[..], &std::env::temp_dir())
}

fn all(recording: &Recording) -> Vec<Moment> {
    let mut all = Vec::new();
    let keep = |moment: &Moment| -> io::Result<()> {
        all.push(*moment);
        Ok(())
    };
    recording.each(keep).expect("room for a file");
    all
}

/// How many moments found no room.
fn lost(recording: &Recording) -> u64 {
    let counts = all(recording).into_iter().map(|moment| match moment.what() {
        Some(What::Lost { count }) => u64::from(count),
        _ => 0,
    });
    counts.sum()
}

#[test]
fn what_is_written_is_what_is_read() {
    // None, some, and more than one part holds.
    for count in [0, 1, 1000, 70_000] {
        let moments = moments(count);
        let written = recording(&moments);
        let bytes = file(&written, "{\"a\": 0.1}");
        let (told, report) = again(&bytes).unwrap();
        assert_eq!(all(&told), moments);
        assert_eq!(report, "{\"a\": 0.1}");
        assert_eq!((told.start_ns, told.end_ns, told.boot_ns, told.epoch_ns, told.cpus), (900, u64::MAX / 2, 5, 6, 2));
        assert_eq!(told.cast, written.cast);
        assert_eq!(lost(&told), count / 9 * 3 + if count % 9 == 8 { 3 } else { 0 });
        assert!(file(&told, "{\"a\": 0.1}") == bytes, "written once more it is another");
    }
}

#[test]
fn what_came_behind_the_window_is_left_out() {
    let mut written = recording(&moments(10));
    written.end_ns = 1_000 + 4 * 700;
    let (told, _) = again(&file(&written, "")).unwrap();
    assert_eq!(all(&told), moments(5));
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let bytes = file(&recording(&moments(50)), "report");
    for length in 0..bytes.len() {
        let error = again(&bytes[..length]).expect_err("half a file");
        // Between two packets nothing shows but that the end is missing.
        let is_told = matches!(error, ReadError::NoTrace | ReadError::Foreign | ReadError::Damaged(_));
        assert!(is_told, "{length} of {}: {error}", bytes.len());
    }
}

#[test]
fn a_trace_of_somebody_else_is_told_apart() {
    let mut bytes = Vec::new();
    perfetto::write(&recording(&moments(50)), &mut bytes).unwrap();
    assert!(matches!(again(&bytes), Err(ReadError::Foreign)));
    assert!(matches!(again(b"perf"), Err(ReadError::NoTrace)));
    assert!(matches!(again(b"PERFILE2 and so on"), Err(ReadError::NoTrace)));
}

#[test]
fn damaged_files_are_refused_or_read_and_nothing_else() {
    let times = std::env::var("COX_FUZZ_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(TIMES);
    let whole = file(&recording(&moments(40)), "report");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut read, mut refused) = (0u64, 0u64);
    for _ in 0..times {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, random.next() as u8),
                _ => bytes[at] = 0xff,
            }
            if bytes.is_empty() {
                break;
            }
        }
        match again(&bytes) {
            Ok((told, _)) => {
                // What was read can be written, whatever it says.
                perfetto::write(&told, &mut io::sink()).unwrap();
                let (mut prv, mut pcf, mut row) = (io::sink(), io::sink(), io::sink());
                let mut files = Files { prv: &mut prv, pcf: &mut pcf, row: &mut row };
                paraver::write(&told, &mut files, &std::env::temp_dir()).unwrap();
                read += 1;
            }
            Err(_) => refused += 1,
        }
    }
    // Both happen, or the damage is too small, or too great, to say anything.
    assert!(read > times / 100 && refused > times / 2, "{read} read, {refused} refused");
}
