//! Why eBPF does not work here: the kernel only says "not permitted"; what is missing, and the fix, are known from
//! elsewhere.

use machine::Root;
use machine::features::{Available, Facts, FeatureId, evaluate};
use watch::WatchError;
use watch::bpf::CANNOT;

/// What is missing, and the fix; `None` where nothing is, as far as is known.
fn missing() -> Option<String> {
    let features = Facts::read(&Root::live()).map(|facts| evaluate(&facts)).unwrap_or_default();
    match features.into_iter().find(|feature| feature.id == FeatureId::BpfRecord)?.available {
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
