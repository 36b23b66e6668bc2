//! Programs that are linked against the library look for it by its name, wherever it was built.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcox_umt.so");
}
