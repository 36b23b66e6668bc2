//! The observer's results during a session, by each backend that works here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write;
use std::time::Duration;

use ledger::accounts::ProgramInfo;
use observe::{Choice, Observed, Observing};
use session::{Ended, Engines, Findings, Launch, Limits, Live, Target, run};
use wire::latency::Scope;

/// Threads, and the time that they ran.
type Sums = (usize, u64);

fn sums(observed: &Observed) -> Sums {
    let account = ledger::accounts::build(&observed.record, &[ProgramInfo::default()], 0);
    let run_ns = ledger::summary::threads(&account).map(|thread| thread.run_ns).sum();
    (ledger::summary::threads(&account).count(), run_ns)
}

/// The sums of all snapshots, and those of the end; `None`: this backend does not work here.
fn session(choice: Choice) -> Option<(Vec<Sums>, Sums)> {
    // A child that has ended, and a program that goes on.
    let script = "(:); end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done";
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let target = Target::Launch(vec![Launch { command, ..Launch::default() }]);
    let mut shown = Vec::new();
    let mut show = |mut findings: Findings| shown.extend(findings.section::<Observing>().map(|found| sums(&found)));
    let live = Some(Live { every: Duration::from_millis(150), show: &mut show });
    let engines = Engines::new().with(Observing::new(choice, true, None, Scope::default()));
    let mut outcome = match run(&target, engines, Limits { live, ..Limits::default() }) {
        Ok(outcome) => outcome,
        Err(why) => {
            // The harness swallows what is written in any other way.
            let _ = writeln!(std::io::stderr(), "skipped: snapshots_by_{choice:?}: {why}");
            return None;
        }
    };
    assert!(outcome.findings.failures().is_empty());
    assert_ne!(outcome.ended, Ended::default());
    Some((shown, sums(&outcome.findings.section::<Observing>().unwrap())))
}

#[test]
fn snapshots_grow_into_what_is_found_in_the_end() {
    for choice in [Choice::Proc, Choice::Perf, Choice::Bpf] {
        let Some((shown, (threads, run_ns))) = session(choice) else { continue };
        assert!(shown.len() > 2, "{choice:?}: {shown:?}");
        assert!(shown.is_sorted(), "{choice:?}: neither threads nor their time get fewer: {shown:?}");
        let (last_threads, last_ns) = *shown.last().unwrap();
        assert!(last_threads <= threads && last_ns <= run_ns, "{choice:?}: {shown:?}, {threads}, {run_ns}");
        // A snapshot takes nothing from the next one, or from the end.
        assert!(threads > 2 && last_ns > run_ns / 2, "{choice:?}: {shown:?}, {threads}, {run_ns}");
    }
}
