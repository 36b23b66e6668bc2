//! Recordings for the fuzz test, changed at random before and after they are encoded.

use ledger::co_run::{CoRun, Idle, Phase, Waited};
use perfdata::Format;
use report::Document;
use report::overlap::{Noticed, OverlapCounts, OverlapReport};
use testkit::perf::{SCRIPT, change, compressed, file_mode, pipe_mode, story};
use testkit::{Random, bytes, text, trace_events};
use trace::recording::{Process, Thread};
use trace::sorter::Sorter;
use trace::{Recording, ThreadTable, session};

#[path = "../../../report/tests/sample/mod.rs"]
mod sample;

/// Returns the event formats of a machine that has only one kind of event.
pub fn known() -> Vec<Format> {
    let text = "name: sched_switch\nID: 100\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n";
    Format::parse(text).into_iter().collect()
}

/// Returns one unchanged recording of each kind.
pub fn originals() -> Vec<Vec<u8>> {
    // Leaves out the records of lost events: cox reports these, but the test of unchanged recordings expects no message.
    let quiet: Vec<Vec<u8>> = story().into_iter().filter(|record| record[0] != 2).collect();
    let mut all: Vec<Vec<u8>> = (0..4).map(|form| encoded(&quiet, form)).collect();
    all.push(SCRIPT.into());
    let sessions = Sessions::new();
    all.extend((0..sessions.documents.len()).map(|at| sessions.original(at).encoded()));
    all
}

fn encoded(records: &[Vec<u8>], form: usize) -> Vec<u8> {
    match form {
        0 => file_mode(records),
        1 => pipe_mode(records),
        2 => pipe_mode(&compressed(records, 81, 100).unwrap()),
        _ => file_mode(&compressed(records, 83, 60_000).unwrap()),
    }
}

/// Returns a recording of perf with changed records, changed bytes, or both.
pub fn perf(random: &mut Random) -> Vec<u8> {
    let mut records = story();
    let how = random.below(4);
    if how > 0 {
        change(&mut records, random);
    }
    let mut file = encoded(&records, random.below(4));
    if how < 2 {
        bytes::change(&mut file, random);
    }
    file
}

/// Returns text in the form of `perf script`, with random changes.
pub fn script(random: &mut Random) -> Vec<u8> {
    let mut lines = SCRIPT.to_owned();
    let how = random.below(4);
    if how > 0 {
        text::change_lines(&mut lines, random);
        text::change_numbers(&mut lines, random);
    }
    let mut file = lines.into_bytes();
    if how == 0 {
        bytes::change(&mut file, random);
    }
    file
}

/// Traces of cox.
pub struct Sessions {
    /// The report in each trace, as JSON.
    documents: Vec<String>,
}

/// The parts of a trace before it is encoded.
struct Session {
    recording: Recording,
    trace_events: Vec<wire::TraceEvent>,
    report: String,
}

impl Sessions {
    pub fn new() -> Sessions {
        let all = [
            sample::heat(),
            sample::packed(),
            sample::troubled(),
            sample::make(),
            sample::many(),
            sample::by_perf(),
            side_by_side(),
        ];
        Sessions { documents: all.iter().map(|document| document.to_json().unwrap()).collect() }
    }

    fn original(&self, at: usize) -> Session {
        let first = 4711;
        let mut thread_table =
            ThreadTable { untracked: [(7, "kworker/0:1".to_owned())].into(), ..ThreadTable::default() };
        thread_table
            .threads
            .extend((first..first + 3).map(|tid| (tid, Thread { name: "heat".into(), process: first })));
        thread_table.processes.insert(first, Process { name: "heat".into(), ..Process::default() });
        let trace_events = trace_events::some(60, first);
        let nothing = Sorter::new(&std::env::temp_dir()).unwrap().sorted().unwrap();
        let recording = Recording {
            start_ns: 900,
            end_ns: 50_000,
            boot_ns: 5,
            epoch_ns: 6,
            cpus: 2,
            thread_table,
            waits: Vec::new(),
            trace_events: nothing,
        };
        Session { recording, trace_events, report: self.documents[at].clone() }
    }

    /// Returns one of the traces, with random changes.
    pub fn changed(&self, random: &mut Random) -> Vec<u8> {
        let mut session = self.original(random.below(self.documents.len()));
        if random.one_in(8) {
            let mut file = session.encoded();
            bytes::change(&mut file, random);
            return file;
        }
        if random.one_in(2) {
            text::change_numbers(&mut session.report, random);
        }
        if random.one_in(3) {
            session.recording.change(random);
        }
        trace_events::change(&mut session.trace_events, random);
        session.encoded()
    }
}

impl Session {
    fn encoded(mut self) -> Vec<u8> {
        let mut sorter = Sorter::new(&std::env::temp_dir()).unwrap();
        self.trace_events.iter().for_each(|trace_event| sorter.push(*trace_event).unwrap());
        self.recording.trace_events = sorter.sorted().unwrap();
        let mut bytes = Vec::new();
        session::write(&self.recording, &self.report, &mut bytes).unwrap();
        bytes
    }
}

trait Changed {
    fn change(&mut self, random: &mut Random);
}

impl Changed for Recording {
    fn change(&mut self, random: &mut Random) {
        for _ in 0..=random.below(2) {
            match random.below(6) {
                0 => self.start_ns = random.nasty(),
                1 => self.end_ns = random.nasty(),
                2 => self.boot_ns = random.nasty(),
                3 => self.epoch_ns = random.nasty(),
                4 => self.cpus = random.nasty() as u32,
                _ => {
                    let thread = Thread { name: "\u{1b}<&\n".into(), process: random.nasty() as u32 };
                    self.thread_table.threads.insert(random.nasty() as u32, thread);
                }
            }
        }
    }
}

/// Returns a report on two co-run programs, with the results of `--overlap`.
fn side_by_side() -> Document {
    let mut document = sample::heat();
    let second = document.account.programs[0].clone();
    document.account.programs.push(second);
    let phase = |running: &[usize], ns: u64| Phase {
        running: running.into(),
        length_ns: ns,
        run_ns: vec![ns / 2, ns / 4],
        others_ns: 5,
        idle: vec![Idle { usable_by: running.into(), idle_ns: ns / 8 }],
        unseen_ns: 7,
    };
    let waited =
        Waited { cpus: "0-1".into(), behind_ns: vec![100_000_000, 2], behind_others_ns: 3, ..Waited::default() };
    document.account.co_run = Some(CoRun {
        any_ran_ns: 9_000_000_000,
        all_ran_ns: 5_000_000_000,
        phases: vec![phase(&[0, 1], 5_000_000_000), phase(&[0], 4_000_000_000)],
        waited: vec![waited.clone(), waited],
    });
    document.overlap = Some(OverlapReport {
        backend: Noticed::Bpf,
        cpus: 2,
        counts: OverlapCounts {
            processes: 1,
            standbys: 2,
            tasks: 100,
            blocks: 90,
            rings: 80,
            ..OverlapCounts::default()
        },
        wall_ns: 12_000_000_000,
        ran_ns: 9_000_000_000,
        standby_ns: 1_000_000_000,
        delay_us: Some((3.0, 40.0)),
        ..OverlapReport::default()
    });
    document
}
