//! Provides eBPF for a session: in this process if it has the capabilities, else in the helper process. If eBPF does
//! not work, this module determines what is missing and how to fix it, because the kernel only says "not permitted".

use std::path::PathBuf;

use machine::Root;
use machine::features::{Available, Facts, FeatureId, evaluate};
use machine::process::{Capabilities, Task};
use watch::bpf::{CANNOT, unavailable};
use watch::noise::{Faults, Interruptions, NoiseEvents, Settings};
use watch::snapshots::{Helping, ThreadSnapshots};
use watch::umt::{Doorbells, Umt};
use watch::{Observer, WatchError};

use crate::client::{self, RemoteDoorbells, RemoteNoise, RemoteObserver, RemoteSnapshots};
use crate::protocol::Wanted;

/// Returns whether this process has the capabilities to load eBPF programs. Also true if the capabilities cannot be
/// read: the attempt to load the programs then shows whether they suffice.
#[must_use]
pub fn may_itself() -> bool {
    Task::own(&Root::live()).status().map_or(true, |status| {
        let has = |capability| status.effective.has(capability);
        has(Capabilities::SYS_ADMIN) || (has(Capabilities::BPF) && has(Capabilities::PERFMON))
    })
}

/// Returns an observer whose eBPF programs are in `cox-observe`, the helper that may load them.
///
/// # Errors
/// The reason why this process cannot load them, and why the helper cannot either.
pub fn by_helper(wanted: Wanted) -> Result<Box<dyn Observer>, WatchError> {
    let program = installed().map_err(explained)?;
    Ok(Box::new(RemoteObserver::new(&program, wanted)?))
}

/// Returns doorbells, which wake standby threads in processes of `cox run --overlap`. This process loads the eBPF
/// programs that ring them if it may, else the helper does.
///
/// # Errors
/// The reason why neither this process nor the helper can provide them.
pub fn doorbells() -> Result<Box<dyn Doorbells>, WatchError> {
    if may_itself() {
        return Ok(Box::new(Umt::new(None).map_err(explained)?));
    }
    let program = installed().map_err(explained)?;
    Ok(Box::new(RemoteDoorbells::new(&program)?))
}

/// Returns a source of noise events. This process loads the eBPF programs if it may, else the helper does, for threads that the caller may observe.
///
/// # Errors
/// The reason why neither this process nor the helper can provide them.
pub fn noise_events(settings: &Settings, faults: Faults) -> Result<Box<dyn NoiseEvents>, WatchError> {
    if may_itself() {
        return Ok(Box::new(Interruptions::new(settings, None, faults).map_err(explained)?));
    }
    let program = installed().map_err(explained)?;
    Ok(Box::new(RemoteNoise::new(&program, settings, faults)?))
}

fn installed() -> Result<PathBuf, WatchError> {
    client::helper().ok_or_else(|| unavailable(format!("{} is not installed", client::FILE)))
}

/// Returns a function that starts the helper for tracing packed threads; `None` if this process may trace them itself,
/// or if the helper is not installed.
#[must_use]
pub fn helping() -> Option<Helping> {
    if may_itself() || client::helper().is_none() {
        return None;
    }
    Some(
        |children, cpus| Ok(Box::new(RemoteSnapshots::new(&installed()?, children, cpus)?) as Box<dyn ThreadSnapshots>),
    )
}

/// Returns what is missing for eBPF and the fix; `None` if nothing is known to be missing.
fn missing() -> Option<(String, String)> {
    let features = Facts::read(&Root::live()).map(|facts| evaluate(&facts)).unwrap_or_default();
    match features.into_iter().find(|feature| feature.id == FeatureId::BpfRecord)?.available {
        Available::No { reason, fix } => Some((reason, fix)),
        _ => None,
    }
}

/// Replaces the kernel's reason in an error by the missing feature and its fix.
#[must_use]
pub fn explained(error: WatchError) -> WatchError {
    // If the helper program was used, its error message already says why it failed.
    if helping().is_some() {
        return error;
    }
    match (missing(), error) {
        // Only errors of the eBPF backend are explained; other backends have their own reasons.
        (Some((reason, fix)), WatchError::Unavailable { what, .. }) if what == CANNOT => {
            unavailable(format!("{reason}. Fix: {fix}"))
        }
        (_, error) => error,
    }
}

/// Same as [`explained`], for an error that is known only as text.
#[must_use]
pub fn explained_text(said: &str) -> String {
    if helping().is_some() {
        return said.to_owned();
    }
    missing().map_or_else(|| said.to_owned(), |(reason, fix)| format!("{CANNOT}: {reason}. Fix: {fix}"))
}
