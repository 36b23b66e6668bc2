//! Thread pools whose number of threads an environment variable sets. They are recognised by their code among the hot functions.

use ledger::HotFunction;

use crate::evidence::{Evidence, share};

/// A pool decides how many threads a program has if at least this part of the sampled time was spent in its code.
const MUCH: f64 = 0.25;

/// How a pool's code is recognised.
enum Code {
    /// By the beginning of the file's name.
    File(&'static str),
    /// By the beginning of the function's name.
    Function(&'static str),
}

/// Pools, and the variable that sets their number of threads. Sources: OpenBLAS's manual ("Runtime variables"), the documentation of Go's package runtime,
/// and of rayon's `ThreadPoolBuilder::num_threads`. SciPy's wheels contain an OpenBLAS under a name of its own.
const POOLS: [(Code, &str); 4] = [
    (Code::File("libopenblas"), "OPENBLAS_NUM_THREADS"),
    (Code::File("libscipy_openblas"), "OPENBLAS_NUM_THREADS"),
    (Code::Function("runtime."), "GOMAXPROCS"),
    (Code::Function("rayon_core::"), "RAYON_NUM_THREADS"),
];

impl Code {
    fn has(&self, hot: &HotFunction) -> bool {
        match self {
            Code::File(start) => hot.module.starts_with(start),
            Code::Function(start) => hot.function.as_deref().is_some_and(|function| function.starts_with(start)),
        }
    }
}

/// Returns the environment variable that sets the number of threads; `None` if the program's pool is not known.
pub(crate) fn variable(evidence: &Evidence) -> Option<&'static str> {
    let hot = &evidence.account.hot_functions;
    let all: u64 = hot.iter().map(|hot| hot.samples).sum();
    let of = |code: &Code| hot.iter().filter(|hot| code.has(hot)).map(|hot| hot.samples).sum::<u64>();
    POOLS.iter().find(|(code, _)| share(of(code) as f64, all as f64) >= MUCH).map(|(_, variable)| *variable)
}
