//! Thread pools whose number of threads an environment variable sets. They are recognised by their code among the hot functions.

use ledger::HotFunction;

use crate::evidence::{Evidence, share};

/// A library decides how many threads a program has if at least this part of the sampled time was spent in it.
const MUCH: f64 = 0.25;

/// How a pool's code is recognised.
enum Code {
    /// A library: by the beginning of the file's name, and by its part of the sampled time.
    Library(&'static str),
    /// A runtime that is part of the program: by a piece of the names of its functions. Most of the time is spent in the program's own functions.
    Runtime(&'static str),
}

/// Pools, and the variable that sets their number of threads. Sources: OpenBLAS's manual ("Runtime variables"), the documentation of Go's package runtime,
/// and of rayon's `ThreadPoolBuilder::num_threads`. SciPy's wheels contain an OpenBLAS under a name of its own.
const POOLS: [(Code, &str); 4] = [
    (Code::Library("libopenblas"), "OPENBLAS_NUM_THREADS"),
    (Code::Library("libscipy_openblas"), "OPENBLAS_NUM_THREADS"),
    (Code::Runtime("rayon_core::"), "RAYON_NUM_THREADS"),
    (Code::Runtime("runtime."), "GOMAXPROCS"),
];

fn has(code: &Code, hot: &[HotFunction]) -> bool {
    let samples =
        |is: &dyn Fn(&HotFunction) -> bool| hot.iter().filter(|hot| is(hot)).map(|hot| hot.samples).sum::<u64>();
    match code {
        Code::Library(start) => {
            let inside = samples(&|hot| hot.module.starts_with(start));
            share(inside as f64, samples(&|_| true) as f64) >= MUCH
        }
        Code::Runtime(piece) => samples(&|hot| hot.function.as_deref().is_some_and(|name| name.contains(piece))) > 0,
    }
}

/// Returns the environment variable that sets the number of threads; `None` if the program's pool is not known.
pub(crate) fn variable(evidence: &Evidence) -> Option<&'static str> {
    let hot = &evidence.account.hot_functions;
    POOLS.iter().find(|(code, _)| has(code, hot)).map(|(_, variable)| *variable)
}
