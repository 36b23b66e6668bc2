use std::fs;

use proptest::prelude::*;

use super::*;

/// A small program: one header table, and segments given as address, bytes in memory, position, bytes in the file.
fn program(kind: elf::FileType, segments: &[(u64, u64, u64, u64)]) -> Vec<u8> {
    let mut file = vec![0u8; 0x3000];
    file[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &kind.0.to_le_bytes());
    put(18, &elf::EM_X86_64.0.to_le_bytes());
    put(20, &1u32.to_le_bytes());
    put(24, &0x1234u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(52, &64u16.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &(segments.len() as u16).to_le_bytes());
    put(58, &64u16.to_le_bytes());
    for (number, (at, memory, offset, bytes)) in segments.iter().enumerate() {
        let header = 64 + 56 * number;
        put(header, &elf::PT_LOAD.0.to_le_bytes());
        put(header + 4, &(elf::PF_R | elf::PF_X).0.to_le_bytes());
        for (place, value) in [(8, *offset), (16, *at), (24, *at), (32, *bytes), (40, *memory), (48, 0x1000)] {
            put(header + place, &value.to_le_bytes());
        }
    }
    file
}

fn read(file: &[u8]) -> Result<Layout, Unfit> {
    Layout::of(file)
}

#[test]
fn a_program_of_this_machine_has_its_dynamic_linker_and_headers() {
    let layout = read(&fs::read("/bin/sh").unwrap()).unwrap();
    assert_eq!(layout.interpreter.as_deref(), Some(c"/lib64/ld-linux-x86-64.so.2"));
    assert!(layout.segments.iter().any(|one| one.executable && !one.writable), "{layout:?}");
    assert!(layout.pages.contains(&layout.headers_at) && layout.pages.contains(&layout.entry), "{layout:?}");
    assert!(!layout.executable_stack);
}

#[test]
fn headers_are_found_through_their_segment() {
    // As Go links: the first segment does not begin at 0, and the second one contains the headers.
    let layout = read(&program(elf::ET_DYN, &[(0x1000, 0x10, 0x1000, 0x10), (0x8000, 0x400, 0, 0x400)])).unwrap();
    assert_eq!((layout.headers_at, layout.headers, layout.pages), (0x8040, 2, 0x1000..0x9000));
}

#[test]
fn what_cannot_be_a_ulp_says_why() {
    let whole = &[(0, 0x100, 0, 0x100)];
    assert_eq!(read(b"MZ, or anything else"), Err(Unfit::Foreign));
    assert_eq!(read(b""), Err(Unfit::Foreign));
    assert_eq!(read(&program(elf::ET_EXEC, whole)), Err(Unfit::Fixed));
    assert_eq!(read(&program(elf::ET_REL, whole)), Err(Unfit::Foreign));
    let damaged = |segments| matches!(read(&program(elf::ET_DYN, segments)), Err(Unfit::Damaged(_)));
    assert!(!damaged(whole));
    assert!(damaged(&[]), "nothing to map");
    assert!(damaged(&[(0, 0x10, 0, 0x100)]), "more in the file than in memory");
    assert!(damaged(&[(0x10, 0x100, 0, 0x100)]), "another place in its page than in the file's");
    assert!(damaged(&[(0, 0x9000, 0, 0x9000)]), "beyond the end of the file");
    assert!(damaged(&[(u64::MAX - 0xfff, 0x2000, 0, 0x100)]), "beyond the end of all addresses");
    assert!(damaged(&[(0, 0x1800, 0, 0x100), (0x1000, 0x100, 0, 0x100)]), "one over the other");
    assert!(damaged(&[(0x1000, 0x100, 0x1000, 0x100)]), "the headers are not mapped");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600), from in 0usize..200) {
        let mut file = program(elf::ET_DYN, &[(0, 0x100, 0, 0x100)]);
        let end = (from + bytes.len()).min(file.len());
        file[from..end].copy_from_slice(&bytes[..end - from]);
        if let Ok(layout) = read(&file) {
            prop_assert!(layout.pages.start < layout.pages.end && layout.align.is_power_of_two());
        }
    }
}
