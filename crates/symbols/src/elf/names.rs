//! Names of functions in source form.

use cpp_demangle::DemangleOptions;

/// Demangles Rust and C++ names; other names are returned unchanged. C++ parameter lists and return types are omitted, as in other
/// profilers, because the report's column is narrow.
pub(super) fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form omits the hash.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(plain) = symbol.demangle_with_options(&DemangleOptions::new().no_params().no_return_type())
    {
        return plain;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_of_three_languages() {
        assert_eq!(demangle("gomp_team_barrier_wait_end"), "gomp_team_barrier_wait_end");
        assert_eq!(demangle("_ZN3foo3barEv"), "foo::bar");
        assert_eq!(demangle("_ZNK3tbb6detail2r14task4waitEl"), "tbb::detail::r1::task::wait");
        assert_eq!(demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "core::fmt::Write::write_fmt");
        assert_eq!(demangle("_RNvC7mycrate3foo"), "mycrate::foo");
    }

    #[test]
    fn what_only_looks_mangled_stays() {
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
        assert_eq!(demangle(""), "");
    }
}
