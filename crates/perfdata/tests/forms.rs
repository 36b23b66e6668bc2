//! The same recording in each form that perf writes: each form yields the same events, in order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Cursor;

use perfdata::{Ending, Error, Event, Format, Kind};
use testkit::perf::{
    TIMES, compressed, file_mode, fork, lost, lost_samples, named, pipe_mode, record, sample, story, switch,
    tracing_data,
};

fn read_with(bytes: &[u8], known: &[Format]) -> Result<(Ending, Vec<Event>), Error> {
    let mut events = Vec::new();
    let ending = perfdata::read(&mut Cursor::new(bytes), known, |event| {
        events.push(*event);
        Ok(())
    })?;
    Ok((ending, events))
}

fn read(bytes: &[u8]) -> Result<(Ending, Vec<Event>), Error> {
    read_with(bytes, &[])
}

fn times(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.t_ns).collect()
}

#[test]
fn all_forms_tell_the_same() {
    let plain = read(&file_mode(&story())).unwrap();
    assert_eq!(times(&plain.1), TIMES);
    assert_eq!((plain.0.cut, plain.0.lost, plain.0.late, plain.0.skipped), (None, 3, 0, 1));
    assert_eq!((plain.0.switches, plain.0.wakings), (6, 1));
    assert_eq!(plain.0.about.command, ["perf"]);
    let kinds = |which: fn(&Kind) -> bool| plain.1.iter().filter(|event| which(&event.kind)).count();
    assert_eq!(kinds(|kind| matches!(kind, Kind::Switch { .. })), 6);
    assert_eq!(kinds(|kind| matches!(kind, Kind::Migration { tid: 11, from: 0, to: 1 })), 1);
    assert_eq!(kinds(|kind| matches!(kind, Kind::Ran { tid: 10, run_ns: 200 })), 1);
    assert_eq!(
        kinds(|kind| matches!(kind, Kind::Forked { parent: 10, child: 12, comm } if comm.starts_with(b"kid\0"))),
        1
    );
    assert_eq!(kinds(|kind| matches!(kind, Kind::Comm { exec: true, tid: 12, .. })), 1);
    assert_eq!(read(&pipe_mode(&story())).unwrap().1, plain.1);
    for kind in [81, 83] {
        // Also where records inside are cut in their heads.
        for piece in [7, 8, 64, 60_000] {
            let packed = compressed(&story(), kind, piece).unwrap();
            assert_eq!(read(&file_mode(&packed)).unwrap().1, plain.1, "{kind} {piece}");
            assert_eq!(read(&pipe_mode(&packed)).unwrap().1, plain.1, "{kind} {piece}");
        }
    }
}

#[test]
fn a_loss_is_counted_once_whoever_tells_it() {
    // The story has a record of the kernel's of 3. perf's own, at the end, are by event and CPU.
    for (samples, by_filter, lost) in
        [(&[][..], 0, 3), (&[1, 1], 0, 3), (&[1, 2], 0, 3), (&[2, 2], 0, 4), (&[], 100, 3)]
    {
        let mut records = story();
        records.extend(samples.iter().map(|count| lost_samples(*count, 0)));
        records.push(lost_samples(by_filter, 1 << 15));
        let (ending, events) = read(&file_mode(&records)).unwrap();
        assert_eq!(ending.lost, lost, "{samples:?} {by_filter}");
        // They have no time, and are none of what happened.
        assert_eq!(times(&events), TIMES);
    }
}

/// Reads from one end to the other, as a pipe does.
struct Pipe<'b>(Cursor<&'b [u8]>);

impl std::io::Read for Pipe<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(bytes)
    }
}

impl std::io::Seek for Pipe<'_> {
    fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
        Err(std::io::ErrorKind::NotSeekable.into())
    }
}

#[test]
fn a_pipe_brings_all_forms_but_the_one_for_files() {
    let read = |bytes: &[u8]| {
        let mut pipe = std::io::BufReader::new(Pipe(Cursor::new(bytes)));
        perfdata::read(&mut pipe, &[], |_| Ok(())).map(|ending| ending.events)
    };
    assert_eq!(read(&pipe_mode(&story())).unwrap(), 10);
    assert_eq!(read(b"x 5 [0] 1.000000: sched:sched_waking: comm=y pid=9 prio=120 target_cpu=000\n").unwrap(), 1);
    assert!(matches!(read(&file_mode(&story())), Err(Error::NotSeekable)));
}

#[test]
fn much_may_come_out_of_a_compressed_record() {
    let many: Vec<Vec<u8>> = (1..=20_000).map(|t_ns| switch(t_ns, 0, 1, 1, 2)).collect();
    let (ending, events) = read(&pipe_mode(&compressed(&many, 81, 60_000).unwrap())).unwrap();
    assert_eq!((ending.cut, events.len()), (None, many.len()));
}

#[test]
fn a_pipe_that_was_cut_is_read_up_to_there() {
    let whole = pipe_mode(&story());
    let head = whole.len() - story().concat().len();
    for length in 0..whole.len() {
        match read(&whole[..length]) {
            Ok((ending, events)) => {
                assert!(times(&events).iter().all(|t_ns| TIMES.contains(t_ns)));
                let at_bytes = ending.cut.map_or(length as u64, |cut| cut.at_bytes);
                assert!(at_bytes <= length as u64 && length > head, "{length} {ending:?}");
            }
            Err(Error::Damaged(_) | Error::NoEvents | Error::Foreign) => {}
            Err(error) => panic!("{length}: {error}"),
        }
    }
    let (ending, events) = read(&whole[..whole.len() - 12]).unwrap();
    let cut = ending.cut.unwrap();
    assert_eq!((cut.why, events.len()), ("the file ends here", TIMES.len() - 1));
    // The last switch has 8 + 48 + 4 + 68 bytes, and padding.
    assert!((whole.len() as u64 - 12 - cut.at_bytes) < 200, "{cut:?}");
}

#[test]
fn a_file_that_was_cut_has_no_layouts_and_borrows_them() {
    let whole = file_mode(&story());
    let features = whole.len() - tracing_data().len() - 16 - 32;
    let cut = &whole[..features - 150];
    assert!(matches!(read(cut), Err(Error::NoFormats)));
    let text = String::from_utf8_lossy(&tracing_data()).into_owned();
    let starts: Vec<usize> = text.match_indices("name: ").map(|(at, _)| at).chain([text.len()]).collect();
    let known: Vec<Format> = starts.windows(2).filter_map(|pair| Format::parse(&text[pair[0]..pair[1]])).collect();
    // The first two are of other systems.
    let (ending, events) = read_with(cut, &known[2..]).unwrap();
    assert!(ending.borrowed_formats && ending.cut.is_some(), "{ending:?}");
    assert!(events.len() >= 10, "{}", events.len());
    // Ended by SIGKILL: sizes were not filled in.
    let mut unfinished = whole[..features].to_vec();
    unfinished[48..56].fill(0);
    let (ending, events) = read_with(&unfinished, &known[2..]).unwrap();
    assert!(ending.cut.is_some());
    assert_eq!(times(&events), TIMES);
}

#[test]
fn what_cannot_be_read_says_why() {
    let mut other = file_mode(&story());
    other[..8].reverse();
    assert!(matches!(read(&other), Err(Error::OtherEndian)));
    assert!(matches!(read(b"PERFILE2"), Err(Error::Damaged(_))));
    assert!(matches!(read(b"\x7fELF and so on"), Err(Error::Foreign)));
    assert!(matches!(read(&file_mode(&[])), Err(Error::NoEvents | Error::NoFormats | Error::Damaged(_))));
    assert!(matches!(read(&pipe_mode(&[record(10, 0, &[0; 64])])), Err(Error::NoEvents)));
    let nested = compressed(&compressed(&story(), 81, 60_000).unwrap(), 81, 60_000).unwrap();
    assert!(matches!(read(&pipe_mode(&nested)), Err(Error::Damaged(_))));
}

#[test]
fn lengths_that_are_wrong_end_the_reading() {
    for (size, why) in
        [(0u16, "a record's length is wrong"), (7, "a record's length is wrong"), (u16::MAX, "the file ends here")]
    {
        let mut records = story();
        let last = records.len() - 2;
        records[last][6..8].copy_from_slice(&size.to_le_bytes());
        let (ending, events) = read(&pipe_mode(&records)).unwrap();
        assert_eq!((ending.cut.map(|cut| cut.why), events.len()), (Some(why), TIMES.len() - 1), "{size}");
    }
}

#[test]
fn more_than_can_have_been_packed_does_not_come_out() {
    let empty = record(10, 0, &[0; 60_000]);
    let some = |count: usize| [story(), vec![empty.clone(); count]].concat();
    // 120 MB from some kilobytes.
    let (ending, events) = read(&pipe_mode(&compressed(&some(2000), 81, 60_000).unwrap())).unwrap();
    assert!(!events.is_empty(), "those before are read");
    assert!(ending.cut.is_some_and(|cut| cut.why.contains("impossible size")), "{:?}", ending.cut);
    // Nothing is said of what fits in memory.
    let (ending, events) = read(&pipe_mode(&compressed(&some(800), 81, 60_000).unwrap())).unwrap();
    assert_eq!((ending.cut, events.is_empty()), (None, false));
}

/// A record with so many bytes behind it.
fn with_stack(mut record: Vec<u8>, bytes: usize) -> Vec<u8> {
    let stack = (0u64..).flat_map(|word| (((word % 97) << 40) | 0x7fff).to_le_bytes());
    record.extend(stack.take(bytes));
    let size = record.len() as u16;
    record[6..8].copy_from_slice(&size.to_le_bytes());
    record
}

#[test]
fn copies_of_stacks_that_are_alike_may_come_out_by_the_thousand() {
    let many: Vec<Vec<u8>> = (1..=3000).map(|n| with_stack(switch(n * 1000, 0, 1, 1, 2), 32_000)).collect();
    let packed = compressed(&many, 81, 60_000).unwrap();
    let (plain, inside) = (many.concat().len(), packed.concat().len());
    assert!(plain > (64 << 20) + 256 * inside, "{plain} of {inside}: without stacks that would be too much");
    let (ending, events) = read(&pipe_mode(&packed)).unwrap();
    assert_eq!((ending.cut, events.len()), (None, many.len()));
}

#[test]
fn more_samples_than_bytes_do_not_come_out() {
    // What counts of each is the same with and without a stack.
    for stack in [0, 600] {
        let same = with_stack(record(9, 0, &[0; 248]), stack);
        let some = |count: usize| [story(), vec![same.clone(); count]].concat();
        let cut = |count: usize| {
            let (ending, events) = read(&pipe_mode(&compressed(&some(count), 81, 60_000).unwrap())).unwrap();
            assert!(!events.is_empty(), "those before are read");
            ending.cut.map(|cut| cut.why)
        };
        let free = (64 << 20) / 256;
        assert_eq!(cut(free - 100), None, "{stack}");
        assert_eq!(cut(free + 40_000), Some("its compressed records expand to an impossible size"), "{stack}");
    }
}

#[test]
fn what_no_kernel_or_clock_has_is_skipped() {
    let of = |t_ns: u64, cpu: u32| {
        let (ending, _) = read(&pipe_mode(&[switch(1000, 0, 0, 0, 10), switch(t_ns, cpu, 0, 0, 20)])).unwrap();
        (ending.events, ending.skipped)
    };
    assert_eq!([of(1100, 8190), of(1100, 8192)], [(2, 0), (1, 1)]);
    assert_eq!([of(u64::MAX / 2, 0), of(u64::MAX / 2 + 1, 0)], [(2, 0), (1, 1)]);
}

/// A record with another CPU in its stamp, which ends 16 bytes before it does.
fn on(mut record: Vec<u8>, cpu: u32) -> Vec<u8> {
    let at = record.len() - 16;
    record[at..at + 4].copy_from_slice(&cpu.to_le_bytes());
    record
}

#[test]
fn records_that_are_no_samples_are_of_cpus_that_there_are_too() {
    for t_ns in [0, 1100] {
        let made = fork(t_ns, [7, 5, 8, 6]);
        for record in [made.clone(), named(t_ns, 7, 8, "x", true), lost(t_ns, 3)] {
            let told = |cpu| {
                let records = [switch(1000, 0, 0, 0, 10), on(record.clone(), cpu)];
                let (ending, events) = read(&pipe_mode(&records)).unwrap();
                (
                    events.iter().filter(|event| !event.kind.is_of_scheduler()).map(|event| event.cpu).collect(),
                    ending.skipped,
                )
            };
            assert_eq!([told(8191), told(8192)], [(vec![8191], 0), (vec![], 1)], "{t_ns} {record:?}");
        }
    }
    // perf says of neither: it was there.
    let there = on(fork(u64::MAX, [7, 5, 8, 6]), u32::MAX);
    let (ending, events) = read(&pipe_mode(&[switch(1000, 0, 0, 0, 10), there])).unwrap();
    assert_eq!((ending.skipped, events[0].t_ns, events[0].cpu), (0, 0, 0));
}

#[test]
fn a_migration_is_between_cpus_that_there_are() {
    let told = |from: u32, to: u32| {
        let mut fields = (3u32 << 16 | 28).to_le_bytes().to_vec();
        fields.extend([11, from, to, 0].iter().flat_map(|number| number.to_le_bytes()));
        fields.extend(b"x\0\0\0");
        let records = [switch(1000, 0, 0, 0, 10), sample(3, 1450, 0, 11, &fields)];
        let (ending, _) = read(&pipe_mode(&records)).unwrap();
        let line = |from, to| {
            format!(
                " a 1 [000] 1.000000: sched:sched_migrate_task: comm=a pid=18 prio=120 orig_cpu={from} dest_cpu={to}\n"
            )
        };
        let (text, _) = read((line(0, 1) + &line(from, to)).as_bytes()).unwrap();
        [(ending.events, ending.skipped), (text.events, text.skipped)]
    };
    assert_eq!(told(8191, 8191), [(2, 0); 2]);
    for (from, to) in [(8192, 1), (1, 8192), (1, u32::MAX)] {
        assert_eq!(told(from, to), [(1, 1); 2], "{from} {to}");
    }
}
