//! Tests whether the programs fit kernels other than the running one: resolves each CO-RE relocation of the object against stored kernel types,
//! without loading anything.
//!
//! The rules are libbpf's (`relo_core.c`), and one more: a field that is read by probing must have the width that the program expects, because
//! nothing adjusts that width. `cargo xtask btf` makes the stored types, which contain only what the programs read; `make btf-newest` tests the
//! newest kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use object::{Object, ObjectSection};

use super::excerpt::Excerpt;
use super::excerpt::tests::relocated;
use super::programs;
use crate::btf::{Type, Types, kind};

/// Kernels whose types are stored in `tests/btf`: those of Debian 12 and its backports, the last one with an `int` in `task_struct.on_cpu`, and
/// one with a byte there.
const STORED: [&str; 4] = ["6.1", "6.12", "6.18", "7.3"];
/// Environment variable that names a folder with all types of these kernels (`6.1.btf`), from which the stored ones are made again.
const MAKE: &str = "COX_MAKE_BTF";
/// Environment variable that names a file with all types of one more kernel.
const ANOTHER: &str = "COX_BTF";

/// Kinds of relocations (`enum bpf_core_relo_kind` in linux/bpf.h).
mod asks {
    pub const FIELD_OFFSET: u32 = 0;
    pub const FIELD_EXISTS: u32 = 2;
    pub const LAST_OF_FIELDS: u32 = 5;
    pub const TYPE_ID_LOCAL: u32 = 6;
    pub const TYPE_ID: u32 = 7;
    pub const TYPE_SIZE: u32 = 9;
}

/// One CO-RE relocation of an object.
struct Relocation {
    kind: u32,
    /// The id of the struct in the object.
    root: u32,
    /// The path through the members, as numbers between colons; the first number is not a member.
    path: String,
    /// The class of the instruction, which tells what it does with the relocated value.
    class: u8,
}

/// Classes of instructions that load or store (`linux/bpf_common.h`).
const LOADS_AND_STORES: std::ops::RangeInclusive<u8> = 1..=3;

/// A step from a type to a member or element.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Member(String),
    Element,
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn text<'a>(types: &Types<'a>, offset: u32) -> &'a str {
    std::str::from_utf8(types.name(offset)).expect("names should be ASCII")
}

/// Returns all relocations, by the layout of `.BTF.ext` (Documentation/bpf/btf.rst).
fn relocations(elf: &object::File<'_>, types: &Types<'_>) -> Vec<Relocation> {
    let section = |name: &str| elf.section_by_name(name).expect(name).data().expect(name);
    let ext = section(".BTF.ext");
    let begin = word(ext, 4) + word(ext, 24);
    let (mut rest, record) = (&ext[begin + 4..begin + word(ext, 28)], word(ext, begin));
    let mut all = Vec::new();
    while !rest.is_empty() {
        let code = section(text(types, word(rest, 0) as u32));
        let (records, behind) = rest[8..].split_at(record * word(rest, 4));
        for r in records.chunks_exact(record) {
            let path = text(types, word(r, 8) as u32).to_owned();
            let class = code[word(r, 0)] & 7;
            all.push(Relocation { kind: word(r, 12) as u32, root: word(r, 4) as u32, path, class });
        }
        rest = behind;
    }
    all
}

/// Returns the steps of a path, each with the type to which it leads.
fn steps(types: &Types<'_>, root: u32, path: &str) -> Vec<(Step, u32)> {
    let mut at = types.plain(root);
    let mut steps = Vec::new();
    for number in
        path.split(':').skip(1).map(|number| number.parse::<usize>().expect("a path should consist of numbers"))
    {
        let of = types.get(at).expect("each step of a path should lead to a type");
        let (step, to) = if of.kind() == kind::ARRAY {
            (Step::Element, word(of.bytes, 12) as u32)
        } else {
            let member = of.members().nth(number).expect("each step of a path should name a member");
            (Step::Member(text(types, member.name).to_owned()), member.of)
        };
        at = types.plain(to);
        steps.push((step, at));
    }
    steps
}

/// Returns the type of a member, also within unnamed members, and whether it is a bit field.
fn member(types: &Types<'_>, of: Type<'_>, name: &str) -> Option<(u32, bool)> {
    let widths_are_told = of.info() >> 31 == 1;
    of.members().find_map(|m| match text(types, m.name) {
        "" => member(types, types.get(types.plain(m.of))?, name),
        found => (found == name).then(|| (types.plain(m.of), widths_are_told && m.offset >> 24 != 0)),
    })
}

fn size(types: &Types<'_>, id: u32) -> u32 {
    match types.get(id) {
        None => 0,
        Some(of) if of.kind() == kind::PTR => 8,
        Some(of) if of.kind() == kind::ARRAY => {
            size(types, types.plain(word(of.bytes, 12) as u32)) * word(of.bytes, 20) as u32
        }
        Some(of) => of.of(),
    }
}

fn is(types: &Types<'_>, id: u32, wanted: u32) -> bool {
    types.get(id).is_some_and(|of| of.kind() == wanted)
}

fn is_unsigned(types: &Types<'_>, id: u32) -> bool {
    types.get(id).is_some_and(|of| of.kind() == kind::INT && of.bytes[15] & 1 == 0)
}

/// Returns whether two types are compatible by the rules of `bpf_core_fields_are_compat`.
fn are_alike(a: &Types<'_>, of_a: u32, b: &Types<'_>, of_b: u32) -> bool {
    let (Some(x), Some(y)) = (a.get(of_a), b.get(of_b)) else { return false };
    let element = |types: &Types<'_>, of: Type<'_>| types.plain(word(of.bytes, 12) as u32);
    match (x.kind(), y.kind()) {
        (kind::STRUCT | kind::UNION, kind::STRUCT | kind::UNION) => true,
        (kind::ARRAY, kind::ARRAY) => are_alike(a, element(a, x), b, element(b, y)),
        (of, other) => of == other,
    }
}

/// Returns why a relocation cannot be resolved; `None` if it can.
fn fault(ours: &Types<'_>, kernels: &Types<'_>, r: &Relocation) -> Option<String> {
    let root = ours.get(ours.plain(r.root)).expect("a relocation should belong to a type");
    let name = text(ours, root.name()).split("___").next().unwrap_or_default();
    let of_this_name =
        |id: &u32| kernels.get(*id).is_some_and(|of| of.kind() == root.kind() && text(kernels, of.name()) == name);
    let found: Vec<u32> = kernels.ids().filter(of_this_name).collect();
    match r.kind {
        asks::TYPE_ID_LOCAL => None,
        _ if found.is_empty() => Some("the kernel has no such type".into()),
        asks::TYPE_ID | asks::TYPE_SIZE => None,
        ..=asks::LAST_OF_FIELDS => {
            let faults = found.iter().map(|id| field_fault(ours, kernels, r, *id));
            // Several structs may have the same name. libbpf uses those that fit.
            faults.reduce(|one, other| one.and(other)).flatten()
        }
        other => Some(format!("this test does not know relocations of kind {other}")),
    }
}

fn field_fault(ours: &Types<'_>, kernels: &Types<'_>, r: &Relocation, root: u32) -> Option<String> {
    let mut at = root;
    let (mut is_bits, mut wanted) = (false, 0);
    for (step, expected) in steps(ours, r.root, &r.path) {
        let of = kernels.get(at)?;
        let next = match &step {
            Step::Member(name) => member(kernels, of, name),
            Step::Element => (of.kind() == kind::ARRAY).then(|| (kernels.plain(word(of.bytes, 12) as u32), false)),
        };
        let Some((to, bits)) = next else { return Some("the kernel's type has no such member".into()) };
        if !are_alike(ours, expected, kernels, to) {
            return Some("the kernel's member is of an incompatible type".into());
        }
        (at, is_bits, wanted) = (to, bits, expected);
    }
    let (here, there) = (size(ours, wanted), size(kernels, at));
    if r.kind != asks::FIELD_OFFSET || is_bits || here == there {
        return None;
    }
    let widths = format!("the field is {here} bytes wide in the program and {there} in the kernel");
    if LOADS_AND_STORES.contains(&r.class) {
        let adjusts = is_unsigned(ours, wanted) && is_unsigned(kernels, at) || is(ours, wanted, kind::PTR);
        (!adjusts).then(|| format!("{widths}, and not unsigned in both of them"))
    } else {
        is(ours, wanted, kind::INT).then(|| format!("{widths}, and read by bpf_probe_read"))
    }
}

/// Returns one line for each read of the object that does not fit a kernel's types. A field may be missing if the program tests for its existence
/// before it reads it.
fn faults(object: &[u8], kernels: &Types<'_>) -> Vec<String> {
    let elf = object::File::parse(object).expect("clang should write ELF files");
    let section = elf.section_by_name(".BTF").expect("an object should describe its types").data().expect("a section");
    let ours = Types::read(section).expect("cox should be able to parse clang's types");
    let all = relocations(&elf, &ours);
    assert!(all.len() > 20, "{} relocations", all.len());
    let named = |r: &Relocation| {
        let root = ours.get(ours.plain(r.root)).map(|of| text(&ours, of.name()).to_owned());
        (root.unwrap_or_default(), steps(&ours, r.root, &r.path).into_iter().map(|(step, _)| step).collect::<Vec<_>>())
    };
    let asked: BTreeSet<_> = all.iter().filter(|r| r.kind == asks::FIELD_EXISTS).map(named).collect();
    let told = all.iter().filter(|r| r.kind != asks::FIELD_EXISTS && !asked.contains(&named(r)));
    let faults = told.filter_map(|r| {
        let (root, steps) = named(r);
        let path: String = steps
            .iter()
            .map(|step| match step {
                Step::Member(name) => format!(".{name}"),
                Step::Element => "[]".into(),
            })
            .collect();
        fault(&ours, kernels, r).map(|why| format!("{root}{path}: {why}"))
    });
    let faults: BTreeSet<String> = faults.collect();
    faults.into_iter().collect()
}

fn stored(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/btf/{version}.btf"))
}

/// Makes the stored types anew from the files in folder `all`, which contain all types of the same kernels.
fn make(all: &Path) {
    for version in STORED {
        let file = all.join(format!("{version}.btf"));
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let types = Types::read(&bytes).expect("cox should be able to parse a kernel's types");
        fs::create_dir_all(stored(version).parent().expect("a folder")).expect("the folder should be created");
        fs::write(stored(version), Excerpt::cut(&types, programs::READ)).expect("the types should be stored");
    }
}

#[test]
fn every_relocation_resolves_in_each_kernel() {
    if let Some(all) = env::var_os(MAKE) {
        make(Path::new(&all));
    }
    let another = env::var_os(ANOTHER).map(PathBuf::from);
    let mut wrong = Vec::new();
    for file in STORED.map(stored).into_iter().chain(another) {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let kernels = Types::read(&bytes).expect("cox should be able to parse a kernel's types");
        let faults = faults(programs::object(), &kernels);
        wrong.extend(faults.into_iter().map(|fault| format!("{}: {fault}", file.display())));
    }
    assert!(wrong.is_empty(), "{}\nMembers that are new in kernel.h are stored by: cargo xtask btf", wrong.join("\n"));
}

/// Compares with libbpf's own rules. libbpf creates the object's maps for that, which requires root.
#[test]
fn libbpf_relocates_for_each_kernel() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: libbpf_relocates_for_each_kernel: needs root");
        return;
    }
    for version in STORED {
        let by = Excerpt::in_file(fs::File::open(stored(version)).expect("types are stored").into());
        assert!(!relocated(Some(&by)).is_empty(), "{version}");
    }
}
