//! Which libraries are OpenMP runtimes.

/// File names of the runtimes of GCC, LLVM and Intel. All of them read OMP_NUM_THREADS and OMP_WAIT_POLICY.
const RUNTIMES: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];

/// Returns whether a library with this file name is an OpenMP runtime.
#[must_use]
pub fn is_runtime(name: &str) -> bool {
    RUNTIMES.iter().any(|runtime| name.starts_with(runtime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_with_the_numbers_of_their_versions() {
        assert!(["libgomp.so.1.0.0", "libomp.so.5", "libiomp5.so"].into_iter().all(is_runtime));
        assert!(!["libompd.so", "libgomp-plugin-nvptx.so.1", "libm.so.6"].into_iter().any(is_runtime));
    }
}
