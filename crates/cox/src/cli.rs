//! The command line. Help, man pages and completions are generated from here.

/// Exit codes of commands that run a program, as help and man pages list them.
macro_rules! exits_of_a_program {
    () => {
        "Exit codes:
  N      the program's own exit code
  128+N  signal N ended the program
  125    cox failed before the program ran, so that nothing was started
  126    the program cannot be executed
  127    the program was not found"
    };
}

mod advise;
mod check;
mod compare;
mod cpus;
mod forecast;
mod loops;
mod noise;
mod quiet;
mod report;
mod report_files;
mod simulate;
mod times;
mod traces;
mod ulp;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand};
use machine::CpuSet;

pub use self::loops::Loops;
pub use advise::Advise;
pub use check::Check;
pub use compare::Compare;
pub use cpus::Cpus;
pub use forecast::Forecast;
pub use noise::{LoopChoice, Noise, NoiseVerb, WorkChoice};
pub use quiet::{Quiet, QuietCpus, QuietMeasure, QuietPlan, QuietVerb};
pub use report::{Report, Rule};
use report_files::ReportFiles;
pub use simulate::{Simulate, Waiting};
use times::{duration, period};
pub use traces::{Room, Traces};
pub use ulp::{Ulp, UlpVerb};

/// Name of the argument for the program and its arguments. Commands that run a program have this argument; other
/// commands do not.
pub const PROGRAM: &str = "program";

/// Measures what the OS scheduler costs the threads of a program, and reduces that cost.
#[derive(Debug, Parser)]
#[command(name = "cox", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// The command
    #[command(subcommand)]
    pub verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a program, or observe a running one, and report where its threads' time went
    Run(Run),
    /// Report on a recording of `cox run --trace` or of perf, and convert it
    Report(Report),
    /// Compare groups of runs: which figures differ significantly, and by how much
    Compare(Compare),
    /// Run a program on fewer CPUs than it has threads, faster than taskset does
    Pack(Box<Pack>),
    /// Predict how long a program takes on fewer CPUs, with fewer threads or packed, or try these ways
    Advise(Advise),
    /// Measure what a thread that computes loses on each CPU, and to what
    Noise(Noise),
    /// List the OpenMP loops of a program, what imbalance costs them, and which schedule would help
    Loops(Loops),
    /// Run a program on CPUs on which nothing else runs, and restore everything at its end
    Quiet(Quiet),
    /// Run many copies of a program in one address space
    Ulp(Ulp),
    /// Check whether a program can run as a user-level process, and what else cox can do for it
    Check(Check),
    /// Check which features this kernel and user allow
    Doctor(Doctor),
    /// Explain a verdict, a command or a figure: print a page of the user guide
    Explain(Explain),
    /// List what sessions of this user have changed, and restore what killed sessions left
    #[command(subcommand)]
    Changes(Changes),
    /// Print the JSON schema of what a command writes with --json
    Schema {
        /// The command that writes the JSON
        #[arg(value_enum, default_value_t)]
        of: SchemaOf,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder; cox creates it if it does not exist
        folder: PathBuf,
    },
    /// Run an experiment that measures cox itself (`cox bench overhead`, `cox bench pack`)
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of cox-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Commands that write JSON.
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
    /// `cox noise --json`
    Noise,
    /// `cox noise forecast --json`
    NoiseForecast,
    /// `cox ulp --json`
    Ulp,
    /// `cox loops --json`
    Loops,
    /// `cox quiet --json`
    Quiet,
    /// `cox quiet measure --json`
    QuietMeasure,
}

/// Run a program and report what the OS scheduler cost it.
///
/// The report covers the program and everything it starts, and goes to stderr. The program's output,
/// exit code and signals are unchanged. No privilege is needed, but with CAP_BPF and CAP_PERFMON
/// (root has them) the report is exact and says why threads were blocked; see `cox doctor`.
#[derive(Clone, Debug, Args)]
#[command(
    group = ArgGroup::new("preloading").args(["pack_cpus", "noise"]).multiple(true),
    override_usage = "cox run [OPTIONS] -- PROGRAM [ARGS]...\n       cox run [OPTIONS] --pid PID\n       cox run [OPTIONS] --cgroup PATH",
    after_help = concat!(
        "Example:\n  cox run -- make -j4\n  cox run --json report.json -- ./app input\n  cox run --pid 4711 --for 10s\n  \
cox run --pack-cpus 0-1 -- ./app input\n  cox run --repeat 15 --json before.%n.json -- ./app input\n\n",
        exits_of_a_program!(),
        "\n  1      the program ended with 0, but cox could not restore a change (--pack-cpus, --quiet-cpus)"
    )
)]
pub struct Run {
    /// Write all figures as JSON to FILE ('-': stdout). In FILE: %p pid, %h host, %r MPI or Slurm rank, %n run of --repeat
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Run the program N times, one after another, and report medians; names of files must contain %n
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = ["pid", "cgroup"])]
    pub repeat: u32,
    /// Traces
    #[command(flatten)]
    pub traces: Traces,
    /// The buffer for trace events
    #[command(flatten)]
    pub room: Room,
    /// List all threads, not only the ten that lost most time
    #[arg(long)]
    pub threads: bool,
    /// Report p50, p90, p99 and maximum of the lengths of wake delays, preempt waits, blocks and time slices, for the program, its
    /// processes and its threads (at most 1487; with eBPF they take 64 MiB)
    #[arg(long)]
    pub latency: bool,
    /// Co-run CMD with the program, and report how much CPU time each took from the others (may be given more than once). cox splits
    /// CMD into words as a shell does; for variables and pipes use --co-run "sh -c '…'"
    #[arg(long, visible_alias = "also", value_name = "CMD", conflicts_with_all = ["pid", "cgroup", "pack_cpus", "overlap"])]
    pub co_run: Vec<String>,
    /// How cox observes threads
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub backend: observe::Choice,
    /// Observe a running process until it ends, until Ctrl-C, or for the time of --for (may be given more than once)
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "program"])]
    pub pid: Vec<u32>,
    /// Observe all processes of a control group, until Ctrl-C or for the time of --for
    #[arg(long, value_name = "PATH", conflicts_with = "program")]
    pub cgroup: Option<PathBuf>,
    /// Stop observing after TIME: 500ms, 10s, 2m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "program")]
    pub length: Option<Duration>,
    /// Exclude child processes
    #[arg(long)]
    pub no_children: bool,
    /// Also pack the program on these CPUs (0-3,8), as `cox pack --cpus` does; not with --cgroup
    #[arg(long, value_name = "LIST", conflicts_with = "cgroup")]
    pub pack_cpus: Option<CpuSet>,
    /// Also keep these CPUs (2-15) quiet for the program, as `cox quiet --cpus` does
    #[arg(long, value_name = "LIST", conflicts_with_all = ["pid", "cgroup", "pack_cpus"])]
    pub quiet_cpus: Option<CpuSet>,
    /// With --quiet-cpus: how much to change, see `cox quiet --help`
    #[arg(long, value_name = "LEVEL", default_value = "full", hide_default_value = true, requires = "quiet_cpus")]
    pub quiet_level: ::quiet::Level,
    /// Run OpenMP tasks in cox's runtime: when a thread blocks, a standby thread uses its CPU. HOW cox learns of blocked threads: auto, bpf, perf or
    /// standby-idle (both without privileges), leader (for comparison), off
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "auto",
        conflicts_with_all = ["pid", "cgroup", "pack_cpus"])]
    pub overlap: Option<overlap::Backend>,
    /// Give the program's OpenMP loops with schedule(runtime) another schedule, and report what each loop did. NAME is one of static, static_steal, ss, fac2,
    /// gss, tss, awf_b, af and others, with NAME,CHUNK and NAME,PARAMETER=VALUE; auto tries several for each loop; all:NAME changes dynamic and guided
    /// loops, too; as_written changes nothing;
    /// from:FILE takes what auto has found (see `cox explain loops`)
    #[arg(long, value_name = "NAME", value_parser = schedule, conflicts_with_all = ["pid", "cgroup"])]
    pub schedule: Option<String>,
    /// With --schedule auto or from:FILE: write the schedules that were selected to FILE, for --schedule from:FILE in later runs
    #[arg(long, value_name = "FILE", requires = "schedule")]
    pub save_schedules: Option<PathBuf>,
    /// With --schedule: facts that some schedules need: mean_ns=F, deviation_ns=F, overhead_ns=F (nanoseconds), weights=F:F:… (one for each thread),
    /// separated by commas
    #[arg(long, value_name = "LIST", value_parser = schedule_inputs, requires = "schedule")]
    pub schedule_inputs: Option<String>,
    /// With --schedule: the time by which schedules that measure compare the threads. wall: a thread that lost its CPU counts as slow; cpu: it does not;
    /// both: its speed while it runs, and apart from that its share of the CPU, smoothed. Default: both for static_weighted, wall for others
    #[arg(long, value_name = "TIME", value_parser = timing, requires = "schedule")]
    pub timing: Option<::loops::Timing>,
    /// Also report what interrupted the program's threads, by cause: interrupts, page faults, threads that ran instead (needs eBPF;
    /// without it, the report says why there is none). Takes no samples, so spinning is not seen
    #[arg(long)]
    pub noise: bool,
    /// With --pack-cpus or --noise: do not load libcox_preload.so into the program
    #[arg(long, requires = "preloading")]
    pub no_preload: bool,
    /// Wait for all processes that the program started, not only for its main process
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    pub wait_all: bool,
    /// Write the report to FILE instead of stderr (placeholders as for --json)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print no report (for use with --json)
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present_any = ["pid", "cgroup"])]
    pub program: Vec<OsString>,
}

/// How the packer observes threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PackBackend {
    /// bpf, or proc where bpf is not permitted
    #[default]
    Auto,
    /// eBPF on the scheduler's tracepoints: exact, and recognises waiting loops in any program
    Bpf,
    /// /proc, polled, without privileges: only libcox_preload.so tells which threads wait in loops
    Proc,
}

/// Run a program with more threads than CPUs at the speed those CPUs allow.
///
/// If there are fewer CPUs than threads that meet at barriers, all threads wait for the thread that got the
/// least CPU time; threads that wait in loops even take CPU time from that thread. cox sees in the machine code
/// which threads only wait, and gives the CPUs to the threads that are furthest behind. It first measures how
/// the program runs under the kernel alone, and does not pack it if packing gains nothing. At the end cox
/// restores all CPU masks.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "cox pack --cpus LIST [OPTIONS] -- PROGRAM [ARGS]...\n       cox pack --ncpus N [OPTIONS] --pid PID\n       cox pack set PID --ncpus N\n       cox pack simulate --threads N --ncpus N [OPTIONS]",
    after_help = concat!(
        "Example:\n  cox pack --ncpus 2 -- ./app input\n  cox pack --cpus 0-1 --pid 4711 --for 10m\n\n",
        exits_of_a_program!(),
        "\n  1      the program ended with 0, but cox could not restore a CPU mask"
    )
)]
pub struct Pack {
    /// A subcommand.
    #[command(subcommand)]
    pub what: Option<PackVerb>,
    /// The CPUs.
    #[command(flatten)]
    pub cpus: Cpus,
    /// Pack a running process until it ends, until Ctrl-C, or for the time of --for (may be given more than once)
    #[arg(long, value_name = "PID", conflicts_with = "program")]
    pub pid: Vec<u32>,
    /// Stop packing after TIME: 500ms, 10s, 2m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "program")]
    pub length: Option<Duration>,
    /// Use this scheduling period (50us, 0.5ms) instead of searching for the best one
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub period: Option<Duration>,
    /// Pack even if packing gains nothing; for experiments
    #[arg(long)]
    pub always: bool,
    /// Option of an earlier version. It is only recognised so that the error can name `cox-bench pack palm`, which has these experiments now.
    #[arg(long, hide = true)]
    pub policy: Option<String>,
    /// See `policy`.
    #[arg(long, hide = true)]
    pub without: Option<String>,
    /// How cox observes threads
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub backend: PackBackend,
    /// Exclude child processes
    #[arg(long)]
    pub no_children: bool,
    /// Do not load libcox_preload.so into the program; it tells cox which threads wait at OpenMP and pthread barriers
    #[arg(long)]
    pub no_preload: bool,
    /// Write each move of a thread and its reason to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub log_moves: Option<PathBuf>,
    /// Where the report goes.
    #[command(flatten)]
    pub report: ReportFiles,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "pid")]
    pub program: Vec<OsString>,
}

/// Subcommands of `cox pack`.
#[derive(Debug, Subcommand)]
pub enum PackVerb {
    /// Change the CPUs of a packed program while it runs
    Set(Set),
    /// Simulate packing on any number of CPUs
    Simulate(Simulate),
}

/// Change the CPUs of a packed program while it runs.
///
/// The session that packs the program continues on the new CPUs. You can choose among the CPUs that the program was
/// allowed to use when the session began. During the change, which takes some ten milliseconds, the threads have their
/// original masks.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cox pack set 4711 --ncpus 3\n\nExit codes:\n  0    the program is packed on these CPUs now\n  2    wrong options\n  125  it is not, for the reason given"
)]
pub struct Set {
    /// The process that `cox pack` started, or that was given to it with --pid
    pub pid: u32,
    /// The CPUs.
    #[command(flatten)]
    pub cpus: Cpus,
}

/// Check which features this kernel and user allow: yes, or no with the reason and the fix.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cox doctor\n\nExit codes:\n  0    cox can observe programs exactly (eBPF)\n  1    only a weaker backend works\n  2    wrong options\n  125  cox failed"
)]
pub struct Doctor {
    /// Write the findings as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Explain a verdict, a command or a figure: prints a page of the user guide.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cox explain                     (lists the topics)\n  cox explain imbalance\n  cox explain doctor#containers\n\nExit codes:\n  0    printed\n  2    wrong options\n  125  unknown topic"
)]
pub struct Explain {
    /// The topic, as reports name it after 'why:'; TOPIC#SECTION prints only that section
    #[arg(value_name = "TOPIC")]
    pub topic: Option<String>,
}

/// List and restore what sessions have changed: CPU affinities of threads.
///
/// A session restores everything when it ends. If it is killed, its guardian process does. If both are
/// killed, `cox changes undo` restores what they left, or the next session does when it begins.
#[derive(Debug, Subcommand)]
pub enum Changes {
    /// List the settings that sessions have changed and not yet restored, and the session of each
    #[command(
        after_help = "Exit codes:\n  0    no dead session left a change\n  1    a dead session left a change, or a file cannot be read as a journal\n  2    wrong options\n  125  cox failed"
    )]
    Status,
    /// Restore what dead sessions have left, or what a session has changed for the machine
    #[command(
        after_help = "Exit codes:\n  0    everything is restored\n  1    something could not be restored, or a file cannot be read as a journal\n  2    wrong options\n  125  cox failed"
    )]
    Undo {
        /// Restore this session's changes, which outlast its process; `cox changes status` names it
        session: Option<String>,
    },
    /// Used by cox itself: wait for standard input to end, then undo the changes that a journal lists
    #[command(hide = true)]
    Guard {
        /// The journal of the session
        journal: PathBuf,
    },
}

/// Checks a schedule as `--schedule` takes it.
fn schedule(text: &str) -> Result<String, String> {
    ::loops::options::parse_schedule(text).map(|_| text.to_owned())
}

/// Reads the time that schedules use.
fn timing(text: &str) -> Result<::loops::Timing, String> {
    ::loops::Timing::find(text)
}

/// Checks facts about loops.
fn schedule_inputs(text: &str) -> Result<String, String> {
    ::loops::options::parse_inputs(text).map(|_| text.to_owned())
}

/// Returns the name of an option's value on the command line.
pub fn name_of(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
