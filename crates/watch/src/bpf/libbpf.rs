//! Captures libbpf's messages, and turns them into errors.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;
use machine::features::Release;
use machine::{Root, namespace};

use crate::observer::WatchError;

pub(crate) fn system(what: &str, error: libbpf_rs::Error) -> WatchError {
    WatchError::system(what, std::io::Error::other(error))
}

/// The beginning of every `Unavailable` message of this backend.
pub const CANNOT: &str = "cannot observe by eBPF";

/// Returns the error that eBPF cannot be used, and why.
#[must_use]
pub fn unavailable(why: String) -> WatchError {
    WatchError::Unavailable { what: CANNOT.into(), why }
}

/// Returns the error for a kernel that has refused the programs: the kernel's `error`, and the most informative line of libbpf's messages.
pub(crate) fn refused(error: &libbpf_rs::Error, said: &Libbpf) -> WatchError {
    let detail = said.last_words().map_or(String::new(), |words| format!(" ({words})"));
    unavailable(format!("{error}{detail}"))
}

/// Returns the number of cox's PID namespace, unless it is the machine's initial one (`ids.bpf.h`).
pub(crate) fn own_namespace() -> Result<Option<u32>, WatchError> {
    namespace::of_this_process(&Root::live()).map_err(|error| unavailable(error.to_string()))
}

/// Returns whether this kernel has `bpf_rdonly_cast`, which exists since Linux 6.2. If the release is unknown, cox uses the slower way that works
/// on all kernels.
pub(crate) fn kernel_casts() -> bool {
    let release = rustix::system::uname().release().to_str().ok().and_then(Release::parse);
    release.is_some_and(|release| release.is_at_least(6, 2))
}

static SAID: Mutex<Option<String>> = Mutex::new(None);

/// While a value of this type exists, libbpf prints nothing to the terminal, and its first warning is remembered.
pub(crate) struct Libbpf {
    before: Option<(PrintLevel, libbpf_rs::PrintCallback)>,
}

impl Libbpf {
    pub(crate) fn quiet() -> Libbpf {
        if let Ok(mut said) = SAID.lock() {
            *said = None;
        }
        let before = libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut said) = SAID.lock() {
                said.get_or_insert_with(|| text.trim().to_owned());
            }
        })));
        Libbpf { before }
    }

    fn last_words(&self) -> Option<String> {
        SAID.lock().ok().and_then(|said| said.clone())
    }
}

impl Drop for Libbpf {
    fn drop(&mut self) {
        libbpf_rs::set_print(self.before);
    }
}
