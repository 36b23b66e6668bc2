//! The values that a knob may be set to, and one such value in the form that the kernel takes.

use std::sync::Arc;

use crate::claim::Claim;
use crate::kernel_value::KernelValue;
use crate::value::Value;

/// The values that a knob may be set to: its original value, and those that the claim permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) original: Value,
    pub(crate) claim: Claim,
}

/// A value that a claim permits, in the form that system calls take.
#[derive(Clone, Debug)]
pub struct Setting {
    pub(crate) value: Value,
    pub(crate) kernel: KernelValue,
    pub(crate) terms: Arc<Terms>,
}

impl Setting {
    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }
}
