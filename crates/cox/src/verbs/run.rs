//! `cox run`: observe a program and report; pack it too where that is wanted.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use advise::Facts;
use anyhow::{Context, Error, Result, bail};
use ledger::accounts::ProgramInfo;
use ledger::beside::{self, Beside, Player};
use ledger::{Account, Provenance};
use machine::Root;
use machine::cgroup::Hierarchies;
use outputs::{Output, has_no_reader, refuse_same};
use report::Document;
use report::comparison::Run;
use report::pack::PackReport;
use report::style::{Style, wrapped};
use trace::Recording;
use watch::bpf::{Expectation, Parts, Snapshots, expect};

use crate::choice::Choice;
use crate::cli;
use crate::ebpf;
use crate::provenance;
use crate::session::engine::Engine;
use crate::session::hidden::why_hidden_from_perf;
use crate::session::observing::{self, Observing};
use crate::session::overlapping::{Backend, Overlapping, fitness};
use crate::session::packing::Packing;
use crate::session::recording::Recorder;
use crate::session::together::Together;
use crate::session::{self, Launch, Limits, Outcome, Subject, Target};
use crate::surroundings::Surroundings;
use crate::verbs::traces::{self, Traces};

/// How a run ended, for who does another one after it.
pub struct Ran {
    /// The exit code to end with.
    pub code: u8,
    /// Whether somebody asked for the end.
    pub interrupted: bool,
    /// What it came to, where there is a report.
    pub figures: Option<Run>,
}

/// Where reports go.
struct Outputs {
    text: Option<Output>,
    json: Option<Output>,
    traces: Traces,
}

/// Observe what `options` name, report, and return the exit code to end with.
pub fn run(options: &cli::Run) -> Result<u8> {
    refuse_same(named(&super::series::of_run(options, 1)))?;
    if options.repeat > 1 {
        super::series::run(options)
    } else {
        once(&super::series::of_run(options, 1)).map(|ran| ran.code)
    }
}

/// Options that write, each with the file that it names.
fn named(options: &cli::Run) -> Vec<(&'static str, Option<PathBuf>)> {
    let text = options.output.clone().filter(|_| !options.quiet);
    [("--json", options.json.clone()), ("--output", text)].into_iter().chain(traces::named(&options.traces)).collect()
}

/// One run, whatever `--repeat` says.
pub fn once(options: &cli::Run) -> Result<Ran> {
    // Outputs are opened first: a bad path is refused before anything starts.
    let json = Output::wanted(options.json.as_deref())?;
    let text = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };
    let traces = Traces::open(&options.traces)?;
    // What programs took from one another is told by what happened when.
    let records = traces.are_wanted() || !options.also.is_empty();
    let recorder = records.then(|| Recorder::new(&traces.folder(), options.room.trace_buffer)).transpose()?;
    let outputs = Outputs { text, json, traces };

    // Before the first of them is loaded.
    let _expected = expected(options, recorder.as_ref().map(|recorder| recorder.buffer));
    let mut overlapping = options.overlap.map(Overlapping::new).transpose()?;
    let target = target(options, overlapping.as_mut())?;
    let mut packing = packing(options)?;
    let surroundings = Surroundings::read(attached_to(&target));
    let provenance = provenance::here(attached_to(&target));
    let hidden = options.program.first().and_then(|program| why_hidden_from_perf(program));
    let mut observing = Observing::new(options.backend, !options.no_children, hidden, recorder)?;
    let limits = Limits { length: options.length, wait_all: options.wait_all };
    // Who observes takes hold first and lets go last: it sees all that packing does.
    let engines = [
        Some(&mut observing as &mut dyn Engine),
        packing.as_mut().map(|packing| packing as &mut dyn Engine),
        overlapping.as_mut().map(|overlapping| overlapping as &mut dyn Engine),
    ];
    let mut together = Together::new(engines.into_iter().flatten().collect());
    let mut outcome = session::run(&target, &mut together, limits)?;
    let mut failures = together.into_failures().into_iter();
    let observing_failed = outcome.failed.take().or(failures.next().flatten());
    let packing_failed = failures.next().flatten();

    // From here on the program has run: whatever fails is said, and does not change its exit code.
    let packed = packing.as_ref().and_then(|packing| {
        let summary = packing.summary.as_ref()?;
        Some(super::pack::report(&options.program, &options.pid, packing, summary, outcome.exit))
    });
    let mut figures = None;
    let reported = match observing_failed {
        None => report(
            options,
            &target,
            &outcome,
            &mut observing,
            (&surroundings, provenance),
            (packed, overlapping.as_ref()),
            outputs,
        )
        .map(|run| figures = Some(run)),
        Some(error) => alone(packed, outputs.text).and(Err(error.context("observing failed, there is no report"))),
    };
    let failed: Vec<Error> = packing_failed.into_iter().chain(reported.err()).collect();
    for error in failed.iter().filter(|error| !has_no_reader(error)) {
        crate::complaint::say(&crate::complaint::chain(error));
    }
    let code = outcome.exit.map_or(0, |exit| exit.shell_code() as u8);
    let code = if failed.is_empty() || outcome.exit.is_some() { code } else { crate::FAILED };
    let packed = packing.as_ref().and_then(|packing| packing.summary.as_ref());
    let code = packed.map_or(code, |summary| super::pack::undone_or(code, summary));
    Ok(Ran { code, interrupted: outcome.interrupted, figures })
}

/// Has the parts of the eBPF programs loaded together that this run wants, so that a switch under all of them calls one program.
fn expected(options: &cli::Run, moments_bytes: Option<u32>) -> Option<Expectation> {
    if (options.pack_cpus.is_none() && options.overlap.is_none()) || !ebpf::may_itself() {
        return None;
    }
    let children = !options.no_children;
    let observes = matches!(options.backend, observing::Choice::Auto | observing::Choice::Bpf);
    Some(expect(Parts {
        clocks: observes.then(|| observing::settings(children, moments_bytes).ok()).flatten(),
        snapshots: options.pack_cpus.is_some().then_some(Snapshots { children }),
        overlap: matches!(options.overlap, Some(Backend::Auto | Backend::Bpf)),
        owner: None,
    }))
}

/// The packer, where one is wanted; refused here is what `cox pack` refuses.
fn packing(options: &cli::Run) -> Result<Option<Packing>> {
    let Some(cpus) = &options.pack_cpus else { return Ok(None) };
    // Asked first: the masks of a packed program say nothing about which CPUs it may use.
    super::pack::refuse_packed(&options.pid)?;
    let choice = Choice::of(super::pack::whose(&options.pid))?;
    let cpus = choice.named("--pack-cpus", cpus)?;
    let plan = super::pack::plan(&choice, &cpus, super::pack::began(&options.pid), !options.no_children);
    Ok(Some(Packing::adjustable(plan, choice)))
}

/// What the command line asks to observe.
fn target(options: &cli::Run, mut overlapping: Option<&mut Overlapping>) -> Result<Target> {
    if let Some(path) = &options.cgroup {
        let root = Root::live();
        let cgroup = Hierarchies::read(&root).and_then(|all| all.resolve(&root, path)).context("--cgroup")?;
        return Ok(Target::Attach(Subject::Cgroup(cgroup)));
    }
    if !options.pid.is_empty() {
        let mut pids = options.pid.clone();
        // Named twice, watched once; the first stays first.
        let mut seen = BTreeSet::new();
        pids.retain(|pid| seen.insert(*pid));
        return Ok(Target::Attach(Subject::Processes(pids)));
    }
    if let Some((overlapping, program)) = overlapping.as_deref_mut().zip(options.program.first()) {
        overlapping.unfit = fitness::why_not(program);
        overlapping.unfit.iter().for_each(|why| crate::complaint::say(why));
    }
    let overlapping = overlapping.filter(|overlapping| overlapping.unfit.is_none());
    let mut launch = match (&options.pack_cpus, &overlapping) {
        (None, None) => Launch { command: options.program.clone(), ..Launch::default() },
        _ => super::pack::launch(&options.program, !options.no_preload, options.no_children),
    };
    launch.variables.extend(overlapping.map(|overlapping| overlapping.variable()));
    if options.also.len() >= beside::MOST {
        bail!("--also: at most {} programs can run beside the other", beside::MOST - 1);
    }
    let also = options.also.iter().map(|command| launch_beside(command)).collect::<Result<Vec<Launch>>>()?;
    Ok(Target::Launch(std::iter::once(launch).chain(also).collect()))
}

/// A program to run beside the other. Whether it can be executed is the kernel's to say, when the session starts.
fn launch_beside(command: &str) -> Result<Launch> {
    let words = shlex::split(command).with_context(|| format!("--also '{command}': a quote is not closed"))?;
    if words.is_empty() {
        bail!("--also '{command}': there is no command");
    }
    let command = words.into_iter().map(OsString::from).collect();
    Ok(Launch { command, has_no_input: true, ..Launch::default() })
}

/// The process whose limits count; `None`: cox's own, which the program inherits.
fn attached_to(target: &Target) -> Option<u32> {
    match target {
        Target::Attach(Subject::Processes(pids)) => pids.first().copied(),
        _ => None,
    }
}

fn words(launch: &Launch) -> Vec<String> {
    launch.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The programs of a session: those that it has launched, or the one thing that it is attached to.
fn programs(target: &Target, outcome: &Outcome) -> Vec<ProgramInfo> {
    match target {
        Target::Launch(launches) if launches.len() > 1 => {
            let launched = outcome.launched.iter().zip(launches);
            let info = |(ended, launch): (&session::Launched, &Launch)| ProgramInfo {
                root_pid: Some(ended.pid),
                command: words(launch),
                exit_code: Some(ended.exit.shell_code()),
                start_ns: ended.start_ns,
                end_ns: Some(ended.end_ns),
            };
            launched.map(info).collect()
        }
        _ => vec![ProgramInfo {
            root_pid: attached_to(target),
            command: command_line(target),
            exit_code: outcome.exit.map(session::Exit::shell_code),
            start_ns: outcome.start_ns,
            end_ns: Some(outcome.end_ns),
        }],
    }
}

/// What programs took from one another.
fn side_by_side(recording: &Recording, programs: &[ProgramInfo], observing: &Observing) -> Result<Beside> {
    let programs = programs.iter().enumerate().map(|(at, program)| {
        let cpus = observing.allowed_of(at);
        beside::Program {
            root_pid: program.root_pid.unwrap_or_default(),
            cpus: cpus.map(|cpus| cpus.iter().collect()),
            named: cpus.map(ToString::to_string).unwrap_or_default(),
        }
    });
    let mut player = Player::new(programs.collect(), recording.cpus, recording.start_ns);
    recording.each(|moment| -> Result<()> {
        player.take(moment);
        Ok(())
    })?;
    Ok(player.finish(recording.end_ns))
}

/// What was observed, for people.
fn command_line(target: &Target) -> Vec<String> {
    match target {
        Target::Launch(launches) => launches.first().map_or_else(Vec::new, words),
        Target::Attach(Subject::Cgroup(cgroup)) => vec!["--cgroup".into(), cgroup.name().display().to_string()],
        Target::Attach(Subject::Processes(pids)) => {
            pids.iter().flat_map(|pid| ["--pid".to_owned(), pid.to_string()]).collect()
        }
        Target::Attach(Subject::Launched(pids)) => pids.iter().map(u32::to_string).collect(),
    }
}

fn report(
    options: &cli::Run,
    target: &Target,
    outcome: &Outcome,
    observing: &mut Observing,
    (surroundings, provenance): (&Surroundings, Provenance),
    (packed, overlapping): (Option<PackReport>, Option<&Overlapping>),
    outputs: Outputs,
) -> Result<Run> {
    let command = command_line(target);
    let programs = programs(target, outcome);
    let record = observing.take_record()?;
    let own_cpu_ns = outcome.own_cpu_ns.saturating_add(observing.cpu_elsewhere_ns());
    let mut account = ledger::accounts::build(&record, &programs, own_cpu_ns);
    account.provenance = Some(Provenance { command: command.clone(), ..provenance });
    refuse_without_threads(&account, target)?;
    // Without a trace there is an account all the same.
    let recorded = observing.take_recorder().map(|recorder| {
        let recording = recorder.finish(&record, &account, observing.waits(), record.cpus.len() as u32)?;
        if programs.len() > 1 {
            account.beside = Some(side_by_side(&recording, &programs, observing)?);
        }
        Ok(recording)
    });
    let packed_cpus = options.pack_cpus.as_ref();
    let mut facts = surroundings.facts(&command, observing.allowed(), packed_cpus, observing.openmp_runtime());
    if !observing.passed_over.is_empty() {
        facts.denied.insert(Facts::EBPF.to_owned());
    }
    let cpus = facts.allowed_cpus.len() as u64;
    let overlap = overlapping.map(|overlapping| super::overlap::report(overlapping, &account, cpus));
    let document = Document { pack: packed, overlap, ..Document::new(env!("CARGO_PKG_VERSION"), account, facts) };
    // Each is written whatever becomes of the others.
    let text = outputs.text.map_or(Ok(()), |output| {
        let mut page = report::text::text(&document, &super::style(Some(&output), options.threads));
        page.push_str(&afterwards(observing, &super::style(Some(&output), options.threads)));
        output.write(page.as_bytes())
    });
    let json =
        outputs.json.map_or(Ok(()), |output| output.write(document.to_json().context("making the JSON")?.as_bytes()));
    let traces = recorded.map_or(Ok(()), |recording: Result<Recording>| outputs.traces.write(&recording?, &document));
    let figures = Run::of(&document);
    // Mostly the process ends here: taking apart the accounts of 50,000 threads one by one helps nobody.
    if options.repeat == 1 {
        std::mem::forget((record, document));
    }
    text.and(json).and(traces).map(|()| figures)
}

/// A report on nothing would be taken for one on a program that did nothing.
fn refuse_without_threads(account: &Account, target: &Target) -> Result<()> {
    if !ledger::summary::is_empty(account) {
        return Ok(());
    }
    match target {
        Target::Attach(Subject::Cgroup(cgroup)) => {
            bail!(
                "no thread was in the control group {} while it was watched; there is no report",
                cgroup.name().display()
            )
        }
        _ => bail!(
            "the backend {} saw no thread of the target; there is no report (another one may: --backend)",
            account.backend.name()
        ),
    }
}

/// The section on packing, when there is nothing else to report.
fn alone(packed: Option<PackReport>, text: Option<Output>) -> Result<()> {
    let Some((packed, output)) = packed.zip(text) else { return Ok(()) };
    let style = super::style(Some(&output), false);
    output.write(packed.text(&style).as_bytes())
}

/// What is worth saying beside the account: why a better backend was not used.
fn afterwards(observing: &Observing, style: &Style) -> String {
    // eBPF comes before perf.
    let backends = ["eBPF", "perf"].iter().zip(&observing.passed_over);
    let lines = backends.flat_map(|(backend, reason)| {
        wrapped(&style.clean(&format!("{backend} not used: {reason}")), style.columns(), "  ", "    ")
    });
    lines.map(|line| line + "\n").collect()
}
