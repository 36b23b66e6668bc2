//! A value that is ready to be set, and what a knob may be set to.

use std::sync::Arc;

use crate::kernel_value::KernelValue;
use crate::knob::{Claim, Value};

/// What a knob may be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) original: Value,
    pub(crate) claim: Claim,
}

/// A value within a claim, ready for the kernel.
#[derive(Clone, Debug)]
pub struct Setting {
    pub(crate) value: Value,
    pub(crate) kernel: KernelValue,
    pub(crate) terms: Arc<Terms>,
}

impl Setting {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The value as the kernel takes it.
    pub(crate) fn kernel(&self) -> &KernelValue {
        &self.kernel
    }
}
