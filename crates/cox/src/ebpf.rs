//! Why eBPF does not work here: the kernel only says "not permitted"; what is missing, and the fix, are known from
//! elsewhere.

use broker::client::{self, RemoteObserver};
use broker::protocol::Wanted;
use machine::Root;
use machine::features::{Available, Facts, FeatureId, evaluate};
use machine::process::{Capabilities, Task};
use watch::bpf::CANNOT;
use watch::{Observer, WatchError};

/// Whether this process may load eBPF programs, as far as its capabilities say. Where they cannot be read, trying tells.
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
    let Some(program) = client::helper() else {
        let nothing =
            WatchError::Unavailable { what: CANNOT.into(), why: format!("{} is not installed", client::FILE) };
        return Err(explained(nothing));
    };
    Ok(Box::new(RemoteObserver::new(&program, wanted)?))
}

/// What is missing, and the fix; `None` where nothing is, as far as is known.
fn missing() -> Option<String> {
    let features = Facts::read(&Root::live()).map(|facts| evaluate(&facts)).unwrap_or_default();
    match features.into_iter().find(|feature| feature.id == FeatureId::BpfRecord)?.available {
        // It would have been asked where it could serve.
        Available::No { reason, .. } if client::helper().is_some() => Some(format!(
            "{reason}, and cox-observe, which has them, serves cox run without --overlap only. Fix: run cox as root"
        )),
        Available::No { reason, fix } => Some(format!("{reason}. Fix: {fix}")),
        _ => None,
    }
}

/// An error, with what is missing in place of what the kernel said.
pub fn explained(error: WatchError) -> WatchError {
    match (missing(), error) {
        // Other ways to observe have their own reasons.
        (Some(why), WatchError::Unavailable { what, .. }) if what == CANNOT => WatchError::Unavailable { what, why },
        (_, error) => error,
    }
}

/// The same for what is known only as text.
pub fn explained_text(said: &str) -> String {
    missing().map_or_else(|| said.to_owned(), |why| format!("{CANNOT}: {why}"))
}
