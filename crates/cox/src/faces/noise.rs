//! The section of the noise engine as a document: names for causes, and sums.

mod samples;
mod ticks;

use std::collections::BTreeMap;

use interference::audit::Compared;
use interference::describe::{self, Names};
use interference::detours::Detour;
use interference::entries::Entries;
use interference::parts::Parts;
use interference::ticks::{OF_DETOURS, OF_QUANTA, groups};
use interference::{Cause, CauseId};
use machine::Root;
use machine::interrupts;
use machine::topology::Topology;
use noise::findings::OfCpu;
use noise::loops::Counted;
use noise::source::Functions;
use noise::{Loop, Measured, Work};
use report::noise as doc;
use samples::Samples;
use session::provenance;
use syscalls::Sysno;

/// Returns the document.
pub fn document(measured: &Measured) -> doc::NoiseReport {
    let names = KernelNames::with(&measured.functions);
    let found = &measured.found;
    let begin_ns = found.cpus.iter().map(|cpu| cpu.window_ns.0).min().unwrap_or(0);
    let mut causes: Vec<doc::Cause> = found.causes.all().iter().map(|cause| names.cause(cause)).collect();
    let special = |name: &str, class: &str| doc::Cause {
        name: name.to_owned(),
        class: class.to_owned(),
        knob: None,
        call_site: None,
    };
    let outside = causes.len() as u32;
    // Fixed work takes longer also if the CPU is slower: clock rate, SMT sibling, caches.
    let without_event = match measured.plan.measuring {
        Loop::Fwq(..) | Loop::Bsp(_) => "no interruption (slower work, or outside this kernel)",
        Loop::Detour | Loop::Ftq(_) => "outside this kernel",
    };
    causes.push(special(without_event, "outside"));
    causes.push(special("unknown", "unknown"));
    let is_complete = measured.blind.is_none() && measured.lost == 0 && measured.clock_changed_ppm.is_none();
    let of_cpu = |cpu: &OfCpu| Cpu { measured, names: &names, cpu, begin_ns, outside, is_complete }.document();
    let cpus = found.cpus.iter().map(of_cpu).collect();
    let both = |of: fn(&noise::counters::Thread) -> u64| {
        found.threads.as_ref().map(|(kernel, events)| [of(kernel), of(events)])
    };
    let plan = &measured.plan;
    let (measuring, work, quantum) = match plan.measuring {
        Loop::Detour => ("detour", None, None),
        Loop::Fwq(work, quantum) => ("fwq", Some(work), Some(quantum)),
        Loop::Ftq(quantum) => ("ftq", Some(Work::Integer), Some(quantum)),
        Loop::Bsp(quantum) => ("bsp", Some(Work::Integer), Some(quantum)),
    };
    let work = work.map(|work| match work {
        Work::Integer => "integer".to_owned(),
        Work::Fma => "fma".to_owned(),
        Work::Streaming => "streaming".to_owned(),
    });
    doc::NoiseReport {
        schema_version: doc::SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        provenance: provenance::here("cox", None),
        measurement: doc::Measurement {
            measuring: measuring.to_owned(),
            work,
            quantum_ns: quantum.map(|quantum| quantum.as_nanos() as u64),
            pinned: plan.pinned,
            length_ns: plan.length.as_nanos() as u64,
            ended_early: measured.ended_early,
            guest: Some(machine::hypervisor::is_guest(&Root::live())),
            threshold_ns: measured.threshold_ns,
            coarse_threshold_ns: measured.coarse_ns,
            smallest_gap_ns: measured.smallest_gap_ns,
            begin_ns,
            online_cpus: Topology::read_online(&Root::live()).map_or(0, |online| online.len() as u32),
        },
        clock: doc::Clock {
            source: measured.clock_source.clone(),
            ticks_per_us: measured.clock.ticks_per_ns() * 1e3,
            error_ppm: measured.clock.error_ppm(),
            changed_ppm: measured.clock_changed_ppm,
        },
        events: doc::Events {
            blind: measured.blind.clone(),
            count: measured.events,
            lost: measured.lost,
            without: measured.without.clone(),
            switches: both(|thread| thread.switches),
            page_faults: both(|thread| thread.faults),
        },
        causes,
        cpus,
    }
}

/// The names of the running kernel.
pub struct KernelNames<'f> {
    functions: &'f Functions,
    devices: BTreeMap<u32, String>,
}

impl KernelNames<'_> {
    /// Reads the names of devices, and takes those of functions.
    pub fn with(functions: &Functions) -> KernelNames<'_> {
        let root = Root::live();
        let devices = |row: &interrupts::Row| Some((row.name.parse().ok()?, row.devices().join(", ")));
        let rows = interrupts::interrupts(&root).unwrap_or_default();
        KernelNames {
            functions,
            devices: rows.iter().filter_map(devices).filter(|(_, names): &(u32, String)| !names.is_empty()).collect(),
        }
    }

    /// Returns a cause with its names.
    pub fn cause(&self, cause: &Cause) -> doc::Cause {
        let place = match cause {
            Cause::Call { sender: Some(sender), .. } | Cause::Reschedule { sender: Some(sender) } => Some(sender.place),
            _ => None,
        };
        doc::Cause {
            name: describe::name(cause, self),
            class: describe::class(cause, self).to_owned(),
            knob: describe::knob(cause, self),
            call_site: place.and_then(|place| self.function(place)),
        }
    }
}

impl Names for KernelNames<'_> {
    fn function(&self, number: u64) -> Option<String> {
        self.functions.get(&number).cloned()
    }

    fn devices(&self, irq: u32) -> Option<String> {
        self.devices.get(&irq).cloned()
    }

    fn call(&self, number: u32) -> Option<String> {
        Sysno::new(number as usize).map(|call| call.name().to_owned())
    }

    fn can_stop_ticks(&self) -> bool {
        machine::ticks::can_be_stopped(&Root::live())
    }
}

/// What is needed for the figures of one CPU.
struct Cpu<'m> {
    measured: &'m Measured,
    names: &'m KernelNames<'m>,
    cpu: &'m OfCpu,
    begin_ns: u64,
    /// Index of the cause `outside`; that of `unknown` follows.
    outside: u32,
    /// Whether the events are complete and can be compared with the detours, apart from the CPU's audit.
    is_complete: bool,
}

impl Cpu<'_> {
    fn document(&self) -> doc::Cpu {
        let (cpu, clock) = (self.cpu, &self.measured.clock);
        let series = &cpu.series;
        let check = check(&cpu.audit, &cpu.silent);
        // A detour without an event is outside this kernel only if the kernel's counters agree with the events.
        let no_event = if self.is_complete && check.is_complete() { self.outside } else { self.outside + 1 };
        // Of fixed time quanta, the work is counted and not timed.
        let has_work = matches!(self.measured.plan.measuring, Loop::Fwq(..) | Loop::Bsp(_));
        let quiet_ns = has_work.then(|| clock.length_ns(series.watched.smallest));
        let excess = |detour: &Detour| detour.length_ns.saturating_sub(quiet_ns.unwrap_or(0));
        let above = |counted: &Counted| doc::Above {
            count: counted.count,
            stolen_ns: clock.length_ns(counted.sum),
            longest_ns: clock.length_ns(counted.longest),
        };
        let length_ns = cpu.window_ns.1.saturating_sub(cpu.window_ns.0);
        let end_of_list = cpu.detours.last().map_or(cpu.window_ns.0, |last| last.start_ns + last.length_ns);
        let listed_ns =
            if series.is_truncated() { end_of_list.saturating_sub(cpu.window_ns.0).min(length_ns) } else { length_ns };
        let parts = self.parts(&excess);
        let charges = self.charges(&parts, no_event, &excess);
        let sum_of = |of: &dyn Fn(u32) -> bool| -> u64 {
            charges.iter().flatten().filter(|(at, _)| of(*at)).map(|(_, ns)| ns).sum()
        };
        // Fixed time quanta find no detours that could have causes.
        let told = self.measured.blind.is_none() && !matches!(self.measured.plan.measuring, Loop::Ftq(_));
        let detours = cpu.detours.iter().zip(&charges).map(|(detour, charged)| {
            let most = charged.iter().max_by_key(|(_, ns)| *ns).map_or(self.outside + 1, |(at, _)| *at);
            (detour.start_ns.saturating_sub(self.begin_ns), detour.length_ns, most)
        });
        let uncovered = if has_work { OF_QUANTA } else { OF_DETOURS };
        let ticks = groups(parts.iter().flatten(), uncovered, &self.measured.found.causes, self.names);
        let samples = Samples::of(series, self.measured.plan.measuring, clock);
        doc::Cpu {
            cpu: cpu.cpu,
            tid: cpu.tid,
            begin_ns: cpu.window_ns.0.saturating_sub(self.begin_ns),
            length_ns,
            listed_ns,
            readings: series.watched.readings,
            quiet_ns,
            step_ns: (!series.compute.is_empty()).then(|| {
                let sum: u64 = series.samples.iter().sum();
                sum as f64 / series.samples.len() as f64 / clock.ticks_per_ns()
            }),
            fine: above(&series.all),
            coarse: above(&series.coarse),
            truncated: series.is_truncated(),
            caused_ns: told.then(|| sum_of(&|at| at < self.outside)),
            outside_ns: told.then(|| sum_of(&|at| at == self.outside)),
            unknown_ns: told.then(|| sum_of(&|at| at > self.outside)),
            by_cause: if told { self.by_cause(&charges) } else { Vec::new() },
            check,
            steal_ns: cpu.steal_ns,
            detours: detours.collect(),
            ticks: ticks.into_iter().map(ticks::row).collect(),
            lengths: samples.lengths,
            quanta: samples.quanta,
            steps: samples.steps,
            until_barrier: samples.until_barrier,
            loss: samples.loss,
            spectrum: samples.spectrum,
        }
    }

    /// What each detour consists of; `None` without an event. Of quanta, only the excess is divided.
    fn parts(&self, excess: &dyn Fn(&Detour) -> u64) -> Vec<Option<Parts>> {
        let (cpu, causes) = (self.cpu, &self.measured.found.causes);
        let entries = Entries::of(cpu.findings.iter().zip(cpu.detours.iter().map(excess)), causes);
        let parts = |(at, detour): (usize, &Detour)| Parts::of(cpu.findings.get(at)?, excess(detour), &entries, causes);
        cpu.detours.iter().enumerate().map(parts).collect()
    }

    /// For each detour, the causes that it is charged to, and with how much. What no event covers is charged to `no_event`.
    fn charges(&self, parts: &[Option<Parts>], no_event: u32, excess: &dyn Fn(&Detour) -> u64) -> Vec<Vec<(u32, u64)>> {
        let charge = |(parts, detour): (&Option<Parts>, &Detour)| match parts {
            Some(parts) => {
                let beyond = (parts.beyond_ns > 0).then_some((no_event, parts.beyond_ns));
                parts.charged().into_iter().map(|(CauseId(at), ns)| (at, ns)).chain(beyond).collect()
            }
            None => vec![(no_event, excess(detour))],
        };
        parts.iter().zip(&self.cpu.detours).map(charge).collect()
    }

    fn by_cause(&self, charges: &[Vec<(u32, u64)>]) -> Vec<doc::Taken> {
        let mut taken: BTreeMap<u32, doc::Taken> = BTreeMap::new();
        let empty = |cause| doc::Taken { cause, count: 0, inside_ns: 0, stolen_ns: 0, median_ns: 0, longest_ns: 0 };
        for (CauseId(at), sum) in self.measured.found.account.of_thread(self.cpu.tid) {
            let of = taken.entry(at).or_insert_with(|| empty(at));
            of.count = sum.lengths.count();
            of.inside_ns = sum.inside_ns;
            of.median_ns = sum.lengths.median_ns();
            of.longest_ns = sum.lengths.longest_ns();
        }
        for (at, ns) in charges.iter().flatten() {
            taken.entry(*at).or_insert_with(|| empty(*at)).stolen_ns += ns;
        }
        for at in [self.outside, self.outside + 1] {
            let mut lengths: Vec<u64> =
                charges.iter().flatten().filter(|(of, _)| *of == at).map(|(_, ns)| *ns).collect();
            lengths.sort_unstable();
            if let (Some(of), Some(longest)) = (taken.get_mut(&at), lengths.last()) {
                of.count = lengths.len() as u64;
                of.median_ns = lengths[lengths.len() / 2];
                of.longest_ns = *longest;
            }
        }
        let mut taken: Vec<doc::Taken> = taken.into_values().collect();
        taken.sort_by_key(|of| (std::cmp::Reverse((of.stolen_ns, of.inside_ns)), of.cause));
        taken
    }
}

fn check(rows: &[Compared], silent: &[&str]) -> doc::Check {
    let mut not_seen = interference::audit::not_seen(rows);
    not_seen.extend(silent.iter().map(|file| format!("what {file} does not tell here")));
    doc::Check {
        agreeing: rows.iter().filter(|row| row.agrees()).count() as u64,
        not_seen,
        rows: rows.iter().map(|row| (row.name.clone(), row.kernel, row.events)).collect(),
    }
}
