//! The command line. Help, man pages and completions are generated from here.

mod advise;
mod compare;
mod cpus;
mod report;
mod simulate;
mod traces;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use machine::CpuSet;

pub use advise::Advise;
pub use compare::Compare;
pub use cpus::Cpus;
pub use report::{Report, Rule};
pub use simulate::{Simulate, Waiting};
pub use traces::{Room, Traces};

/// The argument that every verb has, and no other, which runs a program.
pub const PROGRAM: &str = "program";

/// Keeps the threads of parallel programs working: says what the OS scheduler costs them.
#[derive(Debug, Parser)]
#[command(name = "cox", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a program, or watch one that runs, and say where its threads' time went
    Run(Run),
    /// Report on what `cox run --trace` has recorded, and make other traces of it
    Report(Report),
    /// Compare runs: which figures differ between groups of reports, and which only seem to
    Compare(Compare),
    /// Run a program with many threads on fewer CPUs, without the collapse that taskset causes
    Pack(Box<Pack>),
    /// Say beforehand what fewer threads, packing or another waiting policy would give on fewer CPUs
    Advise(Advise),
    /// Say what this kernel and user may do, feature by feature
    Doctor(Doctor),
    /// Explain a verdict, a command or a figure: the user guide, one page at a time
    Explain(Explain),
    /// Say what sessions of this user have changed, and put back what dead ones have left
    #[command(subcommand)]
    Changes(Changes),
    /// Print the JSON schema of what a verb writes with --json
    Schema {
        /// The verb
        #[arg(value_enum, default_value_t)]
        of: SchemaOf,
    },
    /// Print a shell's completions
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder; it is created if it is not there
        folder: PathBuf,
    },
    /// Run one of the experiments that measure cox itself (`cox bench overhead`, `cox bench pack`)
    #[command(disable_help_flag = true)]
    Bench {
        /// What cox-bench understands
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Verbs that write JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// `cox run --json`
    #[default]
    Run,
    /// `cox pack --json`
    Pack,
    /// `cox pack simulate --json`
    PackSimulate,
    /// `cox advise --json`
    Advise,
    /// `cox compare --json`
    Compare,
}

/// Run a program and say what the OS scheduler cost it.
///
/// The program's output, exit code and signals are untouched; the report goes to stderr. Everything
/// that the program starts is included. No privilege is needed, but with CAP_BPF and CAP_PERFMON
/// (root has them) the report is exact and says why threads were blocked; see `cox doctor`.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "cox run [OPTIONS] -- PROGRAM [ARGS]...\n       cox run [OPTIONS] --pid PID\n       cox run [OPTIONS] --cgroup PATH",
    after_help = "Example:\n  cox run -- make -j4\n  cox run --json report.json -- ./app input\n  cox run --pid 4711 --for 10s\n  cox run --pack-cpus 0-1 -- ./app input\n  cox run --repeat 15 --json before.%n.json -- ./app input\n\n\
Exit codes: the program's own; 128+n when signal n ended it; 125 cox failed before the program ran; \
126 the program cannot be executed; 127 it was not found."
)]
pub struct Run {
    /// Write the whole account as JSON to FILE ('-': stdout). %p pid, %h host, %r MPI or Slurm rank, %n run of --repeat
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Run it N times, one after another; the report is of the medians, and files need %n in their names
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = ["pid", "cgroup"])]
    pub repeat: u32,
    /// Traces
    #[command(flatten)]
    pub traces: Traces,
    /// Room for them
    #[command(flatten)]
    pub room: Room,
    /// Show all threads, not only the ten that lost most
    #[arg(long)]
    pub threads: bool,
    /// Run this command beside the program, from the same moment on (may be given more than once): an account each, and what
    /// each took from the others. Words are split as a shell does; for more: --also "sh -c '…'"
    #[arg(long, value_name = "CMD", conflicts_with_all = ["pid", "cgroup", "pack_cpus", "overlap"])]
    pub also: Vec<String>,
    /// How to observe
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub backend: observe::Choice,
    /// Watch a process that runs, until it ends, Ctrl-C, or --for (may be given more than once)
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "program"])]
    pub pid: Vec<u32>,
    /// Watch all that is in a control group, until Ctrl-C or --for
    #[arg(long, value_name = "PATH", conflicts_with = "program")]
    pub cgroup: Option<PathBuf>,
    /// End a watch after this long: 500ms, 10s, 2m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "program")]
    pub length: Option<Duration>,
    /// Leave out child processes
    #[arg(long)]
    pub no_children: bool,
    /// Pack it on these CPUs too, as `cox pack --cpus` does (0-3,8); control groups cannot be packed
    #[arg(long, value_name = "LIST", conflicts_with = "cgroup")]
    pub pack_cpus: Option<CpuSet>,
    /// Keep CPUs busy whose threads block: OpenMP tasks are run by cox's runtime, with standby threads. HOW blocked threads are
    /// noticed: auto, bpf, perf or standby-idle (without privileges), leader (for comparison), off
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "auto",
        conflicts_with_all = ["pid", "cgroup", "pack_cpus"])]
    pub overlap: Option<overlap::Backend>,
    /// With --pack-cpus: do not load libcox_preload.so into the program
    #[arg(long, requires = "pack_cpus")]
    pub no_preload: bool,
    /// Wait for everything the program has started, not only for its main process
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    pub wait_all: bool,
    /// Write the report to FILE instead of stderr (placeholders as for --json)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// No report (for use with --json)
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present_any = ["pid", "cgroup"])]
    pub program: Vec<OsString>,
}

/// How the packer sees threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PackBackend {
    /// By bpf, else by proc
    #[default]
    Auto,
    /// eBPF on the scheduler's tracepoints: exact, and loops that wait are seen in any program
    Bpf,
    /// /proc, polled, without privileges: who waits in a loop must be told by libcox_preload.so
    Proc,
}

/// Run a program with more threads than CPUs at the speed those CPUs allow.
///
/// Threads that meet at barriers, on fewer CPUs than threads, wait for the unluckiest one; if they wait in
/// loops, they also take the CPU from it. cox gives each CPU to one thread at a time, to whoever is furthest
/// behind, and sees in the code which threads only wait. It measures first what the kernel makes of the
/// program, and leaves it alone where there is nothing to win. All masks are put back at the end.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "cox pack --cpus LIST [OPTIONS] -- PROGRAM [ARGS]...\n       cox pack --ncpus N [OPTIONS] --pid PID\n       cox pack set PID --ncpus N\n       cox pack simulate --threads N --ncpus N [OPTIONS]",
    after_help = "Example:\n  cox pack --ncpus 2 -- ./app input\n  cox pack --cpus 0-1 --pid 4711 --for 10m\n\n\
Exit codes: the program's own; 128+n when signal n ended it; 125 cox failed before the program ran; \
126 the program cannot be executed; 127 it was not found."
)]
pub struct Pack {
    /// Something else than packing a program.
    #[command(subcommand)]
    pub what: Option<PackVerb>,
    /// The CPUs.
    #[command(flatten)]
    pub cpus: Cpus,
    /// Pack a process that runs, until it ends, Ctrl-C, or --for (may be given more than once)
    #[arg(long, value_name = "PID", conflicts_with = "program")]
    pub pid: Vec<u32>,
    /// End after this long: 500ms, 10s, 2m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "program")]
    pub length: Option<Duration>,
    /// Always use turns of this length (50us, 0.5ms) instead of searching for the best
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub period: Option<Duration>,
    /// Take turns whatever they give; for experiments
    #[arg(long)]
    pub always: bool,
    /// Of earlier versions, for experiments: `cox-bench pack palm` has what these two gave.
    #[arg(long, hide = true)]
    pub policy: Option<String>,
    /// See `policy`.
    #[arg(long, hide = true)]
    pub without: Option<String>,
    /// How threads are seen
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub backend: PackBackend,
    /// Leave out child processes
    #[arg(long)]
    pub no_children: bool,
    /// Do not load libcox_preload.so into the program, which tells who waits at OpenMP and pthread barriers
    #[arg(long)]
    pub no_preload: bool,
    /// Write why each thread was moved to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub log_moves: Option<PathBuf>,
    /// Write the report as JSON to FILE ('-': stdout). %p pid, %h host, %r MPI or Slurm rank
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report to FILE instead of stderr (placeholders as for --json)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// No report
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "pid")]
    pub program: Vec<OsString>,
}

/// What `cox pack` does beside packing a program.
#[derive(Debug, Subcommand)]
pub enum PackVerb {
    /// Change the CPUs of a packed program while it runs
    Set(Set),
    /// Try it on a machine in memory
    Simulate(Simulate),
}

/// Change the CPUs of a packed program while it runs.
///
/// The session that packs it goes on with the new CPUs: those that the program was allowed when it was packed
/// are there to choose from. For some ten milliseconds in between the program's threads have their own masks.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cox pack set 4711 --ncpus 3\n\nExit codes: 0 it is packed on these CPUs now; 125 it is not, for the reason given."
)]
pub struct Set {
    /// The process that `cox pack` started, or one that was given to it with --pid
    pub pid: u32,
    /// The CPUs.
    #[command(flatten)]
    pub cpus: Cpus,
}

/// Say what this kernel and user may do, feature by feature: yes, or no with the reason and the fix.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cox doctor\n\nExit codes: 0 when programs can be observed exactly (eBPF), 1 when only by a weaker way."
)]
pub struct Doctor {
    /// Write the findings as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Explain a verdict, a command or a figure: prints a page of the user guide.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cox explain                     what there is\n  cox explain imbalance\n  cox explain doctor#containers\n\nExit codes: 0 printed, 125 there is no such topic."
)]
pub struct Explain {
    /// The topic, as reports name it after 'why:'; a section of it after '#'
    #[arg(value_name = "TOPIC")]
    pub topic: Option<String>,
}

/// What sessions have changed: affinities of threads, and whatever else later verbs change.
///
/// A session puts everything back when it ends, and a guardian process does when it is killed. What is
/// left here after both were killed goes back with `cox changes undo`, or when the next session begins.
#[derive(Debug, Subcommand)]
pub enum Changes {
    /// List what is changed now, and by whom; exit code 1 when a dead session has left something
    Status,
    /// Put back what dead sessions have left; exit code 1 when something cannot be put back
    Undo,
    /// Wait for standard input to end, then put back what a journal says (for cox itself)
    #[command(hide = true)]
    Guard {
        /// The journal of the session
        journal: PathBuf,
    },
}

/// The length of a turn, from 20 us to 1 s.
fn period(text: &str) -> Result<Duration, String> {
    let length = match text.strip_suffix("us") {
        Some(number) => {
            let us: f64 = number.parse().map_err(|_| "not a number; write it like 500us or 0.5ms".to_owned())?;
            Duration::try_from_secs_f64(us / 1e6).map_err(|error| error.to_string())?
        }
        None => duration(text)?,
    };
    if (Duration::from_micros(20)..=Duration::from_secs(1)).contains(&length) {
        Ok(length)
    } else {
        Err("a turn lasts from 20us to 1s".to_owned())
    }
}

/// `10s`, `500ms`, `2m`, `1h`, or plain seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit '{unit}'; use ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().map_err(|_| "not a number; write it like 10s or 500ms".to_owned())? * scale;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|length| !length.is_zero())
        .ok_or_else(|| "must be more than 0 and less than some centuries".to_owned())
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
    fn durations() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in ["", "s", "-1s", "0s", "10 parsecs", "1e400s", "1..2s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
