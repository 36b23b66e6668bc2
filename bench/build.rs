//! Compiles the floor's BPF programs (clang ≥ 14) into a skeleton with their bytes inside.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/overhead/floor.bpf.c";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed={SOURCE}");
    SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
        .build_and_generate(out.join("floor.skel.rs"))
        .expect("the BPF programs compile; clang 14 or later, libelf-dev and zlib1g-dev are needed");
}
