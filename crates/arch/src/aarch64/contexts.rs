//! Contexts are not switched on this processor.

/// A context that does not run.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Context {
    /// The stack pointer.
    pub stack_pointer: u64,
    /// Address of the thread-local storage.
    pub tls: u64,
    /// Control words of the floating-point unit.
    pub sse_control: u32,
    /// See `sse_control`.
    pub x87_control: u32,
    /// Address of a signal frame; 0: none.
    pub frame: u64,
}

/// Where the stack of a saved context has the address at which it continues, bytes above the stack pointer.
pub const CONTINUES_AT: u64 = 48;
/// Where the stack of a context that yields has the address of data that its program wants soon, bytes below the stack pointer (see `user_yield`).
pub const WANTS_BELOW: u64 = 8;

/// Returns `false`: cox does not run here.
#[must_use]
pub fn has_fast_tls(_hwcap2: u64) -> bool {
    false
}

/// Does nothing: it is only a hint.
pub fn prefetch(_address: u64) {}

/// Does nothing: it is only a hint.
pub fn prefetch_for_writing(_address: u64) {}

/// Two contexts: the second one is left for the first one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Exchange {
    /// The context to be continued.
    pub to: *mut Context,
    /// The context that runs.
    pub from: *mut Context,
}

/// Defines a function that ends the process: cox does not run here.
#[macro_export]
macro_rules! user_yield {
    (kind_at: $kind_at:expr, carrier: $carrier:expr, choose: $choose:path, elsewhere: $elsewhere:path, frame: $continue_frame:path) => {
        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        unsafe extern "C" fn yield_now(_wanted: *const u8) {
            let _ = ($kind_at, $carrier, $choose as *const (), $elsewhere as *const (), $continue_frame as *const ());
            $crate::refuse()
        }
    };
}

/// Defines functions that end the process: cox does not run here.
#[macro_export]
macro_rules! context_switch {
    () => {
        /// Ends the process.
        ///
        /// # Safety
        /// None: it is unsafe on other processors.
        pub(crate) unsafe extern "C" fn switch(_from: *mut $crate::Context, _to: *mut $crate::Context) {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe extern "C" fn continue_frame() {
            $crate::refuse()
        }

        /// Ends the process.
        #[allow(dead_code, reason = "not every user of the macro has something to protect")]
        pub(crate) fn touch_stack() {
            $crate::refuse()
        }

        /// Ends the process.
        pub(crate) fn tls() -> u64 {
            $crate::refuse()
        }
    };
}

/// Defines functions that end the process: cox does not run here.
#[macro_export]
macro_rules! user_contexts {
    () => {
        $crate::context_switch!();

        /// Returns no addresses.
        pub(crate) fn gate() -> ::std::ops::Range<u64> {
            0..0
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe extern "C" fn load(_to: *mut $crate::Context) -> ! {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe extern "C" fn load_with_mask(_to: *mut $crate::Context, _mask: u64) -> ! {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe extern "C" fn park(
            _from: *mut $crate::Context,
            _stack: u64,
            _then: unsafe extern "C" fn(*mut $crate::Context) -> !,
        ) {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe extern "C" fn call(_: i64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> i64 {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe extern "C" fn return_from_signal() {
            $crate::refuse()
        }

        /// Ends the process.
        ///
        /// # Safety
        /// See `switch`.
        pub(crate) unsafe fn set_task_address(_address: u64) -> i64 {
            $crate::refuse()
        }

        /// Ends the process.
        pub(crate) fn task_word() -> u64 {
            $crate::refuse()
        }
    };
}
