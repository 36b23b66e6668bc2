//! Compiles the BPF programs (clang ≥ 14) into a skeleton with their bytes inside.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let wire = "../wire/include";
    println!("cargo::rerun-if-changed=src/bpf/prog");
    println!("cargo::rerun-if-changed={wire}");
    for name in ["observe", "stands", "umt"] {
        SkeletonBuilder::new()
            .source(format!("src/bpf/prog/{name}.bpf.c"))
            .clang_args(["-I", wire, "-mcpu=v3", "-Wall", "-Werror", "-D__TARGET_ARCH_x86"])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .expect("the BPF programs compile; clang 14 or later, libelf-dev and zlib1g-dev are needed");
    }
}
