//! The arithmetic of every report closes: of random accounts, and of the examples in docs/.

mod sample;

use std::path::Path;

use ledger::figures::ByCause;
use ledger::{Account, CpuAccount, Lost, OwnCost, Preemptor, PreemptorKind, Process, Program, SpinBasis, Thread};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use report::text::text;
use report::{Document, Style};
use testkit::audit::{audit, reports_in_markdown};
use wire::{Backend, Cause};

const CAUSES: [Cause; 8] = [
    Cause::Futex,
    Cause::Disk,
    Cause::Network,
    Cause::Sleep,
    Cause::PageFault,
    Cause::ChildWait,
    Cause::Other,
    Cause::Unspecified,
];

/// A thread whose states sum to its life, at scales from microseconds to hours.
fn thread() -> impl Strategy<Value = Thread> {
    let times = vec(prop_oneof![Just(0), 0..1000u64, 0..1_000_000_000u64], 13);
    let scale = select(vec![1u64, 1, 1000, 100_000]);
    (times, 0.0..1.0f64, scale, "[a-zA-Z\\x00-\\x1f漢é:/ ]{0,15}", 1..99_999u32, vec((0..200u32, 1..9u64), 0..4))
        .prop_map(|(ns, spun, scale, comm, tid, cpus)| {
            let ns: Vec<u64> = ns.into_iter().map(|ns| ns * scale).collect();
            let blocked_by: ByCause = CAUSES.into_iter().zip(ns[5..].iter().copied()).collect();
            let blocked_ns = blocked_by.total();
            Thread {
                tid,
                comm,
                wall_ns: ns[..4].iter().sum::<u64>() + blocked_ns,
                run_ns: ns[0],
                spin_ns: (ns[0] as f64 * spun) as u64,
                spin_basis: SpinBasis::Sampled,
                steal_ns: ns[0] / 50,
                wake_delay_ns: ns[1],
                preempt_wait_ns: ns[2],
                yield_wait_ns: ns[2] / 3,
                unknown_ns: ns[3],
                blocked_ns,
                blocked_by,
                switches_voluntary: ns[4],
                cpus: sample::ran_on(cpus),
                ..Thread::default()
            }
        })
}

fn processes() -> impl Strategy<Value = Vec<Process>> {
    let process = |most: usize| {
        (vec(thread(), 1..most), "[a-c]{1,2}").prop_map(|(threads, comm)| Process {
            comm,
            threads,
            ..Process::default()
        })
    };
    prop_oneof![vec(process(4), 1..3), vec(process(25), 1..2), vec(process(3), 11..40)]
}

fn cpus() -> impl Strategy<Value = Vec<CpuAccount>> {
    vec((0..9_999_999_999u64, 0..9_999_999u64, 0..9_999_999_999u64, 0..9u64), 0..70).prop_map(|cpus| {
        let cpu = |(at, (ours, others, idle, unknown)): (usize, (u64, u64, u64, u64))| CpuAccount {
            cpu: at as u32,
            busy_program_ns: ours,
            busy_others_ns: others,
            idle_ns: idle,
            idle_while_waiting_ns: idle / 3,
            idle_while_blocked_ns: idle / 4,
            unknown_ns: unknown / 8 * ours,
        };
        cpus.into_iter().enumerate().map(cpu).collect()
    })
}

fn document() -> impl Strategy<Value = Document> {
    let kinds = vec![PreemptorKind::Sibling, PreemptorKind::Cox, PreemptorKind::Other];
    let took = vec(("[a-z漢]{0,15}", 1..9_000u64, 1..3u64, select(kinds)), 0..12);
    let busy_cpus_ns = proptest::option::of(vec(prop_oneof![Just(0), 0..9_999_999_999u64], 0..300));
    let program = (processes(), busy_cpus_ns);
    (vec(program, 1..3), cpus(), took, select(vec![Backend::Bpf, Backend::Perf, Backend::Proc]), 0..3u64).prop_map(
        |(programs, cpus, took, backend, lost)| {
            let program = |(processes, busy_cpus_ns): (Vec<Process>, Option<Vec<u64>>)| {
                let lives = processes.iter().flat_map(|process| &process.threads).map(|thread| thread.wall_ns);
                Program { wall_ns: lives.max().unwrap_or(0), processes, busy_cpus_ns, ..Program::default() }
            };
            let took = took.into_iter().map(|(comm, ns, threads, kind)| Preemptor {
                comm,
                tid: 9,
                host_tid: None,
                threads,
                kind,
                wait_ns: ns,
            });
            let account = Account {
                backend,
                sees: None,
                provenance: None,
                window_ns: 1_000_000_000,
                events: 1_000_000,
                lost: Lost { events: lost, preemptors_ns: lost, ..Lost::default() },
                own_cost: OwnCost::default(),
                programs: programs.into_iter().map(program).collect(),
                cpus,
                preemptors: took.collect(),
                hot_functions: Vec::new(),
                co_run: None,
            };
            Document::new("0.1.0", account, sample::facts())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_report_adds_up_and_fits(document in document(), unicode: bool, all_threads: bool) {
        let style = Style { unicode, all_threads, ..Style::default() };
        let report = text(&document, &style);
        let added = audit(&report).map_err(|faults| TestCaseError::fail(format!("{faults:#?}\n{report}")))?;
        prop_assert_eq!(added.programs, document.account.programs.len());
        prop_assert!(added.rows >= added.programs);
        prop_assert_eq!(added.cpus, document.account.cpus.len().min(11));
        for line in report.lines() {
            prop_assert!(unicode_width::UnicodeWidthStr::width(line) <= 100, "{}", line);
            prop_assert!(unicode || line.is_ascii(), "{}", line);
            prop_assert!(!line.contains(|c: char| c.is_control()), "{:?}", line);
        }
    }

    #[test]
    fn a_number_keeps_its_unit_at_every_width(document in document(), unicode: bool, width in 60..140usize) {
        let report = text(&document, &Style { unicode, width, ..Style::default() });
        let lines: Vec<&str> = report.lines().collect();
        for pair in lines.windows(2) {
            let unit = pair[1].trim_start().split([' ', ',', ';', ':', '.', ')']).next().unwrap_or_default();
            let parted = pair[0].ends_with(|c: char| c.is_ascii_digit()) && ["%", "s", "ms", "µs", "us", "ns"].contains(&unit);
            prop_assert!(!parted, "{}\n{}", pair[0], pair[1]);
        }
    }
}

#[test]
fn the_examples_in_docs_add_up() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut checked = 0;
    let mut folders = vec![docs];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md") {
                for report in reports_in_markdown(&std::fs::read_to_string(&path).unwrap()) {
                    let added = audit(&report).unwrap_or_else(|faults| panic!("{}: {faults:#?}", path.display()));
                    checked += added.programs;
                }
            }
        }
    }
    assert!(checked >= 1, "docs/figures.md has a full example");
}

#[test]
fn the_example_in_figures_is_what_this_version_prints() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures.md")).unwrap();
    let printed = text(&sample::heat(), &Style::default());
    assert!(reports_in_markdown(&page).contains(&printed.trim_end().to_owned()), "the example should be:\n{printed}");
}

#[test]
fn a_figure_that_does_not_close_is_found() {
    let report = text(&sample::heat(), &Style::default());
    let original = audit(&report).unwrap();
    assert_eq!((original.programs, original.rows, original.cpus), (1, 3, 2));
    let wrong = [
        ("43.4 %", "43.5 %"),
        ("preempted 32.7 %", "preempted 32.6 %"),
        ("of it 0.6 %", "of it 50.6 %"),
        ("5.41 s  2.60 s", "5.42 s  2.60 s"),
        ("12.41 s  5.38 s", "12.42 s  5.38 s"),
        ("Thread time: 37.2 s", "Thread time: 38.2 s"),
        ("0 for 1.3 % of the time", "0 for 1.4 % of the time"),
        ("96.6 %   0.9 %", "96.6 %   1.9 %"),
    ];
    for (from, to) in wrong {
        assert!(report.contains(from), "{from}");
        assert!(audit(&report.replacen(from, to, 1)).is_err(), "{from} → {to}");
    }
}
