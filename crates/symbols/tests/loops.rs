//! Checks the rule for waiting loops on compiled code: `fixtures/loops.c`.
#![cfg(target_arch = "x86_64")]

mod common;

use std::fs::File;
use std::path::Path;

use arch::wait_loop::Verdict;
use machine::Root;
use object::{Object, ObjectSymbol};
use symbols::elf::Image;

/// Verdicts on all bytes of every function of `program` whose name begins with `prefix`.
fn verdicts(program: &Path, prefix: &str) -> Vec<(String, Vec<Verdict>)> {
    let bytes = std::fs::read(program).expect("the program was just compiled");
    let elf = object::File::parse(&*bytes).expect("compilers make ELF files");
    let image = Image::open(File::open(program).expect("open"), program, &Root::live()).expect("ELF");
    elf.symbols()
        .filter(|symbol| symbol.name().is_ok_and(|name| name.starts_with(prefix)) && symbol.size() > 0)
        .map(|symbol| {
            let function = image.function_at(symbol.address()).expect("it has a symbol");
            let loops = image.wait_loops(&function);
            let all = (function.start..function.end).map(|ip| loops.verdict(ip)).collect();
            (symbol.name().unwrap_or_default().to_owned(), all)
        })
        .collect()
}

fn check(compiler: &str, level: &str) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let program = common::compile(compiler, "loops.c", &[level, "-pthread", "-Wno-unused-result"], folder.path());
    let waiting = verdicts(&program, "wait_");
    let working = verdicts(&program, "work_");
    assert!(waiting.len() >= 22 && working.len() >= 28, "{} and {}", waiting.len(), working.len());
    let mut wrong = Vec::new();
    for (name, all) in waiting {
        let sees = |verdict| all.contains(&verdict);
        if !sees(Verdict::Waits) || sees(Verdict::Works) || sees(Verdict::Moves) {
            wrong.push(name);
        }
    }
    for (name, all) in working {
        if all.contains(&Verdict::Waits) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{compiler} {level}: misjudged {wrong:?}");
}

#[test]
fn gcc_not_optimised() {
    check("gcc", "-O0");
}

#[test]
fn gcc_optimised() {
    for level in ["-O1", "-O2", "-O3", "-Os", "-Og"] {
        check("gcc", level);
    }
}

#[test]
fn clang() {
    if common::installed("clang") {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            check("clang", level);
        }
    }
}
