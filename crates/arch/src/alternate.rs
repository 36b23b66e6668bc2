//! The stack of signal handlers, which is described alike on all processors.

/// A stack for signal handlers, as sigaltstack(2) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Alternate {
    /// Its lowest address.
    pub stack: u64,
    /// SS_DISABLE: there is none.
    pub flags: i32,
    /// Its length, bytes.
    pub bytes: u64,
}
