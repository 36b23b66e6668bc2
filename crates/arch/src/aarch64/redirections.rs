//! System calls are not redirected on this processor.

use crate::redirections::Site;

/// Length of a site, bytes.
pub const SITE_BYTES: usize = 8;

/// No flag of mmap(2) asks for low addresses.
pub const MAP_LOW: u64 = 0;

/// Finds no sites.
pub fn sites(_code: &[u8]) -> impl Iterator<Item = Site> {
    std::iter::empty()
}

/// Returns `None`.
#[must_use]
pub fn jump(_from: u64, _to: u64) -> Option<[u8; SITE_BYTES]> {
    None
}

/// Defines `entries` and `enter`, which end the process: cox does not run here.
#[macro_export]
macro_rules! redirections {
    ($record:ty, $serve:path) => {
        pub(crate) fn entries() -> u64 {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// None: it is unsafe on other processors.
        pub(crate) unsafe extern "C" fn enter() {
            // Used, as on other processors.
            let _: unsafe extern "C" fn(&$crate::redirections::Call) -> i64 = $serve;
            $crate::refuse()
        }
    };
}

/// Ends the process: cox does not run here.
///
/// # Safety
/// None: it is unsafe on other processors.
pub unsafe fn system_call(_number: i64, _arguments: [u64; 6]) -> i64 {
    crate::refuse()
}
