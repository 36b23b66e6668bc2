//! Compiles the clock's C transition for native tests when the `native` feature asks for it.

fn main() {
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-changed=native");
    #[cfg(feature = "native")]
    cc::Build::new()
        .files(["native/clock.c", "native/preload.c", "native/umt.c"])
        .include("include")
        .warnings_into_errors(true)
        .compile("cox_clock");
}
