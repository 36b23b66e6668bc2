//! Sets the library's soname, so that programs linked against it find it by name, wherever it was built.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcox_umt.so");
}
