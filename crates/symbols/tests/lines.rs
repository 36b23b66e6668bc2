//! Lines of source code from programs that gcc has compiled.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use machine::Root;
use object::{Object, ObjectSymbol};
use symbols::elf::{Line, Lines};

const SOURCE: &str =
    "static volatile int sink;\n\n\nvoid here(void)\n{\n\tsink = 1;\n}\nint main(void) { here(); return 0; }\n";

fn run(command: &mut Command) {
    assert!(command.status().expect("it can be executed").success(), "{command:?}");
}

/// Returns the first address of the function `here`.
fn address_of_here(program: &Path) -> u64 {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(bytes.as_slice()).unwrap();
    elf.symbols().find(|symbol| symbol.name() == Ok("here")).unwrap().address()
}

fn line_of(program: &Path, address: u64) -> Option<Line> {
    Lines::read(&File::open(program).unwrap(), program, &Root::live())?.at(address)
}

#[test]
fn an_address_has_the_line_of_its_source_file() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("here.c"), folder.path().join("here"));
    fs::write(&source, SOURCE).unwrap();
    run(Command::new("gcc").args(["-g", "-o"]).args([&program, &source]));
    let here = address_of_here(&program);
    let expected = |line| Some(Line { file: source.display().to_string(), line });
    assert_eq!((line_of(&program, here), line_of(&program, here + 12)), (expected(5), expected(6)));
    assert_eq!(line_of(&program, 1), None);

    // As distributions do it.
    let debug = folder.path().join("here.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").args([&program, &debug]));
    run(Command::new("objcopy")
        .arg("--strip-debug")
        .arg(format!("--add-gnu-debuglink={}", debug.display()))
        .arg(&program));
    assert_eq!(line_of(&program, here), expected(5));
    fs::remove_file(debug).unwrap();
    assert_eq!(line_of(&program, here), None);
}
