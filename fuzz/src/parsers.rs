//! The parsers, and for each of them some valid inputs.

use std::fs::{self, File};
use std::io::{self, Cursor, Seek, Write};
use std::path::Path;
use std::sync::OnceLock;

use arch::frame::UNWOUND;
use arch::wait_loop::{Callee, WaitLoops};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use broker::protocol::{self, Request};
use machine::process::Task;
use machine::{CpuSet, Root};
use perfdata::Threads;
use symbols::elf::{Dynamic, Image, UnwindTable};
use tempfile::TempDir;
use testkit::perf::{SCRIPT, compressed, file_mode, pipe_mode, story};
use trace::hlog::Log;
use trace::paraver::Files;
use trace::recording::Thread;
use trace::sorter::Sorter;
use trace::{Recording, ThreadTable};

/// A parser.
pub struct Parser {
    /// Name of the parser, as in `COX_FUZZ_PARSER`.
    pub name: &'static str,
    /// Reads an input. A panic, a hang or gigabytes of memory are faults; any result is right.
    pub read: fn(&[u8]),
    /// Returns valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All parsers. The Makefile's `PARSERS` has the same names.
pub const PARSERS: &[Parser] = &[
    Parser { name: "perf", read: perf, seeds: perf_seeds },
    Parser { name: "session", read: session, seeds: session_seeds },
    Parser { name: "broker", read: broker, seeds: broker_seeds },
    Parser { name: "journal", read: journal, seeds: journal_seeds },
    Parser { name: "report", read: report, seeds: report_seeds },
    Parser { name: "elf", read: elf, seeds: elf_seeds },
    Parser { name: "code", read: code, seeds: code_seeds },
    Parser { name: "proc", read: proc, seeds: proc_seeds },
    Parser { name: "netgauge", read: netgauge, seeds: netgauge_seeds },
    Parser { name: "hlog", read: hlog, seeds: hlog_seeds },
];

/// Reads perf's files in all modes, and the text of `perf script`.
fn perf(input: &[u8]) {
    let mut threads = Threads::default();
    let _ = perfdata::read(&mut Cursor::new(input), &[], |event| {
        threads.take(event, |_| {});
        Ok(())
    });
}

fn perf_seeds() -> Vec<Vec<u8>> {
    let story = story();
    vec![
        file_mode(&story),
        pipe_mode(&story),
        pipe_mode(&compressed(&story, 81, 100).unwrap()),
        file_mode(&compressed(&story, 83, 60_000).unwrap()),
        SCRIPT.as_bytes().to_vec(),
    ]
}

/// Reads the recording in a trace file, and writes it as Perfetto and Paraver files.
fn session(input: &[u8]) {
    let folder = Path::new("/dev/shm");
    let Ok((recording, _)) = trace::session::read(&mut &input[..], folder) else { return };
    trace::perfetto::write(&recording, None, &mut io::sink()).unwrap();
    let (mut prv, mut pcf, mut row) = (io::sink(), io::sink(), io::sink());
    let mut files = Files { prv: &mut prv, pcf: &mut pcf, row: &mut row };
    trace::paraver::write(&recording, None, None, &mut files, folder).unwrap();
}

fn session_seeds() -> Vec<Vec<u8>> {
    let file = |count| {
        let mut sorter = Sorter::new(&std::env::temp_dir()).unwrap();
        testkit::trace_events::some(count, 100).into_iter().for_each(|trace_event| sorter.push(trace_event).unwrap());
        let mut thread_table = ThreadTable::default();
        thread_table.threads.insert(100, Thread { name: "heat".into(), process: 100 });
        let recording = Recording {
            start_ns: 900,
            end_ns: 1 << 40,
            boot_ns: 5,
            epoch_ns: 6,
            cpus: 2,
            thread_table,
            waits: Vec::new(),
            trace_events: sorter.sorted().unwrap(),
        };
        let mut bytes = Vec::new();
        trace::perfetto::write(&recording, None, &mut bytes).unwrap();
        trace::session::write(&recording, "{}", &mut bytes).unwrap();
        bytes
    };
    [5, 40].map(file).to_vec()
}

/// Decodes messages between cox and cox-observe.
fn broker(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(request.encode(), input, "a request has one encoding");
    }
    if let Ok(reply) = protocol::decode_reply(input) {
        assert_eq!(reply.encode(), input, "an answer has one encoding");
    }
}

fn broker_seeds() -> Vec<Vec<u8>> {
    // Kind, zero, length of the body, body.
    let message = |kind: u16, body: u32| {
        [&kind.to_ne_bytes()[..], &[0; 2], &body.to_ne_bytes(), &vec![0; body as usize]].concat()
    };
    let kinds = (0..32).chain(0x100..0x104).chain([0x201, 0x300]);
    kinds.flat_map(|kind| [0, 4, 8, 16].map(|body| message(kind, body))).collect()
}

/// Reads a session's journal, in this format and in earlier ones.
fn journal(input: &[u8]) {
    for id in [None, Some(7)] {
        let _ = changes::reading::read(input, &changes::Name { pid: 42, id });
    }
}

fn journal_seeds() -> Vec<Vec<u8>> {
    files_in("../crates/changes/tests/journals")
}

/// Reads a report in JSON, of any version.
fn report(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = report::Document::read(text);
    }
}

fn report_seeds() -> Vec<Vec<u8>> {
    files_in("../crates/report/tests/reports")
}

/// Reads a program or library: names of functions, unwinding tables, machine code.
fn elf(input: &[u8]) {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    file.write_all(input).unwrap();
    let _ = Dynamic::read(file.path());
    let mut opened: File = file.reopen().unwrap();
    opened.rewind().unwrap();
    if let Ok(table) = UnwindTable::open(&opened) {
        for address in (0..input.len() as u64).step_by(input.len() / 16 + 1) {
            let _ = table.caller(address, &[address; UNWOUND], &|at| Some(at ^ address));
        }
    }
    let Ok(image) = Image::open(opened, file.path(), &Root::at("/nonexistent")) else { return };
    // Few addresses, because libFuzzer needs thousands of inputs per second.
    for offset in (0..input.len() as u64).step_by(input.len() / 16 + 1) {
        let Some(address) = image.address(offset) else { continue };
        if let Some(function) = image.function_at(address) {
            let _ = (image.code(&function), image.wait_loops(&function));
        }
    }
}

fn elf_seeds() -> Vec<Vec<u8>> {
    vec![fs::read("/bin/true").unwrap()]
}

/// Judges machine code: which loops only wait.
fn code(input: &[u8]) {
    let loops = WaitLoops::find(input, 0x1000, &|_| Callee::Other);
    for ip in 0..input.len() as u64 {
        let _ = loops.verdict(0x1000 + ip);
    }
}

fn code_seeds() -> Vec<Vec<u8>> {
    // pause; cmp [rdi], eax; jne; ret. The second loop has a call in place of pause.
    vec![b"\xf3\x90\x39\x07\x75\xfa\xc3".to_vec(), b"\xe8\x00\x00\x00\x00\x39\x07\x75\xf7\xc3".to_vec()]
}

/// Reads files of /proc, each of which has the whole input, and parses the input as a CPU list.
fn proc(input: &[u8]) {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::create_dir_all(folder.path().join("proc/1/task/1")).unwrap();
        folder
    });
    for name in ["stat", "status", "schedstat", "cmdline", "environ", "maps", "cgroup"] {
        fs::write(folder.path().join("proc/1").join(name), input).unwrap();
    }
    let task = Task::process(&Root::at(folder.path()), 1);
    let _ = (task.stat(), task.status(), task.switches(), task.schedstat(), task.cmdline());
    let _ = (task.maps(), task.cgroups(), task.environment().map(|environment| environment.variable("A")));
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(cpus) = text.parse::<CpuSet>()
    {
        assert_eq!(cpus.to_string().parse::<CpuSet>().unwrap(), cpus);
    }
}

fn proc_seeds() -> Vec<Vec<u8>> {
    let names = ["stat", "status", "schedstat", "cmdline", "maps", "cgroup"];
    let own = names.iter().filter_map(|name| fs::read(format!("/proc/self/{name}")).ok());
    own.chain([b"0-3,8,10-11".to_vec()]).collect()
}

/// Reads a noise trace. What is written from it is read as the same.
fn netgauge(input: &[u8]) {
    let Ok(trace) = trace::netgauge::read(input) else { return };
    let mut bytes = Vec::new();
    trace::netgauge::write(&mut bytes, trace.detours.iter().copied(), &trace.facts).unwrap();
    match trace::netgauge::read(&bytes[..]) {
        Ok(again) => assert_eq!(again.detours, trace.detours),
        // All detours were shorter than a nanosecond.
        Err(_) => assert!(trace.detours.is_empty() && trace.facts.period_ns.is_none()),
    }
}

fn netgauge_seeds() -> Vec<Vec<u8>> {
    let names = ["netgauge.txt", "cox.netgauge.txt"];
    names.map(|name| fs::read(format!("{TRACES}/{name}")).unwrap()).to_vec()
}

/// Reads an interval log, and reads the input as the histogram of an interval. What is written from them is read as the same.
fn hlog(input: &[u8]) {
    let line = format!("0.000,1.000,0.000,{}", BASE64.encode(input));
    for mut log in [input, line.as_bytes()].into_iter().flat_map(trace::hlog::read) {
        log.intervals.sort_by_key(|interval| interval.start_ms);
        let written = |log: &Log| {
            let mut bytes = Vec::new();
            trace::hlog::write(&mut bytes, &log.head, &log.intervals).ok().map(|()| bytes)
        };
        // Durations of more than 2^63 ns cannot be written, and the first time they are rounded to three digits.
        let Some(bytes) = written(&log) else { continue };
        let rounded = trace::hlog::read(&bytes[..]).unwrap();
        assert_eq!(rounded.intervals.len(), log.intervals.len());
        assert_eq!(trace::hlog::read(&written(&rounded).unwrap()[..]).unwrap(), rounded);
    }
}

fn hlog_seeds() -> Vec<Vec<u8>> {
    let logs = ["jhiccup.hlog", "cox.hlog"].map(|name| fs::read(format!("{TRACES}/{name}")).unwrap());
    // An uncompressed histogram, which libFuzzer can change: cookie, length of the counts, 0, digits, lowest and highest value, 1.0, counts.
    let numbers = [0x1c84_9313u32, 6, 0, 3].iter().flat_map(|number| number.to_be_bytes());
    let histogram = numbers.chain(1u64.to_be_bytes()).chain((1u64 << 40).to_be_bytes()).chain(1f64.to_be_bytes());
    logs.into_iter().chain([histogram.chain([2, 7, 0, 4, 0x80, 1]).collect()]).collect()
}

/// Folder of the stored noise traces.
const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/trace/tests/data");

/// Returns the contents of the files in a folder. The path is relative to this package.
fn files_in(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}
