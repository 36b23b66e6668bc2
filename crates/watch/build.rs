//! Compiles the BPF programs (clang ≥ 14) into a skeleton that contains their bytes, and lists the structs and members that they read.

#[path = "src/btf.rs"]
#[allow(dead_code)]
mod btf;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use btf::{Types, kind};
use libbpf_cargo::SkeletonBuilder;
use object::{Object, ObjectSection};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo should set OUT_DIR"));
    let (wire, arch) = ("../wire/include", "../arch/include");
    // The processor's name, as libbpf's headers and `cox/processor.h` spell it.
    let processor = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("the BPF programs do not support this processor: {other:?}"),
    };
    let define = format!("-D__TARGET_ARCH_{processor}");
    println!("cargo::rerun-if-changed=src/bpf/prog");
    println!("cargo::rerun-if-changed=src/btf.rs");
    println!("cargo::rerun-if-changed={wire}");
    println!("cargo::rerun-if-changed={arch}");
    let object = out.join("sense.o");
    SkeletonBuilder::new()
        .source("src/bpf/prog/sense.bpf.c")
        .obj(&object)
        .clang_args(["-I", wire, "-I", arch, "-mcpu=v3", "-Wall", "-Werror", &define])
        .build_and_generate(out.join("sense.skel.rs"))
        .expect("cannot compile the BPF programs: clang 14 or later, libelf-dev and zlib1g-dev are needed");
    std::fs::write(out.join("sense.read.rs"), read_by(&object)).expect("cannot write into OUT_DIR");
}

/// Returns the structs of an object and their members as a Rust expression, sorted by name. Structs that only the object itself defines are also
/// listed, which does no harm.
fn read_by(object: &Path) -> String {
    let bytes = std::fs::read(object).expect("cannot read the object that clang has written");
    let file = object::File::parse(&*bytes).expect("cannot parse the object as an ELF file");
    let section = file.section_by_name(".BTF").and_then(|section| section.data().ok());
    let types = section.and_then(Types::read).expect("cannot read the types that the object describes");
    let mut read: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
    for of in types.ids().filter_map(|id| types.get(id)) {
        if matches!(of.kind(), kind::STRUCT | kind::UNION) && !types.name(of.name()).is_empty() {
            let members = of.members().map(|member| types.name(member.name)).filter(|name| !name.is_empty());
            read.entry(types.name(of.name())).or_default().extend(members);
        }
    }
    let mut text = String::from("&[\n");
    for (of, members) in read {
        let names: Vec<_> = members.iter().map(|name| String::from_utf8_lossy(name)).collect();
        writeln!(text, "    ({:?}, &{names:?}),", String::from_utf8_lossy(of))
            .expect("writing to a string cannot fail");
    }
    text + "]\n"
}
