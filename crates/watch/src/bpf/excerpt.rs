//! An excerpt of the kernel's types: only the structs that a BPF object reads, each with only the members that it reads.
//!
//! libbpf relocates the programs to the kernel's layout. For each struct that the programs name, libbpf compares the names of all types of the
//! kernel, more than a hundred thousand. That took a sixth of cox's start-up time. In an excerpt, libbpf finds the same offsets almost immediately.
//! Offsets, sizes and bit fields are the kernel's own. Members that no program reads, names of other types, and the targets of pointers are left out.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::ObjectBuilder;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags};

use crate::btf::{HEADER_LEN, MAGIC, MEMBER_LEN, TYPE_LEN, Type, Types, kind};
use crate::mapping::Mapping;

/// Structs and their members that an object reads, both sorted by name. The build script extracts them from the object.
pub(crate) type Read = [(&'static str, &'static [&'static str])];

/// The kernel's own description of its types.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// An excerpt of the kernel's types (BTF), stored in a memfd. Also the ids of two structs, as the kernel's complete BTF numbers them.
pub(crate) struct Excerpt {
    file: OwnedFd,
    /// Id of `task_struct` in the kernel's complete BTF. The BPF programs need it to cast pointers to this struct.
    pub task: u32,
    /// Id of `pt_regs` in the kernel's complete BTF. The BPF programs need it to cast pointers to this struct.
    pub registers: u32,
}

impl Excerpt {
    /// Makes an excerpt of the running kernel's types. Returns `None` if they cannot be read or parsed; libbpf then searches all types itself.
    pub(crate) fn of_this_kernel(read: &Read) -> Option<Excerpt> {
        let bytes = KernelTypes::open().ok()?;
        let types = Types::read(bytes.as_slice())?;
        let mut writer = Writer::new(&types, read);
        let excerpt = writer.write();
        let file = in_memory(&excerpt).ok()?;
        Some(Excerpt { file, task: writer.first("task_struct")?, registers: writer.first("pt_regs")? })
    }

    /// Makes libbpf relocate `object` by this excerpt, which must live until the object is loaded.
    pub(crate) fn relocates(&self, object: &mut ObjectBuilder) {
        // The result is ignored: libbpf-rs returns an error only if the path contains a NUL, which this path does not. Without the path, libbpf
        // would search all types of the kernel.
        let _ = object.btf_custom_path(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
    }
}

#[cfg(test)]
impl Excerpt {
    /// Wraps the stored excerpt of another kernel.
    pub(super) fn in_file(file: OwnedFd) -> Excerpt {
        Excerpt { file, task: 0, registers: 0 }
    }

    /// Returns an excerpt of `types` in the format of BTF, with the structs and members in `read`.
    pub(super) fn cut(types: &Types<'_>, read: &Read) -> Vec<u8> {
        Writer::new(types, read).write()
    }
}

/// The kernel's types: mapped (possible since Linux 6.16), or read into memory.
pub(super) enum KernelTypes {
    Mapped(Mapping),
    Read(Vec<u8>),
}

impl KernelTypes {
    pub(super) fn open() -> io::Result<KernelTypes> {
        let mut file = File::open(KERNEL)?;
        let len = file.metadata()?.len() as usize;
        if let Ok(mapped) = Mapping::new(&file, len, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::POPULATE) {
            return Ok(KernelTypes::Mapped(mapped));
        }
        let mut bytes = Vec::with_capacity(len);
        file.read_to_end(&mut bytes)?;
        Ok(KernelTypes::Read(bytes))
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            // SAFETY: `mapped` stays mapped read-only until self is dropped; the kernel never changes these bytes.
            KernelTypes::Mapped(mapped) => unsafe { std::slice::from_raw_parts(mapped.at::<u8>(0), mapped.bytes()) },
            KernelTypes::Read(bytes) => bytes,
        }
    }
}

fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("cox-types", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// The names of those members of a struct that the excerpt keeps; `None`: it keeps all members.
type Members = Option<&'static [&'static str]>;

struct Writer<'a> {
    kernel: &'a Types<'a>,
    read: &'a Read,
    /// The ids of the structs that were found, with the index of their names in `read`.
    found: Vec<(u32, usize)>,
    /// The written types; the type with id n is at index n − 1.
    written: Vec<Vec<u8>>,
    strings: Vec<u8>,
    /// The ids in the excerpt, by the types' ids in the kernel's BTF. An unnamed struct is written once for each list of members to keep, so that
    /// list is part of the key.
    ids: HashMap<(u32, Option<*const &'static str>), u32>,
}

impl<'a> Writer<'a> {
    fn new(kernel: &'a Types<'a>, read: &'a Read) -> Writer<'a> {
        let mut begins_name = [false; 256];
        for (name, _) in read {
            begins_name[usize::from(name.as_bytes()[0])] = true;
        }
        // Most types fail the first or the second test. The end of a name is looked for only after these tests.
        let listed = |of: Type| {
            if !matches!(of.kind(), kind::STRUCT | kind::UNION)
                || !begins_name[usize::from(kernel.first_of_name(of.name()))]
            {
                return None;
            }
            let name = kernel.name(of.name());
            read.binary_search_by(|(listed, _)| listed.as_bytes().cmp(name)).ok()
        };
        let found = kernel.ids().filter_map(|id| Some((id, listed(kernel.get(id)?)?))).collect();
        Writer { kernel, read, found, written: Vec::new(), strings: vec![0], ids: HashMap::new() }
    }

    /// Returns the id of the first struct with this name, which is also the one that the kernel uses.
    fn first(&self, name: &str) -> Option<u32> {
        self.found.iter().find(|(_, at)| self.read[*at].0 == name).map(|(id, _)| *id)
    }

    fn write(&mut self) -> Vec<u8> {
        for (id, _) in self.found.clone() {
            self.put(id, None);
        }
        let types = self.written.concat();
        let mut bytes = Vec::with_capacity(HEADER_LEN + types.len() + self.strings.len());
        bytes.extend_from_slice(&MAGIC.to_ne_bytes());
        bytes.extend_from_slice(&[1, 0]); // the version, and no flags
        for word in [HEADER_LEN, 0, types.len(), types.len(), self.strings.len()] {
            bytes.extend_from_slice(&(word as u32).to_ne_bytes());
        }
        bytes.extend_from_slice(&types);
        bytes.extend_from_slice(&self.strings);
        bytes
    }

    /// Writes a type of the kernel, unless it was written before. Returns its new id. If the type is an unnamed struct, only its members in `unnamed`
    /// are kept (all if `None`).
    fn put(&mut self, id: u32, unnamed: Members) -> u32 {
        let id = self.kernel.plain(id);
        let Some(of) = self.kernel.get(id) else { return 0 };
        let name = self.kernel.name(of.name());
        let members = match self.read.binary_search_by(|(listed, _)| listed.as_bytes().cmp(name)) {
            Ok(at) => Some(self.read[at].1),
            Err(_) if name.is_empty() => unnamed,
            Err(_) => Some(&[][..]),
        };
        let key = (id, members.map(<[_]>::as_ptr));
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let new = self.written.len() as u32 + 1;
        self.ids.insert(key, new);
        // Reserves the type's place first, since the types of its members are written after it and must not get its id.
        self.written.push(Vec::new());
        self.written[new as usize - 1] = match of.kind() {
            kind::STRUCT | kind::UNION => self.composite(of, members),
            kind::ARRAY => self.array(of, members),
            kind::INT | kind::FLOAT | kind::FWD => self.named(of, of.bytes),
            // The enumerators are left out: no program needs them.
            kind::ENUM | kind::ENUM64 => self.named(of, &with_entries(of, 0)),
            // The target is left out (`void`): programs that follow the pointer cast it to the type that they expect.
            kind::PTR => [0, kind::PTR << 24, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect(),
            // A type of any other kind cannot be a member of a struct, so an empty declaration takes its place.
            _ => [0, kind::FWD << 24, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect(),
        };
        new
    }

    fn named(&mut self, of: Type, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let name = self.string(self.kernel.name(of.name()));
        bytes[..4].copy_from_slice(&name.to_ne_bytes());
        bytes
    }

    fn composite(&mut self, of: Type, members: Members) -> Vec<u8> {
        let mut kept = Vec::new();
        for member in of.members() {
            let name = self.kernel.name(member.name);
            let is_read =
                |listed: &[&str]| name.is_empty() || listed.binary_search_by(|l| l.as_bytes().cmp(name)).is_ok();
            if !members.is_none_or(is_read) {
                continue;
            }
            // If the member has no name, its fields count as fields of this struct, so `members` (the members to keep) applies to them too. `members`
            // does not apply to a named member, even if its type is unnamed (such as kuid_t, which only a typedef names).
            let of = self.put(member.of, if name.is_empty() { members } else { None });
            let name = self.string(name);
            kept.extend([name, of, member.offset].into_iter().flat_map(u32::to_ne_bytes));
        }
        let mut bytes = self.named(of, &with_entries(of, kept.len() / MEMBER_LEN));
        bytes.extend_from_slice(&kept);
        bytes
    }

    fn array(&mut self, of: Type, members: Members) -> Vec<u8> {
        let mut bytes = of.bytes.to_vec();
        for at in [TYPE_LEN, TYPE_LEN + 4] {
            let id = u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let new = self.put(id, members);
            bytes[at..at + 4].copy_from_slice(&new.to_ne_bytes());
        }
        bytes
    }

    fn string(&mut self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(name);
        self.strings.push(0);
        at
    }
}

/// Returns the header of a BTF type, with the number of entries that follow the header set to `count`.
fn with_entries(of: Type, count: usize) -> Vec<u8> {
    let mut bytes = of.bytes[..TYPE_LEN].to_vec();
    bytes[4..8].copy_from_slice(&(of.info() & 0xffff_0000 | count as u32).to_ne_bytes());
    bytes
}

#[cfg(test)]
pub(super) mod tests {
    use libbpf_rs::{AsRawLibbpf, libbpf_sys};

    use super::*;
    use crate::bpf::programs;

    /// Returns the offset of a struct's member in bits, and the kind of the member's type.
    fn member(types: &Types<'_>, of: &str, named: &str) -> Option<(u32, u32)> {
        fn find(types: &Types<'_>, of: Type<'_>, named: &[u8], base: u32) -> Option<(u32, u32)> {
            of.members().find_map(|member| {
                let is = types.get(types.plain(member.of))?;
                match types.name(member.name) {
                    b"" => find(types, is, named, base + member.offset),
                    name => (name == named).then_some((base + member.offset, is.kind())),
                }
            })
        }
        let is = |t: &Type<'_>| t.kind() == kind::STRUCT && types.name(t.name()) == of.as_bytes();
        find(types, types.ids().filter_map(|id| types.get(id)).find(is)?, named.as_bytes(), 0)
    }

    #[test]
    fn what_is_read_lies_where_the_kernel_has_it() {
        let Ok(kernel) = std::fs::read(KERNEL) else { return };
        let kernel = Types::read(&kernel).expect("cox should be able to parse this kernel's types");
        let read = programs::READ;
        let excerpt = Writer::new(&kernel, read).write();
        let excerpt = Types::read(&excerpt).expect("an excerpt is what it is cut from");
        let all = read.iter().flat_map(|(of, members)| members.iter().map(move |named| (of, named)));
        let found = all.filter(|(of, named)| {
            let whole = member(&kernel, of, named);
            assert_eq!(whole, member(&excerpt, of, named), "{of}.{named}");
            whole.is_some()
        });
        let found = found.count();
        assert!(found > 10, "{found} members compared");
        assert!(excerpt.ids().count() < 400, "{} types", excerpt.ids().count());
    }

    /// All programs of an object as they are handed to the kernel, without the addresses of maps.
    pub(in crate::bpf) fn relocated(excerpt: Option<&Excerpt>) -> Vec<(u8, i16, i32)> {
        let mut builder = ObjectBuilder::default();
        if let Some(excerpt) = excerpt {
            excerpt.relocates(&mut builder);
        }
        let open = builder.open_memory(programs::object()).expect("an object");
        let object = open.as_libbpf_object().as_ptr();
        let mut all = Vec::new();
        // SAFETY: the object is open and lives until the end of this function; its programs and their instructions live as long.
        unsafe {
            assert_eq!(libbpf_sys::bpf_object__prepare(object), 0, "the maps are made");
            let mut program = libbpf_sys::bpf_object__next_program(object, std::ptr::null_mut());
            while !program.is_null() {
                let count = libbpf_sys::bpf_program__insn_cnt(program) as usize;
                let instructions = std::slice::from_raw_parts(libbpf_sys::bpf_program__insns(program), count);
                let mut of_an_address = false;
                for i in instructions {
                    all.push((
                        i.code,
                        i.off,
                        if of_an_address || i.code == 0x18 && i.src_reg() != 0 { 0 } else { i.imm },
                    ));
                    of_an_address = i.code == 0x18 && i.src_reg() != 0;
                }
                program = libbpf_sys::bpf_object__next_program(object, program);
            }
        }
        all
    }

    #[test]
    fn programs_are_the_same_as_by_all_types_of_the_kernel() {
        if !testkit::skip::is_root("programs_are_the_same_as_by_all_types_of_the_kernel") {
            return;
        }
        let excerpt = Excerpt::of_this_kernel(programs::READ).expect("cox should be able to parse this kernel's types");
        let (by_excerpt, by_all) = (relocated(Some(&excerpt)), relocated(None));
        assert!(by_all.len() > 200);
        assert!(by_excerpt == by_all);
    }

    #[test]
    fn types_that_are_not_understood_are_left_to_libbpf() {
        assert!(Types::read(b"").is_none());
        assert!(Types::read(&[0; 64]).is_none());
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC.to_ne_bytes());
        bytes.extend_from_slice(&[1, 0]);
        for word in [HEADER_LEN as u32, 0, 12, 12, 1] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        for word in [0, 31 << 24, 0] {
            bytes.extend_from_slice(&u32::to_ne_bytes(word));
        }
        bytes.push(0);
        assert!(Types::read(&bytes).is_none(), "a kind of later kernels");
    }
}
