//! Compiles the C transitions of `wire` natively, for the module `native`.

fn main() {
    let wire = "../wire/include";
    println!("cargo::rerun-if-changed={wire}");
    println!("cargo::rerun-if-changed=native");
    cc::Build::new()
        .files(["native/clock.c", "native/preload.c", "native/umt.c"])
        .include(wire)
        .warnings_into_errors(true)
        .compile("cox_clock");
}
