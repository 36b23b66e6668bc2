//! Records of all processes become the section of the report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use loops::Kind;
use loops::advice::{Advice, Did, advise};
use loops::figures::load_imbalance;
use loops::options::{Options, Wanted};
use loops::saved::{Module, Saved, SavedLoop};
use loops::selection::auto::Reason;
use machine::Root;
use report::loops::{LoopReport, LoopsReport, Selection};
use wire::loop_records::{Clause, Contents, Values};

use crate::places::Places;

/// What makes two records ones of the same loop: module, address, threads, clause.
type Key<'c> = (&'c [u8], u64, u64, u64);

/// A loop, as the sum of its records.
#[derive(Default)]
struct Sum {
    values: Values,
    /// Instances of the record whose schedule is in `values`.
    of_schedule: u64,
    teams: u64,
    wall_ns: f64,
    finish_ns: f64,
    request_ns: f64,
    os_caused_ns: f64,
}

/// Returns the section.
#[must_use]
pub fn of(options: &Options, processes: &[Contents], root: &Root) -> LoopsReport {
    let mut sums: BTreeMap<Key<'_>, Sum> = BTreeMap::new();
    for process in processes {
        for record in process.records.iter().filter(|record| record.instances > 0) {
            let module = usize::try_from(record.module).ok().and_then(|number| process.modules.get(number));
            let key = (module.map_or(&[][..], Vec::as_slice), record.place, record.threads, record.clause);
            sums.entry(key).or_default().add(record, process.ns_per_tick);
        }
    }
    let mut places = Places::new(root);
    let mut loops: Vec<LoopReport> = sums.iter().map(|(key, sum)| sum.report(*key, &mut places)).collect();
    loops.sort_by_key(|one| Reverse(one.wall_ns));
    if options.wanted == Wanted::AsWritten {
        loops.iter_mut().for_each(|one| one.advice = Some(advice(one)));
    }
    let lost: u64 = processes.iter().map(|process| process.lost).sum();
    LoopsReport {
        schedule: options.wanted.to_string(),
        all: options.all,
        processes: processes.len() as u64,
        loops,
        lost_records: lost,
    }
}

/// Returns what would help a loop that had the schedule of its program.
fn advice(one: &LoopReport) -> String {
    let part = |ns: u64| ns as f64 / one.wall_ns.max(1) as f64;
    let did = Did {
        schedule: Kind::find(&one.schedule).unwrap_or(Kind::Static),
        threads: one.threads,
        iterations: one.iterations as f64 / one.instances.max(1) as f64,
        imbalance: part(one.imbalance_ns),
        os_caused: one.os_caused_ns.map_or(0.0, part),
        requests: one.request_ns.map_or(0.0, part) / one.threads.max(1) as f64,
    };
    let option = |kind: Kind| {
        let all = if matches!(one.clause.as_str(), "dynamic" | "guided") { "all:" } else { "" };
        format!("{all}{}", kind.name())
    };
    match advise(&did) {
        Advice::Nothing => "little to gain".to_owned(),
        Advice::Schedule(kind) => option(kind),
        Advice::TooFewIterations => "more iterations than threads".to_owned(),
        Advice::LongIterations => "shorter iterations".to_owned(),
        Advice::TheOs(kind) => format!("free CPUs, {}", option(kind)),
    }
}

/// Returns what `auto` has selected, and why.
fn selection(values: &Values) -> Option<Selection> {
    let nth = |number: u64| usize::try_from(number.checked_sub(1)?).ok();
    let reason = match Reason::ALL.get(nth(values.reason)?)? {
        Reason::Fastest => "fastest",
        Reason::Balanced => "balanced",
        Reason::Similar => "similar",
    };
    let second = nth(values.second).and_then(|number| Kind::all().nth(number));
    let factor = f64::from_bits(values.second_factor);
    Some(Selection {
        reason: reason.to_owned(),
        rounds: values.rounds,
        second: second.map(|kind| kind.name().to_owned()),
        second_factor: second.map(|_| factor).filter(|factor| factor.is_finite()),
        selections: values.selections,
    })
}

/// Returns the schedules of the loops, for a later run: those that were selected.
#[must_use]
pub fn saved(report: &LoopsReport, build_id: impl Fn(&str) -> Option<String>) -> Saved {
    let mut saved = Saved { all: report.all, ..Saved::default() };
    for one in &report.loops {
        let selected = one.selection.is_some() || one.saved;
        let (Ok(schedule), Ok(threads), true) = (one.schedule.parse(), u32::try_from(one.threads), selected) else {
            continue;
        };
        let known = saved.modules.iter().position(|module| module.path == one.module);
        let module = known.unwrap_or_else(|| {
            saved.modules.push(Module { build_id: build_id(&one.module), path: one.module.clone() });
            saved.modules.len() - 1
        });
        saved.loops.push(SavedLoop { module, address: one.address, clause: one.clause.clone(), threads, schedule });
    }
    saved
}

impl Sum {
    fn add(&mut self, record: &Values, ns_per_tick: f64) {
        let values = &mut self.values;
        let ns = |ticks: u64| ticks as f64 * ns_per_tick;
        values.least_trips =
            if self.teams == 0 { record.least_trips } else { values.least_trips.min(record.least_trips) };
        values.most_trips = values.most_trips.max(record.most_trips);
        (values.clause_chunk, values.is_monotonic) = (record.clause_chunk, record.is_monotonic);
        if record.instances > self.of_schedule {
            self.of_schedule = record.instances;
            (values.schedule, values.selections) = (record.schedule, record.selections);
            (values.reason, values.rounds, values.is_saved) = (record.reason, record.rounds, record.is_saved);
            (values.second, values.second_factor) = (record.second, record.second_factor);
        }
        for (sum, more) in [
            (&mut values.instances, record.instances),
            (&mut values.substitutes, record.substitutes),
            (&mut values.incomplete, record.incomplete),
            (&mut values.trips, record.trips),
            (&mut values.chunks, record.chunks),
            (&mut values.requests, record.requests),
            (&mut values.delays_known, record.delays_known),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.teams += 1;
        // Of all instances that were not left early, if the times of some are known.
        let complete = record.instances.saturating_sub(record.incomplete) as f64;
        let factor = complete / record.clocked.max(1) as f64;
        self.wall_ns += ns(record.wall) * factor;
        self.finish_ns += ns(record.finish) * factor;
        self.request_ns += ns(record.request);
        self.os_caused_ns += ns(record.os_caused);
    }

    fn report(&self, (module, address, threads, clause): Key<'_>, places: &mut Places<'_>) -> LoopReport {
        let place = places.of(module, address);
        let values = &self.values;
        let mean_ns = self.finish_ns / threads.max(1) as f64;
        let imbalance_ns = (self.wall_ns - mean_ns).max(0.0);
        let lib = load_imbalance(mean_ns, self.wall_ns, threads as f64).clamp(0.0, 1.0);
        // The mean of the requests that were timed, for all: one for each chunk, and one in vain for each thread.
        let requests = values.chunks.saturating_add(values.instances.saturating_mul(threads));
        let request_ns = (values.requests > 0).then(|| self.request_ns / values.requests as f64 * requests as f64);
        let schedule = usize::try_from(values.schedule).ok().and_then(|number| Kind::all().nth(number));
        LoopReport {
            function: place.function,
            file: place.file,
            line: place.line,
            module: String::from_utf8_lossy(module).into_owned(),
            address,
            clause: Clause::from_number(clause).map_or("unknown", Clause::name).to_owned(),
            clause_chunk: values.clause_chunk,
            monotonic: values.is_monotonic != 0,
            schedule: schedule.map_or("unknown", Kind::name).to_owned(),
            threads,
            instances: values.instances,
            substituted: values.substitutes,
            incomplete: values.incomplete,
            iterations: values.trips,
            least_iterations: values.least_trips,
            most_iterations: values.most_trips,
            chunks: values.chunks,
            wall_ns: self.wall_ns as u64,
            imbalance_ns: if threads > 1 { imbalance_ns as u64 } else { 0 },
            load_imbalance: lib,
            request_ns: request_ns.map(|ns| ns as u64),
            advice: None,
            selection: selection(values),
            saved: values.is_saved != 0,
            // Of all instances, if it is known of some.
            os_caused_ns: (values.delays_known > 0)
                .then(|| (self.os_caused_ns * values.instances as f64 / values.delays_known as f64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(place: u64, threads: u64) -> Values {
        Values {
            place,
            threads,
            instances: 10,
            trips: 1000,
            least_trips: 100,
            most_trips: 100,
            chunks: 50,
            wall: 1000,
            clocked: 10,
            ..Values::default()
        }
    }

    fn process(records: &[Values], ns_per_tick: f64) -> Contents {
        Contents { pid: 1, modules: vec![b"/bin/app".to_vec()], records: records.to_vec(), lost: 0, ns_per_tick }
    }

    fn of_records(processes: &[Contents]) -> LoopsReport {
        of(&Options::parse("all:fac2", None).unwrap(), processes, &Root::live())
    }

    #[test]
    fn records_of_a_loop_are_added_and_others_kept_apart() {
        let first = Values {
            finish: 3000,
            least_trips: 90,
            request: 300,
            requests: 30,
            schedule: Kind::Fac2 as u64,
            ..record(64, 4)
        };
        let second = Values {
            finish: 4000,
            instances: 20,
            clocked: 20,
            most_trips: 200,
            schedule: Kind::Ss as u64,
            ..record(64, 4)
        };
        let other = Values { finish: 2000, wall: 9000, ..record(64, 8) };
        let report = of_records(&[process(&[first, other], 0.5), process(&[second], 2.0)]);
        assert_eq!((report.schedule.as_str(), report.all, report.processes), ("fac2", true, 2));
        let [longer, both] = &report.loops[..] else { panic!("{report:?}") };
        assert_eq!((longer.threads, longer.wall_ns), (8, 4500));
        assert_eq!((both.threads, both.instances, both.iterations, both.chunks), (4, 30, 2000, 100));
        assert_eq!((both.least_iterations, both.most_iterations, both.schedule.as_str()), (90, 200, "ss"));
        // 1000 ticks of half a nanosecond and 1000 of two; the threads' mean is 3000/4 · 0.5 + 4000/4 · 2.
        assert_eq!((both.wall_ns, both.imbalance_ns), (2500, 125));
        assert!((both.load_imbalance - 125.0 / 2500.0 * 4.0 / 3.0).abs() < 1e-12);
        // 5 ns each, for 100 chunks and four more in each of the 30 instances.
        assert_eq!((both.request_ns, both.os_caused_ns), (Some(1100), None));
        assert_eq!((both.module.as_str(), both.address), ("/bin/app", 64));
    }

    /// Of 21 instances, one was cancelled, and the times of five are known: 4 times their sums.
    #[test]
    fn times_of_some_instances_stand_for_all() {
        let short = Values { instances: 21, incomplete: 1, clocked: 5, finish: 3000, ..record(64, 4) };
        let report = of_records(&[process(&[short], 1.0)]);
        assert_eq!((report.loops[0].wall_ns, report.loops[0].imbalance_ns), (4000, 1000));
        let unknown = Values { clocked: 0, wall: 0, finish: 0, ..short };
        assert_eq!(of_records(&[process(&[unknown], 1.0)]).loops[0].wall_ns, 0);
    }

    #[test]
    fn what_was_selected_is_saved() {
        let selected = Values {
            schedule: Kind::Fac2 as u64,
            reason: 1,
            rounds: 3,
            second: Kind::Gss as u64 + 1,
            second_factor: 1.25f64.to_bits(),
            ..record(64, 4)
        };
        let trying = Values { reason: 0, ..record(65, 4) };
        let report = of_records(&[process(&[selected, trying], 1.0)]);
        let selection = report.loops.iter().find_map(|one| one.selection.clone()).unwrap();
        assert_eq!(
            (selection.reason.as_str(), selection.rounds, selection.second.as_deref()),
            ("fastest", 3, Some("gss"))
        );
        assert_eq!(selection.second_factor, Some(1.25));
        let saved = saved(&report, |path| Some(format!("id of {path}")));
        assert_eq!((saved.all, saved.modules.len(), saved.loops.len()), (true, 1, 1));
        assert_eq!(saved.modules[0].build_id.as_deref(), Some("id of /bin/app"));
        assert_eq!(saved.of("/bin/app", 64, "runtime", 4).map(|schedule| schedule.kind), Some(Kind::Fac2));
    }

    #[test]
    fn a_thread_alone_has_no_imbalance_and_no_number_of_a_program_can_do_harm() {
        let alone = Values { finish: 800, ..record(8, 1) };
        let wrong = Values {
            module: u64::MAX,
            clause: 99,
            schedule: 99,
            finish: u64::MAX,
            trips: u64::MAX,
            chunks: u64::MAX,
            ..record(9, u64::MAX)
        };
        let report = of_records(&[process(&[alone, wrong, wrong], 1.0)]);
        let one = report.loops.iter().find(|one| one.threads == 1).unwrap();
        assert_eq!((one.imbalance_ns, one.load_imbalance), (0, 0.0));
        let other = report.loops.iter().find(|one| one.threads != 1).unwrap();
        assert_eq!((other.clause.as_str(), other.schedule.as_str(), other.module.as_str()), ("unknown", "unknown", ""));
    }
}
