//! Fuzz test of `cox report`: no file makes it panic, hang or use much memory, whichever outputs are requested. The inputs are recordings of all
//! kinds, changed at random.
//!
//! The tests of `perfdata` and `trace` change bytes, and the decoders reject most of those inputs. Here most changes are made before encoding. They
//! change perf's records, trace events, the start and end of the observed time, and the numbers of the report that cox stores in its traces. The
//! decoders accept such inputs and pass absurd times, ids, CPUs and counts, in any order, to the rest of the code.
//!
//! `make test` runs several hundred inputs of each kind, `make fuzz` ten million. COX_FUZZ_TIMES sets the number, COX_FUZZ_SEED the first seed.

mod files;

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use arch::clock::thread_cpu_ns;
use testkit::Random;
use testkit::memory::{Counting, most};

use crate::cli;
use crate::recordings::Around;
use crate::verbs::report::{mode, report_on};

#[global_allocator]
static MEMORY: Counting = Counting;

/// Largest number of bytes of memory that a report on a file of some kilobytes may use.
const MEMORY_BYTES: usize = 16 << 20;

/// An HTML page is written only for one input in `PAGES`: drawing takes most of the time, and the other outputs contain most of the page's figures.
const PAGES: u64 = 16;

/// The commands of `cox report` that are tested on each input. Together they request every output. All output is discarded.
struct Wanted {
    /// Options of these commands, in this order: (0) all traces and an HTML page; (1) all traces; (2) no traces, so that no trace events are kept;
    /// (from 3 on) the figures that perf computes itself.
    all: Vec<cli::Report>,
    _folder: tempfile::TempDir,
}

/// Returns the options for a text report to `output`, without any other output.
pub fn plain(output: &Path) -> cli::Report {
    cli::Report {
        file: "recording".into(),
        json: None,
        traces: cli::Traces { trace: None, paraver: None, html: None },
        threads: false,
        latency: false,
        output: Some(output.into()),
        quiet: false,
        timehist: false,
        summary: false,
        kuhn2022: false,
        of: Vec::new(),
        rule: cli::Rule::Perf61,
    }
}

impl Wanted {
    fn new() -> Wanted {
        let folder = tempfile::tempdir().unwrap();
        for ending in ["prv", "pcf", "row"] {
            std::os::unix::fs::symlink("/dev/null", folder.path().join(format!("t.{ending}"))).unwrap();
        }
        let null = || Some("/dev/null".into());
        let plain = || plain(Path::new("/dev/null"));
        let traces = |html| cli::Traces { trace: null(), paraver: Some(folder.path().join("t")), html };
        let newer = || cli::Report { rule: cli::Rule::Newer, ..plain() };
        let all = vec![
            cli::Report { json: null(), traces: traces(null()), threads: true, latency: true, ..plain() },
            cli::Report { json: null(), traces: traces(None), threads: true, ..plain() },
            plain(),
            cli::Report { timehist: true, ..plain() },
            cli::Report { timehist: true, summary: true, ..newer() },
            cli::Report { kuhn2022: true, of: vec!["heat".to_owned()], ..newer() },
        ];
        Wanted { all, _folder: folder }
    }

    /// Runs the commands on an input. Returns whether the recording could be read.
    fn report_on(&self, seed: u64, file: &[u8], around: &Around<'_>) -> bool {
        // Command 0 has all outputs of command 1, and a page. So each input is given to only one of the two.
        let (with_page, others) = (&self.all[0], &self.all[2..]);
        let first = if seed.is_multiple_of(PAGES) { with_page } else { &self.all[1] };
        let is_read = report_on(first, Cursor::new(file), around).is_ok();
        others.iter().for_each(|wanted| drop(report_on(wanted, Cursor::new(file), around)));
        is_read
    }
}

/// Runs the commands on every file that `make` returns.
fn report_on_all(name: &str, few: u64, make: impl Fn(&mut Random) -> Vec<u8>) {
    let wanted = Wanted::new();
    let known = files::known();
    let around = Around { known: &|| known.clone(), say: &|_| {} };
    let (times, first) = (testkit::times(few), testkit::seed());
    let (mut read, mut slowest, mut largest) = (0, (Duration::ZERO, 0), (0, 0));
    let began = Instant::now();
    for seed in first..first + times {
        let file = make(&mut Random::new(seed));
        // Measure CPU time: a pause of the whole machine must not count.
        let begin_ns = thread_cpu_ns();
        let told = SeedOnPanic { name, seed };
        let (is_read, bytes) = most(|| wanted.report_on(seed, &file, &around));
        std::mem::forget(told);
        let took = Duration::from_nanos(thread_cpu_ns() - begin_ns);
        read += u64::from(is_read);
        (slowest, largest) = (slowest.max((took, seed)), largest.max((bytes, seed)));
        assert!(took < Duration::from_secs(20), "{name}: seed {seed} takes too long");
        assert!(bytes < MEMORY_BYTES, "{name}: seed {seed} needs {bytes} bytes of memory");
    }
    println!(
        "{name}: {times} inputs from seed {first}, {read} of them readable, {:.0} inputs per second",
        times as f64 / began.elapsed().as_secs_f64()
    );
    println!("{name}: longest time {slowest:?}, most memory {largest:?} bytes, each with its seed");
    // If too few inputs can be read, the changes only test the first checks of the decoders.
    assert!(read > times / 4 && read < times, "{name}: {read} of {times} inputs could be read");
}

/// Prints the seed of the input if a panic occurs.
struct SeedOnPanic<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for SeedOnPanic<'_> {
    fn drop(&mut self) {
        eprintln!("{}: the input was that of COX_FUZZ_SEED={}", self.name, self.seed);
    }
}

#[test]
fn originals_are_read() {
    let wanted = Wanted::new();
    // Only this message is allowed: the first command asks for latency quantiles, which a trace of cox has only if it was made with --latency.
    let say = |diagnostic: &str| assert!(diagnostic.starts_with("the trace has no latency quantiles"), "{diagnostic}");
    let around = Around { known: &Vec::new, say: &say };
    for (at, file) in files::originals().iter().enumerate() {
        for wanted in &wanted.all {
            let is_of_perf = file.first() != Some(&trace::session::FIRST_BYTE);
            let done = report_on(wanted, Cursor::new(&file[..]), &around);
            if is_of_perf || mode(wanted).is_none() {
                done.unwrap_or_else(|error| panic!("{at}: {error:#}"));
            }
        }
    }
}

#[test]
fn recordings_of_perfs_that_are_changed() {
    report_on_all("perf.data", 500, files::perf);
}

#[test]
fn text_of_perf_script_that_is_changed() {
    report_on_all("script", 500, files::script);
}

#[test]
fn recordings_of_coxs_that_are_changed() {
    let sessions = files::Sessions::new();
    report_on_all("session", 500, |random| sessions.changed(random));
}
