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
    /// A program: by the names of its own files, and by its part of the sampled time. Its main thread is not of the pool, so another thread must be the
    /// busiest one.
    Program(&'static [&'static str]),
}

/// Pools, and the variable that sets their number of threads. Sources: OpenBLAS's manual ("Runtime variables"), the documentation of Go's package runtime,
/// of rayon's `ThreadPoolBuilder::num_threads`, and of Node.js ("Command-line API"). SciPy's wheels contain an OpenBLAS under a name of its own.
const POOLS: [(Code, &str); 5] = [
    (Code::Library("libopenblas"), "OPENBLAS_NUM_THREADS"),
    (Code::Library("libscipy_openblas"), "OPENBLAS_NUM_THREADS"),
    (Code::Runtime("rayon_core::"), "RAYON_NUM_THREADS"),
    (Code::Runtime("runtime."), "GOMAXPROCS"),
    (Code::Program(&["node", "libnode.so"]), "UV_THREADPOOL_SIZE"),
];

/// Returns whether the program has a pool with this code.
fn has(evidence: &Evidence, code: &Code) -> bool {
    let hot = &evidence.account.hot_functions;
    let samples =
        |is: &dyn Fn(&HotFunction) -> bool| hot.iter().filter(|hot| is(hot)).map(|hot| hot.samples).sum::<u64>();
    let part = |is: &dyn Fn(&HotFunction) -> bool| share(samples(is) as f64, samples(&|_| true) as f64);
    match code {
        Code::Library(start) => part(&|hot| hot.module.starts_with(start)) >= MUCH,
        Code::Runtime(piece) => samples(&|hot| hot.function.as_deref().is_some_and(|name| name.contains(piece))) > 0,
        Code::Program(names) => {
            let ends = |rest: &str| rest.is_empty() || rest.starts_with('.');
            let is_its_own =
                |hot: &HotFunction| names.iter().any(|name| hot.module.strip_prefix(name).is_some_and(ends));
            part(&is_its_own) >= MUCH && !evidence.busiest_is_main()
        }
    }
}

/// Returns the environment variable that sets the number of threads; `None` if the program's pool is not known.
pub(crate) fn variable(evidence: &Evidence) -> Option<&'static str> {
    POOLS.iter().find(|(code, _)| has(evidence, code)).map(|(_, variable)| *variable)
}
