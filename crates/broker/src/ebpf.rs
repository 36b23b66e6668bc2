//! eBPF for a session: in this process where it may, else by the program that may. And why it does not work here: the kernel only says "not
//! permitted"; what is missing, and the fix, are known from elsewhere.

use machine::Root;
use machine::features::{Available, Facts, FeatureId, evaluate};
use machine::process::{Capabilities, Task};
use watch::bpf::CANNOT;
use watch::stands::{Helping, Tracer};
use watch::umt::{Doorbells, Umt};
use watch::{Observer, WatchError};

use crate::client::{self, RemoteDoorbells, RemoteObserver, RemoteStands};
use crate::protocol::Wanted;

/// Whether this process may load eBPF programs, as far as its capabilities say. Where they cannot be read, trying tells.
#[must_use]
pub fn may_itself() -> bool {
    Task::own(&Root::live()).status().map_or(true, |status| {
        let has = |capability| status.effective.has(capability);
        has(Capabilities::SYS_ADMIN) || (has(Capabilities::BPF) && has(Capabilities::PERFMON))
    })
}

/// An observer whose eBPF programs are in `cox-observe`, the program that may load them.
///
/// # Errors
/// Why this process may not, and why that program does not either.
pub fn by_helper(wanted: Wanted) -> Result<Box<dyn Observer>, WatchError> {
    let program = client::helper().ok_or_else(|| explained(not_installed()))?;
    Ok(Box::new(RemoteObserver::new(&program, wanted)?))
}

/// Doorbells for processes of `cox run --overlap`: in this process where it may, else by the program that may.
///
/// # Errors
/// Why neither can.
pub fn doorbells() -> Result<Box<dyn Doorbells>, WatchError> {
    if may_itself() {
        return Ok(Box::new(Umt::new(None).map_err(explained)?));
    }
    let program = client::helper().ok_or_else(|| explained(not_installed()))?;
    Ok(Box::new(RemoteDoorbells::new(&program)?))
}

fn not_installed() -> WatchError {
    WatchError::Unavailable { what: CANNOT.into(), why: format!("{} is not installed", client::FILE) }
}

/// Who traces a pack's threads, where this process may not and the program that may is there.
#[must_use]
pub fn helping() -> Option<Helping> {
    if may_itself() || client::helper().is_none() {
        return None;
    }
    Some(|children| {
        let program = client::helper().ok_or_else(not_installed)?;
        Ok(Box::new(RemoteStands::new(&program, children)?) as Box<dyn Tracer>)
    })
}

/// What is missing, and the fix; `None` where nothing is, as far as is known.
fn missing() -> Option<(String, String)> {
    let features = Facts::read(&Root::live()).map(|facts| evaluate(&facts)).unwrap_or_default();
    match features.into_iter().find(|feature| feature.id == FeatureId::BpfRecord)?.available {
        Available::No { reason, fix } => Some((reason, fix)),
        _ => None,
    }
}

/// An error, with what is missing in place of what the kernel said.
#[must_use]
pub fn explained(error: WatchError) -> WatchError {
    // What the helper says has its reason.
    if helping().is_some() {
        return error;
    }
    match (missing(), error) {
        // Other ways to observe have their own reasons.
        (Some((reason, fix)), WatchError::Unavailable { what, .. }) if what == CANNOT => {
            WatchError::Unavailable { what, why: format!("{reason}. Fix: {fix}") }
        }
        (_, error) => error,
    }
}

/// The same for what is known only as text.
#[must_use]
pub fn explained_text(said: &str) -> String {
    if helping().is_some() {
        return said.to_owned();
    }
    missing().map_or_else(|| said.to_owned(), |(reason, fix)| format!("{CANNOT}: {reason}. Fix: {fix}"))
}
