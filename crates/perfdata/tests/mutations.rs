//! No file makes the reader panic, hang or take much memory: recordings in all forms, changed at random.
//!
//! `make test` runs some thousands. All of them:
//! `cargo test --release -p perfdata --test mutations -- --ignored --nocapture`; COX_FUZZ_ROUNDS says how many, COX_FUZZ_SEED where to begin.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io::Cursor;
use std::time::{Duration, Instant};

use common::{compressed, file_mode, pipe_mode, story};
use perfdata::{Crew, Format};
use proptest::prelude::*;

const TEXT: &str = "\
    perf 17772 [000] 61240.175844:       sched:sched_waking: comm=migration/0 pid=18 prio=0 target_cpu=000
    perf 17772/17773 [000] 61240.175849: sched:sched_switch: prev_comm=perf prev_pid=17772 prev_prio=120 prev_state=D ==> next_comm=a b next_pid=18 next_prio=0
    a b    18 [001] 61240.175870: sched:sched_switch: a b:18 [120] S ==> swapper/1:0 [120]
    a b    18 [001] 61240.175871: PERF_RECORD_FORK(17:18):(15:16)
    a b    18 [001] 61240.175872: sched:sched_stat_runtime: comm=a b pid=18 runtime=906914 [ns]
    a b    18 [001] 61240.175873: sched:sched_migrate_task: comm=a b pid=18 prio=120 orig_cpu=0 dest_cpu=1
";

fn originals() -> Vec<Vec<u8>> {
    let story = story();
    vec![
        file_mode(&story),
        pipe_mode(&story),
        pipe_mode(&compressed(&story, 81, 100)),
        file_mode(&compressed(&story, 83, 60_000)),
        TEXT.as_bytes().to_vec(),
    ]
}

/// splitmix64: a state that counts, and its bits stirred.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Numbers at which lengths go wrong.
const NUMBERS: [u64; 12] =
    [0, 1, 7, 8, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX - 7, u64::MAX];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        let length = 1 + random.below(64).min(bytes.len() - at.min(bytes.len()));
        let end = (at + length).min(bytes.len());
        match random.below(7) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next() as u8),
            2 | 3 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = [2, 4, 8][random.below(3)];
                bytes.iter_mut().skip(at).zip(&number[..width]).for_each(|(byte, new)| *byte = *new);
            }
            4 => bytes.truncate(at),
            5 => {
                let copied = bytes[at.min(end)..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copied);
            }
            _ => {
                bytes.drain(at.min(end)..end);
            }
        }
    }
}

/// Reads it all, and makes moments of it.
fn read(bytes: &[u8], known: &[Format]) -> u64 {
    let (mut crew, mut moments) = (Crew::new(), 0);
    let _ = perfdata::read(&mut Cursor::new(bytes), known, |event| {
        crew.take(event, |moment| moments += u64::from(moment.what().is_some()));
        Ok(())
    });
    moments
}

fn known() -> Vec<Format> {
    Format::parse("name: sched_switch\nID: 100\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n")
        .into_iter()
        .collect()
}

fn rounds(from: u64, count: u64) {
    let (originals, known) = (originals(), known());
    let (mut understood, mut slowest) = (0, Duration::ZERO);
    for seed in from..from + count {
        let mut random = Random(seed);
        let mut bytes = originals[random.below(originals.len())].clone();
        mutate(&mut bytes, &mut random);
        let begin = Instant::now();
        understood += u64::from(read(&bytes, &known) > 0);
        slowest = slowest.max(begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(20), "seed {seed} takes long");
    }
    println!("{count} from {from}: {understood} had events in them, the slowest took {slowest:?}");
    // A mutation that leaves nothing to read tests nothing behind the first check.
    assert!(understood > count / 4, "{understood} of {count}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("peak memory {peak_kib} KiB");
    assert!(peak_kib < 512 << 10, "{peak_kib} KiB");
}

#[test]
fn originals_have_events() {
    assert!(originals().iter().all(|bytes| read(bytes, &[]) >= 3));
}

#[test]
fn some_thousands() {
    rounds(0, 20_000);
}

#[test]
#[ignore = "takes minutes"]
fn ten_millions() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    rounds(number("COX_FUZZ_SEED", 1 << 32), number("COX_FUZZ_ROUNDS", 10_000_000));
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
