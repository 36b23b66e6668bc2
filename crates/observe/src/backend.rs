//! Chooses the backend that observes: the best one that works here. Records why better ones were passed over.

use anyhow::{Context, Result, bail};
use arch::laps::{self, Part};
use broker::ebpf;
use broker::protocol::Wanted;
use machine::Root;
use machine::topology::Topology;
use outputs::diagnostics::chain;
use watch::{BpfObserver, Observer, Settings, WatchError};
use wire::Backend;
use wire::latency::Scope;

/// The backend that the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Choice {
    /// The best that works: bpf, then perf, then proc.
    #[default]
    Auto,
    /// eBPF on the scheduler's tracepoints: complete observation.
    Bpf,
    /// perf's context-switch records: no wake-ups, no causes of blocking.
    Perf,
    /// /proc, polled: sums only.
    Proc,
}

/// The requirements on a backend.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) choice: Choice,
    /// Whether child processes are observed too.
    pub(crate) children: bool,
    /// The reason why perf cannot observe the target, if this is known before the start.
    pub(crate) hidden: Option<String>,
    /// Size of the buffer for trace events, in bytes, if a trace is wanted. Only eBPF delivers trace events.
    pub(crate) trace_bytes: Option<u32>,
    /// Which programs and threads get histograms of interval lengths.
    pub(crate) latencies: Scope,
    /// Whether instruction pointers are sampled.
    pub(crate) samples: bool,
}

/// The error if a trace is wanted without eBPF.
const NEEDS_BPF: &str =
    "traces, HTML pages and --co-run need eBPF (--backend bpf): other backends do not record when each event happened";

impl Asked {
    /// Loads a backend. `auto` takes the best that works, and adds to `passed_over` why better ones did not work. A named backend must
    /// work.
    ///
    /// # Errors
    /// The named backend cannot be used here; for `auto`: no backend can be used here.
    pub(crate) fn load(&self, passed_over: &mut Vec<String>) -> Result<Box<dyn Observer>> {
        Ok(match self.choice {
            Choice::Perf | Choice::Proc if self.trace_bytes.is_some() => bail!(NEEDS_BPF),
            Choice::Bpf => self.bpf()?,
            Choice::Auto if self.trace_bytes.is_some() => self.bpf().context(NEEDS_BPF)?,
            Choice::Perf => self.perf()?,
            Choice::Proc => self.proc()?,
            Choice::Auto => self
                .bpf()
                .or_else(|error| {
                    passed_over.push(error.to_string());
                    self.perf()
                })
                .or_else(|error| {
                    passed_over.push(error.to_string());
                    self.proc()
                })?,
        })
    }

    /// Loads the next weaker backend after `failed`, if the choice is `auto` and eBPF is not required; otherwise returns the error `why`. `why` is
    /// the reason why `failed` cannot observe this target; it is added to `passed_over`.
    ///
    /// # Errors
    /// `why`, or the reason why no weaker backend can be used.
    pub(crate) fn load_weaker(
        &self,
        failed: Backend,
        why: anyhow::Error,
        passed_over: &mut Vec<String>,
    ) -> Result<Box<dyn Observer>> {
        if self.choice != Choice::Auto || self.trace_bytes.is_some() {
            return Err(why);
        }
        let weaker = match failed {
            Backend::Bpf => self.perf().or_else(|_| self.proc())?,
            Backend::Perf => self.proc()?,
            _ => return Err(why),
        };
        passed_over.push(chain(&why));
        Ok(weaker)
    }

    /// Returns what is asked of eBPF.
    fn wanted(&self) -> Wanted {
        let Asked { children, samples, trace_bytes, latencies, .. } = *self;
        Wanted { children, samples, trace_bytes, latencies }
    }

    /// Loads eBPF in this process if it has the rights, otherwise in the helper process, which has them.
    fn bpf(&self) -> Result<Box<dyn Observer>, WatchError> {
        laps::done(Part::Preparing);
        let wanted = self.wanted();
        if !ebpf::may_itself() {
            return ebpf::by_helper(wanted);
        }
        let settings = settings(wanted)?;
        Ok(Box::new(BpfObserver::new(&settings, None).map_err(ebpf::explained)?))
    }

    fn perf(&self) -> Result<Box<dyn Observer>, WatchError> {
        if let Some(why) = &self.hidden {
            let why = format!("{why}. Fix: run it as a user who may read it, or use --backend proc");
            return Err(WatchError::Unavailable { what: "cannot observe with perf".into(), why });
        }
        Ok(Box::new(watch::perf::PerfObserver::new(self.children, self.samples)?))
    }

    fn proc(&self) -> Result<Box<dyn Observer>, WatchError> {
        Ok(Box::new(watch::proc::ProcObserver::new(self.children)?))
    }
}

/// Returns the settings with which this process loads its eBPF programs to observe.
///
/// # Errors
/// `Unavailable` if the machine's CPUs cannot be read.
pub fn settings(wanted: Wanted) -> Result<Settings, WatchError> {
    let Wanted { children, samples, trace_bytes, latencies } = wanted;
    let topology = Topology::read(&Root::live()).map_err(unavailable)?;
    let limit = topology.possible.last().map_or(1, |last| last + 1);
    let usual = Settings::new(topology.online.len() as u32, limit);
    let sample_period_ns = if samples { usual.sample_period_ns } else { 0 };
    Ok(Settings { children, sample_period_ns, trace_bytes, latencies, ..usual })
}

fn unavailable(error: machine::Error) -> WatchError {
    WatchError::Unavailable { what: "cannot observe".into(), why: error.to_string() }
}
