//! What the host is to start.

use std::ffi::CString;
use std::path::PathBuf;

use crate::carriers::{Crash, Wish};
use crate::program::image::Loader;

/// Copies of one program.
#[derive(Debug)]
pub struct Copies {
    /// How many.
    pub count: usize,
    /// The program.
    pub loader: Loader,
    /// The arguments of each, beginning with the program's name.
    pub arguments: Vec<CString>,
    /// Beginning of the ULPs' names (comm); the number follows.
    pub name: String,
}

/// Learns of a ULP that has crashed, whose memory is still there.
pub type OnCrash = Box<dyn FnMut(&Crash)>;

/// What to start.
pub struct Wanted {
    /// The programs, at least one. ULPs are numbered in their order.
    pub copies: Vec<Copies>,
    /// The environment of each.
    pub environment: Vec<CString>,
    /// Environment variable that contains the number of a ULP.
    pub rank_variable: Option<String>,
    /// Whether ULPs may leave their kernel tasks.
    pub wish: Wish,
    /// Whether the system calls that ULPs make on carriers are printed.
    pub shows_calls: bool,
    /// Socket of the reader of all outputs; `None`: the ULPs have the host's outputs.
    pub reader: Option<PathBuf>,
    /// Called when a ULP has crashed; `None`: no ULP notes its crash. It must leave no descriptors open, because ULPs would inherit them.
    pub on_crash: Option<OnCrash>,
}
