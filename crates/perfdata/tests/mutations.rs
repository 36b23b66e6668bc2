//! The reader never panics, hangs or uses much memory: tested on recordings in all forms, changed at random.
//!
//! `make test` runs some thousands of mutations, `make fuzz` ten million. COX_FUZZ_TIMES sets the number, COX_FUZZ_SEED
//! the start. The code behind the reader is tested with `cox report`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Cursor;
use std::time::Duration;

use arch::clock::thread_cpu_ns;
use perfdata::{Format, Threads};
use proptest::prelude::*;
use testkit::memory::{Counting, most, peak_kib};
use testkit::perf::{SCRIPT, compressed, file_mode, pipe_mode, story};
use testkit::{Random, bytes};

#[global_allocator]
static MEMORY: Counting = Counting;

/// Bytes that reading a file of some kilobytes may take.
const MEMORY_BYTES: usize = 4 << 20;

fn originals() -> Vec<Vec<u8>> {
    let story = story();
    vec![
        file_mode(&story),
        pipe_mode(&story),
        pipe_mode(&compressed(&story, 81, 100).unwrap()),
        file_mode(&compressed(&story, 83, 60_000).unwrap()),
        SCRIPT.as_bytes().to_vec(),
    ]
}

/// Reads it all, and makes trace events of it.
fn read(bytes: &[u8], known: &[Format]) -> u64 {
    let (mut threads, mut trace_events) = (Threads::default(), 0);
    let _ = perfdata::read(&mut Cursor::new(bytes), known, |event| {
        threads.take(event, |trace_event| trace_events += u64::from(trace_event.what().is_some()));
        Ok(())
    });
    trace_events
}

fn known() -> Vec<Format> {
    Format::parse("name: sched_switch\nID: 100\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n")
        .into_iter()
        .collect()
}

#[test]
fn originals_have_events() {
    assert!(originals().iter().all(|bytes| read(bytes, &[]) >= 3));
}

#[test]
fn files_that_are_changed_at_random_are_read_or_refused() {
    let (originals, known) = (originals(), known());
    let (times, first) = (testkit::times(20_000), testkit::seed());
    let (mut understood, mut slowest, mut largest) = (0, Duration::ZERO, 0);
    for seed in first..first + times {
        let mut random = Random::new(seed);
        let mut file = originals[random.below(originals.len())].clone();
        bytes::change(&mut file, &mut random);
        // CPU time: a machine that stands still for a while is no fault.
        let begin_ns = thread_cpu_ns();
        let (trace_events, bytes) = most(|| read(&file, &known));
        let took = Duration::from_nanos(thread_cpu_ns() - begin_ns);
        understood += u64::from(trace_events > 0);
        (slowest, largest) = (slowest.max(took), largest.max(bytes));
        assert!(took < Duration::from_secs(20), "seed {seed} takes long");
        assert!(bytes < MEMORY_BYTES, "seed {seed} takes {bytes} bytes");
    }
    println!(
        "{times} from {first}: {understood} had events in them, the slowest took {slowest:?}, the largest {largest} bytes"
    );
    // A mutation that leaves nothing to read tests nothing behind the first check.
    assert!(understood > times / 4, "{understood} of {times}");
    // With what the decompressor takes.
    let peak_kib = peak_kib();
    println!("peak memory {peak_kib} KiB");
    assert!(peak_kib < 512 << 10, "{peak_kib} KiB");
}

proptest! {
    #[test]
    fn any_bytes_behind_a_head(bytes in prop::collection::vec(any::<u8>(), 0..600), form in 0usize..4) {
        let mut whole = originals().swap_remove(form);
        whole.truncate(104);
        whole.extend(bytes);
        read(&whole, &known());
    }

    #[test]
    fn any_text(text in "([ -~]{0,40}\\[[0-9]{1,3}\\] [0-9]{1,6}\\.[0-9]{6}: sched:sched_(switch|waking|migrate_task): [ -~]{0,80}\n){1,5}") {
        read(text.as_bytes(), &[]);
    }
}
