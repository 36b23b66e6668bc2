//! On files that gcc and binutils make.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;

const SOURCE: &str = r#"
#include <sched.h>
__asm__(".text\n.globl bare\nbare:\n nop\n nop\n ret\n.globl after\n.type after,@function\nafter:\n ret\n.size after,.-after\n.skip 8, 0x90\n");
__asm__(".globl outer\n.type outer,@function\nouter:\n nop\n.globl inner\n.type inner,@function\ninner:\n nop\n"
        ".size inner,.-inner\n nop\n ret\n.size outer,.-outer\n");
static __attribute__((noinline, used)) int hidden(int x) { return x * 3 + sched_yield(); }
__attribute__((noinline)) int shown(int x) { return hidden(x) + 1; }
int main(int argc, char **argv) { (void)argv; return shown(argc); }
"#;

struct Built {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Built {
    fn new(flags: &[&str]) -> Built {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        fs::write(&source, SOURCE).expect("write");
        let built = Built { folder, program };
        built.tool("gcc", &["-O1", "-rdynamic", &built.at("a.c"), "-o", &built.at("a")], flags);
        built
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn tool(&self, tool: &str, arguments: &[&str], more: &[&str]) {
        let status = Command::new(tool).args(arguments).args(more).status().expect(tool);
        assert!(status.success(), "{tool} {arguments:?}");
    }

    fn image(&self) -> Image {
        self.image_below(&Root::live())
    }

    fn image_below(&self, root: &Root) -> Image {
        Image::open(File::open(&self.program).expect("open"), &self.program, root).expect("ELF")
    }

    /// Address and size of a symbol, as the linker wrote them.
    fn symbol(&self, name: &str) -> (u64, u64) {
        let bytes = fs::read(&self.program).expect("read");
        let elf = object::File::parse(&*bytes).expect("ELF");
        let symbol = elf.symbol_by_name(name).expect("present");
        (symbol.address(), symbol.size())
    }
}

fn name(image: &Image, address: u64) -> Option<String> {
    image.function_at(address).and_then(|function| function.name)
}

#[test]
fn a_symbol_covers_its_size_and_no_more() {
    let built = Built::new(&[]);
    let image = built.image();
    let (start, size) = built.symbol("hidden");
    let function = image.function_at(start + size - 1).expect("covered");
    assert_eq!((function.start, function.end), (start, start + size));
    assert_eq!((function.name.as_deref(), function.guessed), (Some("hidden"), false));
    assert_ne!(name(&image, start + size).as_deref(), Some("hidden"));
}

#[test]
fn of_nested_symbols_the_innermost_that_covers() {
    let built = Built::new(&[]);
    let image = built.image();
    let (outer, _) = built.symbol("outer");
    let names: Vec<_> = (outer..outer + 4).map(|address| name(&image, address)).collect();
    let expected = ["outer", "inner", "outer", "outer"].map(|name| Some(name.to_owned()));
    assert_eq!(names, expected);
}

#[test]
fn assembly_without_size_is_guessed_up_to_the_next_symbol() {
    let built = Built::new(&[]);
    let image = built.image();
    let (bare, size) = built.symbol("bare");
    assert_eq!(size, 0);
    let function = image.function_at(bare + 2).expect("guessed");
    assert_eq!((function.start, function.end, function.guessed), (bare, bare + 3, true));
    assert_eq!(function.name.as_deref(), Some("bare"));
    assert_eq!(name(&image, bare + 3).as_deref(), Some("after"));
    assert_eq!(image.function_at(bare + 4), None, "behind a symbol that says where it ends");
}

#[test]
fn a_stripped_function_has_bounds_and_no_name() {
    let built = Built::new(&[]);
    let (start, size) = built.symbol("hidden");
    let (shown, _) = built.symbol("shown");
    built.tool("strip", &[&built.at("a")], &[]);
    let image = built.image();
    let function = image.function_at(start + 1).expect("unwind table");
    assert_eq!((function.start, function.end), (start, start + size));
    assert_eq!(function.name, None);
    assert_eq!(name(&image, shown).as_deref(), Some("shown"), "exported names stay");
}

#[test]
fn a_debug_file_is_found_by_its_link_if_the_checksum_fits() {
    let built = Built::new(&["-Wl,--build-id=none"]);
    let (start, _) = built.symbol("hidden");
    let (program, debug) = (built.at("a"), built.at("a.debug"));
    built.tool("objcopy", &["--only-keep-debug", &program, &debug], &[]);
    built.tool("strip", &[&program], &[]);
    built.tool("objcopy", &[&format!("--add-gnu-debuglink={debug}"), &program], &[]);
    assert_eq!(name(&built.image(), start).as_deref(), Some("hidden"));
    let mut other = fs::read(&debug).expect("read");
    other.push(0);
    fs::write(&debug, other).expect("write");
    assert_eq!(name(&built.image(), start), None);
}

#[test]
fn a_debug_link_leads_to_regular_files_of_bounded_length_only() {
    let built = Built::new(&["-Wl,--build-id=none"]);
    let (start, _) = built.symbol("hidden");
    let (program, debug) = (built.at("a"), built.at("a.debug"));
    built.tool("objcopy", &["--only-keep-debug", &program, &debug], &[]);
    built.tool("strip", &[&program], &[]);
    built.tool("objcopy", &[&format!("--add-gnu-debuglink={debug}"), &program], &[]);
    assert_eq!(name(&built.image(), start).as_deref(), Some("hidden"));
    let contents = fs::read(&debug).expect("read");
    File::options().write(true).open(&debug).expect("open").set_len(1 << 42).expect("sparse");
    assert_eq!(name(&built.image(), start), None, "reading all of it would take an hour");
    fs::remove_file(&debug).expect("remove");
    built.tool("mkfifo", &[&debug], &[]);
    assert_eq!(name(&built.image(), start), None, "opening a FIFO would wait for its writer");
    // The file and its checksum are right, but the link is a path: such a link could also lead into /proc.
    let (elsewhere, link) = (built.at("elsewhere.debug"), built.at("link"));
    fs::write(&elsewhere, &contents).expect("write");
    let mut text = elsewhere.into_bytes();
    text.resize((text.len() + 4) & !3, 0);
    text.extend(crc32fast::hash(&contents).to_le_bytes());
    fs::write(&link, text).expect("write");
    let section = format!(".gnu_debuglink={link}");
    built.tool("objcopy", &["--remove-section", ".gnu_debuglink", "--add-section", &section, &program], &[]);
    assert_eq!(name(&built.image(), start), None, "a debug link is a file name");
}

#[test]
fn a_debug_file_is_found_by_build_id() {
    let built = Built::new(&["-Wl,--build-id=0x1234abcd"]);
    let (start, _) = built.symbol("hidden");
    let program = built.at("a");
    let folder = built.folder.path().join("root/usr/lib/debug/.build-id/12");
    fs::create_dir_all(&folder).expect("mkdir");
    let debug = folder.join("34abcd.debug").display().to_string();
    built.tool("objcopy", &["--only-keep-debug", &program, &debug], &[]);
    built.tool("strip", &[&program], &[]);
    assert_eq!(name(&built.image(), start), None);
    let root = Root::at(built.folder.path().join("root"));
    assert_eq!(name(&built.image_below(&root), start).as_deref(), Some("hidden"));
}

#[test]
fn offsets_become_addresses_by_program_headers() {
    for flags in [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"]] {
        let built = Built::new(&flags);
        let image = built.image();
        let (start, _) = built.symbol("shown");
        let bytes = fs::read(&built.program).expect("read");
        let code = image.code(&image.function_at(start).expect("symbol"));
        let offset = bytes.windows(code.len()).position(|window| window == code).expect("in the file");
        assert_eq!(image.address(offset as u64), Some(start), "{flags:?}");
        assert_eq!(image.address(u64::MAX), None);
    }
}

#[test]
fn stubs_are_named_after_what_they_call() {
    for flags in [["-fcf-protection=none", "-Wl,-z,lazy"], ["-fcf-protection=full", "-Wl,-z,now"]] {
        let built = Built::new(&flags);
        let image = built.image();
        let (start, _) = built.symbol("hidden");
        let function = image.function_at(start).expect("symbol");
        assert!(image.wait_loops(&function).yields, "{flags:?}: hidden calls sched_yield");
        let stubs: Vec<String> = image
            .sections
            .iter()
            .filter(|section| section.is_plt)
            .flat_map(|section| section.address..section.end)
            .filter_map(|address| name(&image, address))
            .collect();
        let yields = stubs.iter().filter(|stub| *stub == "sched_yield@plt").count();
        assert_eq!(yields as u64, PLT_ENTRY_BYTES, "{flags:?}: every byte of one stub");
    }
}

#[test]
fn what_is_no_elf_file_is_an_error() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("text");
    for content in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0"] {
        fs::write(&path, content).expect("write");
        let image = Image::open(File::open(&path).expect("open"), &path, &Root::live());
        assert!(image.is_err(), "{content:?}");
    }
}

#[test]
fn damaged_files_are_survived() {
    let built = Built::new(&[]);
    let whole = fs::read(&built.program).expect("read");
    let mut seed = 88_172_645_463_325_252u64;
    for _ in 0..200 {
        let mut damaged = whole.clone();
        for _ in 0..20 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let at = (seed >> 8) as usize % damaged.len();
            // Headers are hit more often than their size would have it.
            damaged[if seed & 1 == 0 { at % 1024 } else { at }] = (seed >> 40) as u8;
        }
        fs::write(&built.program, damaged).expect("write");
        let file = File::open(&built.program).expect("open");
        if let Ok(image) = Image::open(file, &built.program, &Root::live()) {
            for address in (0..0x5000).step_by(7) {
                if let Some(function) = image.function_at(address) {
                    image.wait_loops(&function);
                }
            }
        }
    }
}
