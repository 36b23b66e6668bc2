//! `cox-bench`: experiments that measure what Coxswain costs and what it gains, compared with other tools. Each experiment prints a table;
//! docs/bench.md explains how to read and repeat it.

mod advise;
mod common;
mod data;
mod interrupt;
mod json;
mod loops;
mod memory;
mod named;
mod noise;
mod overhead;
mod pack;
mod page;
mod process;
mod quiet;
mod results;
mod rounds;
mod runtimes;
mod selection;
mod stats;
mod stopwatch;
mod study;
mod table;
mod tools;
mod ulp;
mod verdict;
mod verdicts;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use interrupt::Interrupt;
use results::Experiment;
use verdict::{FAILED, Outcome};

/// Measures Coxswain: what it costs and what it gains, compared with other tools.
#[derive(Debug, Parser)]
#[command(name = "cox-bench", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// What observing costs the observed program: plain | cox | perf sched record
    Overhead(overhead::Options),
    /// What keeping a trace costs the traced program: plain | cox | cox --trace | perf sched record
    Trace(overhead::Tracing),
    /// What the scheduler costs programs under different loop schedules, alone and together: the study of Kuhn (2022)
    #[command(visible_alias = "kuhn")]
    Study(study::Options),
    /// How large the HTML page of a run is, and how long a browser takes to open it: for one thread, and for thousands
    Page(page::Options),
    /// What packing gains: threads on fewer CPUs, compared with taskset and with fewer threads
    Pack(pack::Options),
    /// How accurate the forecasts of cox advise are: twelve kernels with more threads than CPUs
    Advise(advise::Options),
    /// What OpenMP tasks, barriers and regions cost with each runtime: libgomp, libomp, ours
    Tasks(runtimes::tasks::Options),
    /// What a request and an instance of a loop cost under each schedule, compared with libgomp's and libomp's own loops
    Loops(loops::Options),
    /// What it costs to find a loop's schedule while the program runs: auto, expert and random, compared with the best single schedule
    Selection(selection::Options),
    /// What overlap gains when threads block: heat and fwi with a throttled disk
    Umt(runtimes::umt::Options),
    /// How long a CPU stays idle when its thread blocks while a task is ready, compared with an eventfd wake-up
    Wake(runtimes::wake::Options),
    /// What giving up the CPU costs user-level processes, compared with processes, threads and the bare switch
    Ulp(ulp::Options),
    /// Whether the causes of cox noise are complete and true, what they cost, and how its loop compares with oslat's
    Noise(noise::Options),
    /// What quiet CPUs win, that programs are no slower there, and that everything comes back
    Quiet(quiet::Options),
    /// Whether the advice of cox run holds: foreign programs in many situations, with every step followed and measured
    Verdicts(verdicts::Options),
    /// Guardian of `pack palm`: undoes the changes of `pack palm` if that process is killed
    #[command(hide = true)]
    Changes {
        #[command(subcommand)]
        what: Guard,
    },
    /// Keep parts of cox's BPF programs loaded while another cox-bench measures
    #[command(hide = true)]
    Hold(overhead::Held),
    /// Measure the bare switch between COUNT contexts
    #[command(hide = true)]
    Switches { count: u64, rounds: u64 },
    /// Start COUNT programs, and wait for all
    #[command(hide = true)]
    Spawns {
        count: u64,
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
    /// Run a program and write its wall and CPU time to FILE
    #[command(hide = true)]
    Stopwatch {
        file: PathBuf,
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
}

#[derive(Debug, Subcommand)]
enum Guard {
    /// Wait for the end of standard input, then undo the changes that the file JOURNAL lists
    Guard { journal: PathBuf },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(why) = arch::supported() {
        eprintln!("cox-bench: {why}");
        return ExitCode::FAILURE;
    }
    let done = match cli.verb {
        Verb::Overhead(options) => {
            Interrupt::catch().and_then(|interrupt| overhead::overhead(&options, &interrupt)).map(exit_code)
        }
        Verb::Trace(options) => {
            Interrupt::catch().and_then(|interrupt| overhead::trace(&options, &interrupt)).map(exit_code)
        }
        Verb::Study(options) => Interrupt::catch().and_then(|interrupt| study::study(&options, &interrupt)),
        Verb::Page(options) => Interrupt::catch().and_then(|interrupt| page::page(&options, &interrupt)),
        Verb::Pack(pack::Options { what: Some(pack::What::Palm(options)), .. }) => pack::palm_live::palm(&options),
        Verb::Changes { what: Guard::Guard { journal } } => guard(&journal),
        Verb::Pack(options) => {
            Interrupt::catch().and_then(|interrupt| pack::pack(&options, &interrupt)).map(|report| {
                let (lacks, misses) = (report.lacks(), report.misses());
                if lacks { FAILED } else { u8::from(misses) }
            })
        }
        Verb::Advise(options) => Interrupt::catch().and_then(|interrupt| advise::advise(&options, &interrupt)),
        Verb::Tasks(options) => Interrupt::catch().and_then(|interrupt| runtimes::tasks::tasks(&options, &interrupt)),
        Verb::Loops(options) => Interrupt::catch().and_then(|interrupt| loops::loops(&options, &interrupt)),
        Verb::Selection(options) => Interrupt::catch().and_then(|interrupt| selection::selection(&options, &interrupt)),
        Verb::Umt(options) => Interrupt::catch().and_then(|interrupt| runtimes::umt::umt(&options, &interrupt)),
        Verb::Wake(options) => Interrupt::catch().and_then(|interrupt| runtimes::wake::wake(&options, &interrupt)),
        Verb::Verdicts(options) => Interrupt::catch().and_then(|interrupt| verdicts::verdicts(&options, &interrupt)),
        Verb::Ulp(options) => Interrupt::catch().and_then(|interrupt| ulp::ulp(&options, &interrupt)),
        Verb::Quiet(options) => Interrupt::catch().and_then(|interrupt| quiet::quiet(&options, &interrupt)),
        Verb::Noise(options) => Interrupt::catch().and_then(|interrupt| noise::noise(&options, &interrupt)),
        Verb::Switches { count, rounds } => ulp::bare::bare(count, rounds),
        Verb::Spawns { count, program } => ulp::lives::spawns(count, &program),
        Verb::Hold(options) => overhead::hold(&options),
        Verb::Stopwatch { file, program } => stopwatch::stopwatch(&file, &program),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("cox-bench: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn guard(journal: &Path) -> anyhow::Result<u8> {
    changes::guardian::guard(&changes::LiveKnobIo::new(machine::Root::live()), journal)?;
    Ok(0)
}

/// Returns the exit code: 0 if no limit was exceeded, 1 if one was, 125 if a case could not be measured.
fn exit_code(experiment: Experiment) -> u8 {
    match () {
        () if experiment.cases.iter().any(|case| case.figures.is_empty()) => FAILED,
        () if experiment.any(Outcome::Fail) => 1,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_experiment_is_told_the_same() {
        let command = Cli::command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name) {
            let line = ["cox-bench", verb, "--json", "-", "--cox", "cox", "--workloads", "folder"];
            assert!(Cli::try_parse_from(line).is_ok(), "{verb}");
        }
    }

    #[test]
    fn the_study_has_its_former_name_and_options() {
        let line = ["cox-bench", "kuhn", "--runs", "5", "--programs", "both", "--threads", "1", "--seconds", "0.5"];
        assert!(matches!(Cli::try_parse_from(line).unwrap().verb, Verb::Study(_)));
        assert!(Cli::try_parse_from(["cox-bench", "study", "--schedules", "static,ss:64"]).is_ok());
        for bad in [["--schedules", "fac"], ["--schedules", "ss:0"], ["--programs", "heat"], ["--runs", "0"]] {
            assert!(Cli::try_parse_from(["cox-bench", "study"].iter().chain(&bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cases_are_chosen_by_name_and_wrong_ones_refused() {
        assert!(Cli::try_parse_from(["cox-bench", "overhead", "triad", "pingpong", "--quick", "--runs", "9"]).is_ok());
        for bad in [&["quicksort"][..], &["--runs", "0"], &["--runs", "x"], &["--cox"]] {
            let line = ["cox-bench", "overhead"].iter().chain(bad);
            assert!(Cli::try_parse_from(line).is_err(), "{bad:?}");
        }
    }
}
