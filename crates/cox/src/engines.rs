//! Creates the engines of a session from the options. An engine is a part of a session: it observes the program, packs it, or runs its tasks.

use std::time::Duration;

use anyhow::{Result, anyhow};
use broker::{ebpf, protocol};
use machine::Root;
use noise::{OfPhases, OfProgram};
use observe::{Observing, Recorder, backend};
use overlap::Overlapping;
use pack::engine::{How, OnTrial, Packing, Wanted};
use pack::policy::controller::Settings;
use pack::policy::mode::Periods;
use quiet::{Extent, Quieting};
use schedules::Scheduling;
use schedules::engine::Asked;
use session::Engines;
use watch::Sight;
use watch::bpf::{self, Expectation, Snapshots};
use wire::latency::Scope;

use crate::cli::{self, PackBackend};

/// Returns the engines of `cox run`, which observe, pack, and run tasks. The observing engine starts first and stops last, so that it observes all of
/// the packing.
pub fn of_run(options: &cli::Run, recorder: Option<Recorder>, schedules: Option<Asked>) -> Engines {
    let children = !options.no_children;
    let packing = options.pack_cpus.clone().map(|cpus| {
        // The observer has its BPF programs attached for the whole run.
        let how = How { children, preload: !options.no_preload, pauses: false, ..How::default() };
        Packing::new(Wanted::Named { option: "--pack-cpus", cpus }, &how)
    });
    let scheduling = schedules.map(|asked| scheduling(asked, children));
    let overlapping = options.overlap.map(|backend| Overlapping::new(backend, children));
    // It attaches first, so that the others observe nothing of the moving of threads.
    let quieting = options.quiet_cpus.clone().map(|cpus| {
        Quieting::new(quiet::CpuRequest::Named(cpus), Extent { level: options.quiet_level, isolated: false })
    });
    // Single interruptions are for pictures over time.
    let is_drawn = options.traces.are_wanted();
    let of_program = || if is_drawn { OfProgram::new(children).with_list() } else { OfProgram::new(children) };
    let interruptions = options.noise.then(of_program);
    let observing = Observing::new(options.backend, children, recorder, scope(options));
    Engines::new()
        .and(quieting)
        .with(if samples(options) { observing } else { observing.without_samples() })
        .and(interruptions)
        .and((options.noise && !options.no_preload).then(|| OfPhases::new(children)))
        .and(packing)
        .and(overlapping)
        // The library for loops comes behind the one for tasks, whose engine is above.
        .and(scheduling)
}

/// Returns the engine for loops.
fn scheduling(asked: Asked, children: bool) -> Scheduling {
    let root = Root::live();
    let allowed = machine::limits::allowed_cpus(&root, machine::limits::Who::Own).ok();
    Scheduling::new(asked, children, allowed)
}

/// Returns the loop schedule that `cox run` is asked for.
///
/// # Errors
/// If it needs facts that are not given.
pub fn schedules(options: &cli::Run) -> Result<Option<Asked>> {
    let asked = options.schedule.as_ref().map(|schedule| {
        Asked::parse(schedule, options.schedule_inputs.as_deref())
            .map(|asked| asked.with_timing(options.timing))
            .map_err(|why| anyhow!("--schedule {schedule}: {why}"))
    });
    asked.transpose()
}

/// Registers the eBPF programs that `cox run` will need to observe, pack and run tasks. They are then loaded together, so that each context switch
/// runs only one eBPF program. Call this before the session probes its engines, because that loads the programs. The registration ends when the
/// returned value is dropped. Returns `None` if the session neither packs nor runs tasks, or if cox itself may not load eBPF programs.
pub fn expected(options: &cli::Run, recorder: Option<&Recorder>) -> Option<Expectation> {
    let is_alone = options.pack_cpus.is_none() && options.overlap.is_none() && !options.noise;
    if is_alone || !ebpf::may_itself() {
        return None;
    }
    let children = !options.no_children;
    let observes = matches!(options.backend, backend::Choice::Auto | backend::Choice::Bpf);
    let trace_bytes = recorder.map(|recorder| recorder.buffer);
    let wanted = protocol::Wanted { children, samples: samples(options), trace_bytes, latencies: scope(options) };
    let settings = || backend::settings(wanted).ok();
    Some(bpf::expect(bpf::Parts {
        clocks: observes.then(settings).flatten(),
        snapshots: options.pack_cpus.is_some().then_some(Snapshots { children }),
        overlap: matches!(options.overlap, Some(overlap::Backend::Auto | overlap::Backend::Bpf)),
        noise: options.noise.then(|| noise::program::settings(children)),
        owner: None,
    }))
}

/// Returns whether the observer samples the program's threads. A sample is an interrupt by a timer of ours: where noise is measured, it would be a part
/// of what is measured, and makes the kernel's own interrupts longer.
pub fn samples(options: &cli::Run) -> bool {
    !options.noise
}

/// Returns which histograms of interval lengths the kernel keeps: for how many programs, and whether also for each thread.
fn scope(options: &cli::Run) -> Scope {
    Scope { programs: 1 + options.co_run.len() as u32, threads: options.latency }
}

/// Returns the engines of `cox pack`: only the packer.
pub fn of_pack(options: &cli::Pack) -> Result<Engines> {
    let how = How {
        children: !options.no_children,
        settings: settings(options.period, options.always),
        sight: match options.backend {
            PackBackend::Auto => Sight::Best,
            PackBackend::Bpf => Sight::Traced,
            PackBackend::Proc => Sight::Polled,
        },
        log: options.log_moves.is_some(),
        preload: !options.no_preload,
        ..How::default()
    };
    Ok(Engines::new().with(Packing::new(wanted(&options.cpus)?, &how)))
}

/// Returns the engines of `cox advise`: only the packer, in a trial in which the kernel and the packer place the threads alternately.
pub fn of_advise(options: &cli::Advise) -> Result<Engines> {
    Ok(Engines::new().with(OnTrial::new(wanted(&options.cpus)?, !options.no_children)))
}

/// Returns the CPUs to pack on.
fn wanted(cpus: &cli::Cpus) -> Result<Wanted> {
    Wanted::of(cpus.cpus.clone(), cpus.ncpus)
}

/// Returns the settings of the packer. If `period` is given, it is the fixed scheduling period; otherwise the packer searches for the best one.
pub fn settings(period: Option<Duration>, always: bool) -> Settings {
    let periods = period.map_or(Periods::Adapted, |length| Periods::Fixed(length.as_nanos() as u64));
    Settings { periods, always, ..Settings::default() }
}
