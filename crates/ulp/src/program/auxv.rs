//! The auxiliary vector: what the kernel tells a new program about itself and the machine (getauxval(3)).

use super::layout::Layout;

/// Numbers of entries, as in the kernel's auxvec.h.
pub mod entry {
    /// The end of the vector.
    pub const NULL: u64 = 0;
    /// Address of the program headers.
    pub const PHDR: u64 = 3;
    /// Length of a program header, bytes.
    pub const PHENT: u64 = 4;
    /// Number of program headers.
    pub const PHNUM: u64 = 5;
    /// Base of the dynamic linker.
    pub const BASE: u64 = 7;
    /// Entry point of the program.
    pub const ENTRY: u64 = 9;
    /// Address of sixteen random bytes.
    pub const RANDOM: u64 = 25;
    /// Address of the program's path.
    pub const EXECFN: u64 = 31;
}

/// Length of a program header, bytes.
const HEADER_BYTES: u64 = 56;

/// The entries of this process's own vector, in the kernel's order.
pub type Entries = Vec<(u64, u64)>;

/// Where parts of a new program are.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Base of the program.
    pub program: u64,
    /// Base of its dynamic linker; 0 without one.
    pub linker: u64,
    /// Sixteen random bytes, from which the program makes its stack protector and its pointer guard.
    pub random: u64,
    /// The path of the program, as a C string.
    pub path: u64,
}

/// Returns the vector of a new program from `own`, that of this process: what the machine and the user are stays the same, and so do the addresses of
/// the vDSO and of the platform's name, because the program is in the same address space.
#[must_use]
pub fn of_program(own: &[(u64, u64)], layout: &Layout, places: Places) -> Entries {
    let new = |key: u64, value: u64| match key {
        entry::PHDR => places.program + layout.headers_at,
        entry::PHENT => HEADER_BYTES,
        entry::PHNUM => layout.headers.into(),
        entry::BASE => places.linker,
        entry::ENTRY => places.program + layout.entry,
        entry::RANDOM => places.random,
        entry::EXECFN => places.path,
        _ => value,
    };
    own.iter().filter(|(key, _)| *key != entry::NULL).map(|&(key, value)| (key, new(key, value))).collect()
}

/// Reads the vector of a process from the contents of `/proc/PID/auxv`.
#[must_use]
pub fn parse(bytes: &[u8]) -> Entries {
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
    let pairs = bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
    pairs.take_while(|(key, _)| *key != entry::NULL).collect()
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layout;
    use super::*;

    #[test]
    fn only_what_belongs_to_the_program_changes() {
        let file = std::fs::read("/bin/sh").unwrap();
        let layout = Layout::of(&file[..]).unwrap();
        let own = parse(&std::fs::read("/proc/self/auxv").unwrap());
        let places = Places { program: 0x10000, linker: 0x20000, random: 3, path: 4 };
        let new = of_program(&own, &layout, places);
        assert_eq!(own.len(), new.len());
        let of = |entries: &Entries, key| entries.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
        assert_eq!(of(&new, entry::ENTRY), Some(0x10000 + layout.entry));
        assert_eq!(of(&new, entry::PHDR), Some(0x10000 + layout.headers_at));
        assert_eq!(
            (of(&new, entry::BASE), of(&new, entry::RANDOM), of(&new, entry::EXECFN)),
            (Some(0x20000), Some(3), Some(4))
        );
        let changed: Vec<u64> =
            own.iter().zip(&new).filter(|(own, new)| own != new).map(|((key, _), _)| *key).collect();
        let may = [entry::PHDR, entry::PHNUM, entry::BASE, entry::ENTRY, entry::RANDOM, entry::EXECFN];
        assert!(changed.iter().all(|key| may.contains(key)), "{changed:?}");
    }

    #[test]
    fn a_vector_ends_at_its_null_entry_or_its_end() {
        let bytes: Vec<u8> = [6u64, 4096, 0, 0, 9, 9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(parse(&bytes), [(6, 4096)]);
        assert_eq!(parse(&bytes[..20]), [(6, 4096)]);
        assert_eq!(parse(&[]), []);
    }
}
