//! Compiles the experiments' BPF programs (clang ≥ 14) into skeletons that contain their bytecode.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

const SOURCES: [&str; 2] = ["src/overhead/floor.bpf.c", "src/runtimes/trace/switches.bpf.c"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo should set OUT_DIR"));
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        let file = Path::new(source).file_name().expect("a file").to_string_lossy();
        SkeletonBuilder::new()
            .source(source)
            .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
            .build_and_generate(out.join(file.replace(".bpf.c", ".skel.rs")))
            .expect("cannot compile the BPF programs: clang 14 or later, libelf-dev and zlib1g-dev are needed");
    }
}
