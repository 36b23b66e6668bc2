//! A recording in a file: reading returns exactly what was written, and every other content is refused.

use std::collections::BTreeMap;
use std::io;

use ledger::Provenance;
use testkit::{Random, bytes};
use trace::paraver::Files;
use trace::session::{ReadError, read, write};
use trace::sorter::Sorter;
use trace::{Recording, ThreadTable, paraver, perfetto};
use wire::{MOST_CPUS, TraceEvent, What};

fn trace_events(count: u64) -> Vec<TraceEvent> {
    testkit::trace_events::some(count, 100)
}

fn recording(trace_events: &[TraceEvent]) -> Recording {
    let mut sorter = Sorter::new(&std::env::temp_dir()).expect("room for a file");
    trace_events.iter().for_each(|trace_event| sorter.push(*trace_event).expect("room for a file"));
    let mut thread_table =
        ThreadTable { untracked: BTreeMap::from([(7, "kworker/0:1".to_owned())]), ..ThreadTable::default() };
    thread_table.threads.insert(100, trace::recording::Thread { name: "heat".into(), process: 100 });
    thread_table.processes.insert(100, trace::recording::Process { name: "heat".into(), ..Default::default() });
    Recording {
        start_ns: 900,
        end_ns: u64::MAX / 2,
        boot_ns: 5,
        epoch_ns: 6,
        cpus: 2,
        thread_table,
        waits: Vec::new(),
        trace_events: sorter.sorted().expect("room for a file"),
    }
}

fn file(recording: &Recording, report: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    perfetto::write(recording, None, &mut bytes).expect("room for a file");
    write(recording, report, &mut bytes).expect("room for a file");
    bytes
}

fn again(bytes: &[u8]) -> Result<(Recording, String), ReadError> {
    read(&mut &bytes[..], &std::env::temp_dir())
}

fn all(recording: &Recording) -> Vec<TraceEvent> {
    let mut all = Vec::new();
    let keep = |trace_event: &TraceEvent| -> io::Result<()> {
        all.push(*trace_event);
        Ok(())
    };
    recording.each(keep).expect("room for a file");
    all
}

/// How many trace events found no room.
fn lost(recording: &Recording) -> u64 {
    let counts = all(recording).into_iter().map(|trace_event| match trace_event.what() {
        Some(What::Lost { count }) => u64::from(count),
        _ => 0,
    });
    counts.sum()
}

#[test]
fn what_is_written_is_what_is_read() {
    // None, some, and more than one part holds.
    for count in [0, 1, 1000, 70_000] {
        let trace_events = trace_events(count);
        let written = recording(&trace_events);
        let bytes = file(&written, "{\"a\": 0.1}");
        let (told, report) = again(&bytes).unwrap();
        assert_eq!(all(&told), trace_events);
        assert_eq!(report, "{\"a\": 0.1}");
        assert_eq!((told.start_ns, told.end_ns, told.boot_ns, told.epoch_ns, told.cpus), (900, u64::MAX / 2, 5, 6, 2));
        assert_eq!(told.thread_table, written.thread_table);
        assert_eq!(lost(&told), count / 9 * 3 + if count % 9 == 8 { 3 } else { 0 });
        assert!(file(&told, "{\"a\": 0.1}") == bytes, "written once more it is another");
    }
}

#[test]
fn a_recording_may_be_of_the_largest_machine_and_no_larger() {
    // perf records on more CPUs than BPF does, and such a recording becomes a trace, too.
    let on_last = TraceEvent::new(1_000, (MOST_CPUS - 1) as u16, What::Arrived { tid: 100 });
    let written = Recording { cpus: MOST_CPUS, ..recording(&[on_last]) };
    let (told, _) = again(&file(&written, "")).unwrap();
    assert_eq!((told.cpus, all(&told)), (MOST_CPUS, vec![on_last]));
    let error = again(&file(&Recording { cpus: MOST_CPUS + 1, ..written }, "")).expect_err("no kernel has so many");
    assert!(error.to_string().contains("out of range"), "{error}");
}

#[test]
fn what_came_behind_the_window_is_left_out() {
    let mut written = recording(&trace_events(10));
    written.end_ns = 1_000 + 4 * 700;
    let (told, _) = again(&file(&written, "")).unwrap();
    assert_eq!(all(&told), trace_events(5));
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let bytes = file(&recording(&trace_events(50)), "report");
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
    perfetto::write(&recording(&trace_events(50)), None, &mut bytes).unwrap();
    assert!(matches!(again(&bytes), Err(ReadError::Foreign)));
    assert!(matches!(again(b"perf"), Err(ReadError::NoTrace)));
    assert!(matches!(again(b"PERFILE2 and so on"), Err(ReadError::NoTrace)));
}

/// Parts of a recording that nobody would write, packed as cox packs them.
fn packets(parts: &[(u32, &[u8])]) -> Vec<u8> {
    let field = |tag: u32, bytes: &[u8]| {
        let mut field = Vec::new();
        prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut field);
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        field.extend(bytes);
        field
    };
    let packet = |(tag, plain): &(u32, &[u8])| {
        field(1, &field(15_000, &field(*tag, &zstd::encode_all(*plain, 3).expect("memory is there"))))
    };
    parts.iter().flat_map(packet).collect()
}

#[test]
fn more_events_than_can_have_gone_in_do_not_come_out() {
    // Trace events that all are the same, in parts as long as they may be: a file of some kilobytes would fill a disk.
    let same = vec![0; 24 << 16];
    let error = again(&packets(&[(2, &same[..]); 20])).expect_err("17 parts are too many");
    assert!(error.to_string().contains("impossible number"), "{error}");
    // Those that fit in memory are not counted; only the head is missing here.
    assert!(matches!(again(&packets(&[(2, &same[..]); 16])), Err(ReadError::Foreign)));
}

#[test]
fn events_that_all_came_at_once_are_read_again() {
    // Of a coarse clock many trace events have the same time, or times that differ by one tick: they take no more than some bytes.
    for tick_ns in [0, 1_000_000] {
        let same = |n: u64| TraceEvent::new(1_000 + n * tick_ns, 0, What::Arrived { tid: 100 });
        let trace_events: Vec<TraceEvent> = (0..2 << 20).map(same).collect();
        let mut bytes = Vec::new();
        write(&recording(&trace_events), "", &mut bytes).unwrap();
        let (told, _) = again(&bytes).unwrap();
        assert!(all(&told) == trace_events, "{tick_ns}");
        assert!(bytes.len() < trace_events.len() / 4, "no longer than has to be: {}", bytes.len());
    }
}

#[test]
fn a_head_of_many_that_are_alike_is_read_again() {
    let mut written = recording(&trace_events(5));
    written.thread_table.untracked = (0..4_000).map(|tid| (tid, "a name that all of them have".repeat(200))).collect();
    let (told, _) = again(&file(&written, "")).unwrap();
    assert!(told.thread_table == written.thread_table);
}

#[test]
fn a_head_that_is_longer_than_it_can_be_is_refused() {
    let long = format!("{{\"version\": 1, \"report\": \"{}\"}}", " ".repeat(9 << 20));
    let error = again(&packets(&[(1, long.as_bytes())])).expect_err("nothing but spaces");
    assert!(error.to_string().contains("a part of the file is too long"), "{error}");
}

#[test]
fn a_second_head_is_refused() {
    let bytes = file(&recording(&trace_events(5)), "report");
    let twice = [&bytes[..], &bytes[..]].concat();
    let error = again(&twice).expect_err("two recordings in one file");
    assert!(error.to_string().contains("two headers"), "{error}");
}

/// `make fuzz` has more of them. What is behind the reader, other than traces, is tested with `cox report`.
#[test]
fn damaged_files_are_refused_or_read_and_nothing_else() {
    let (times, first) = (testkit::times(20_000), testkit::seed());
    let whole = file(&recording(&trace_events(40)), "report");
    let (mut read, mut refused) = (0u64, 0u64);
    for seed in first..first + times {
        let mut random = Random::new(seed);
        let mut damaged = whole.clone();
        bytes::change(&mut damaged, &mut random);
        match again(&damaged) {
            Ok((told, _)) => {
                // What was read can be written, whatever it says.
                perfetto::write(&told, None, &mut io::sink()).unwrap();
                let hostile = Provenance { command: vec!["\n#1:2:3\r".into()], ..Provenance::default() };
                let (mut prv, mut pcf, mut row) = (io::sink(), io::sink(), io::sink());
                let mut files = Files { prv: &mut prv, pcf: &mut pcf, row: &mut row };
                paraver::write(&told, None, Some(&hostile), &mut files, &std::env::temp_dir()).unwrap();
                read += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!("{times} from {first}: {read} read, {refused} refused");
    // Both happen, or the damage is too small, or too great, to say anything.
    assert!(read > times / 100 && refused > times / 2, "{read} read, {refused} refused");
}
