//! `cox doctor`: checks what this kernel and user permit.

use std::path::Path;

use anyhow::{Context, Result};
use broker::caller::{Caller, GROUP};
use broker::client;
use broker::ebpf;
use broker::protocol::Wanted;
use machine::Root;
use machine::features::{Available, Facts, Feature, FeatureId, evaluate};
use outputs::Output;
use serde_json::json;
use session::provenance;
use watch::{BpfObserver, Settings, WatchError};
use wire::latency::Scope;

use crate::cli;
use crate::faces::doctor::{as_json, text};
use crate::faces::print;

/// Exit code if cox cannot use eBPF here. It then observes programs with perf or /proc, which show less.
const FINDING: u8 = 1;

/// Prints the findings: one line per feature, and below a "no" how to fix it.
pub fn doctor(options: &cli::Doctor) -> Result<u8> {
    let json_output = Output::wanted(options.json.as_deref())?;
    let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
    let mut features = evaluate(&facts);
    try_out(&mut features);
    try_dispatch(&mut features);
    let text_output = (!matches!(json_output, Some(Output::Stdout))).then_some(Output::Stdout);
    print(text_output, false, |style| text(&features, style))?;
    if let Some(output) = json_output {
        let features: Vec<_> = features.iter().map(as_json).collect();
        let provenance = provenance::here("cox", None);
        let document = json!({ "schema_version": 1, "provenance": provenance, "features": features });
        output.write(format!("{document:#}\n").as_bytes())?;
    }
    let exact = features.iter().any(|f| f.id == FeatureId::BpfRecord && f.available.is_yes());
    Ok(if exact { 0 } else { FINDING })
}

/// Loads the eBPF programs as a test: even if all known conditions hold, the verifier or a container's seccomp filter may refuse them.
fn try_out(features: &mut [Feature]) {
    let Some(feature) = features.iter_mut().find(|f| f.id == FeatureId::BpfRecord) else { return };
    if let Some(program) = client::helper().filter(|_| !ebpf::may_itself()) {
        try_helper(feature, &program);
        return;
    }
    if feature.available.is_no() {
        return;
    }
    let settings = Settings { sample_period_ns: 0, ..Settings::new(1, 1) };
    match BpfObserver::new(&settings, None) {
        Ok(_) => {
            let rings = doorbells(ebpf::doorbells().map(|_| ()));
            let how = format!("tp_btf, task storage, ring buffer; loaded and attached; {rings}");
            feature.available = Available::Yes { how };
        }
        Err(error) => {
            feature.available =
                Available::No { reason: error.to_string(), fix: "cox uses perf or proc instead".into() };
        }
    }
}

/// Asks the kernel whether it would dispatch system calls: a container's filter may refuse what the kernel has.
fn try_dispatch(features: &mut [Feature]) {
    let Some(feature) = features.iter_mut().find(|f| f.id == FeatureId::UlpCarriers && f.available.is_yes()) else {
        return;
    };
    if let Err(error) = ulp::carriers::probe_dispatch() {
        let reason = format!("prctl(PR_SET_SYSCALL_USER_DISPATCH): {error} (a container's filter?)");
        let fix =
            "allow it in the seccomp profile; cox ulp works without, but a yield costs as much as between processes"
                .into();
        feature.available = Available::No { reason, fix };
    }
}

/// Returns the text about `cox run --overlap=bpf`: whether BPF can wake standby threads, or why not.
fn doorbells(tried: Result<(), WatchError>) -> String {
    match tried {
        Ok(()) => "can also wake standby threads for --overlap=bpf".into(),
        Err(error) => format!("cannot wake standby threads for --overlap=bpf: {error}"),
    }
}

/// Tries the helper program instead, for a cox that lacks the capabilities.
fn try_helper(feature: &mut Feature, program: &Path) {
    let whose = match Caller::of_this_process() {
        Ok(caller) if caller.all => "all threads".to_owned(),
        _ => format!("this user's threads (members of the group {GROUP}: the threads of all users)"),
    };
    let wanted = Wanted { children: true, samples: false, trace_bytes: None, latencies: Scope::default() };
    feature.available = match client::try_out(program, wanted) {
        Ok(rings) => Available::Yes { how: format!("loaded by cox-observe for {whose}; {}", doorbells(rings)) },
        Err(WatchError::Unavailable { why, .. }) => {
            let fix = "cox uses perf or proc instead".into();
            Available::No { reason: format!("cox-observe cannot load them: {why}"), fix }
        }
        Err(error) => Available::No { reason: error.to_string(), fix: String::new() },
    };
}
