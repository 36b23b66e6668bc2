//! Loops of programs that clang has compiled, with the library loaded.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{SCHEDULES, THREADS, compile, kept, run, with};
use testkit::skip::{Need, skip};

/// A compiler, and its options for a libomp that is not where it looks.
struct Clang {
    command: String,
    options: Vec<String>,
}

/// Returns the compilers, each with the newest libomp. If there is none, says that `test` is skipped.
fn compilers(test: &str) -> Vec<Clang> {
    let library = (14..=24).rev().find(|version| Path::new(&format!("/usr/lib/llvm-{version}/lib/libomp.so")).exists());
    let options = library.map_or(Vec::new(), |version| {
        let folder = format!("/usr/lib/llvm-{version}/lib");
        let header = format!("{folder}/clang/{version}/include");
        vec!["-idirafter".to_owned(), header, format!("-L{folder}"), format!("-Wl,-rpath,{folder}")]
    });
    let works = |command: &str| {
        let version = Command::new(command).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        library.is_some() && version.is_ok_and(|status| status.success())
    };
    // Without a number it may be one of those with a number.
    let numbered = (14..=24).map(|version| format!("clang-{version}")).filter(|command| works(command));
    let clang = |command| Clang { command, options: options.clone() };
    let mut found: Vec<_> = numbered.map(clang).collect();
    if found.is_empty() && works("clang") {
        found.push(clang("clang".to_owned()));
    }
    if found.is_empty() {
        skip(test, Need::Libomp, "needs clang and libomp (libomp-dev)");
    }
    found
}

fn program(clang: &Clang, source: &str, name: &str) -> PathBuf {
    let options: Vec<_> = clang.options.iter().map(String::as_str).collect();
    compile(&clang.command, source, &format!("{name}-{}", clang.command), &options)
}

#[test]
fn each_form_keeps_its_promise_with_each_schedule() {
    for compiler in compilers("libomp_forms") {
        let program = program(&compiler, "forms.c", "omp-forms");
        for (schedule, threads) in SCHEDULES.iter().flat_map(|schedule| THREADS.map(|threads| (schedule, threads))) {
            kept(&mut with(&program, &format!("all:{schedule}"), threads));
        }
    }
}

#[test]
fn runtime_loops_change_and_others_on_request() {
    for compiler in compilers("libomp_blocks") {
        let program = program(&compiler, "forms.c", "omp-blocks");
        for threads in ["2", "4", "8"] {
            assert_eq!(kept(with(&program, "all:static", threads).arg("blocks")), "");
            assert_eq!(kept(with(&program, "static", threads).arg("runtime-blocks")), "");
            let changed = |_| run(with(&program, "static", threads).arg("blocks")).status.success();
            assert!(!(0..5).all(changed), "{threads} threads");
        }
    }
}

/// `static` loops have blocks by weights, the same ones in each loop; those of other teams stay libomp's.
#[test]
fn static_loops_have_weighted_blocks() {
    for compiler in compilers("libomp_static") {
        let program = program(&compiler, "blocks.c", "omp-static");
        let blocks = |schedule, threads| {
            let output = run(&mut with(&program, schedule, threads));
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(blocks("all:static", "3"), "200 400 300\n200 400 300\n2 4 3\n0 1 0\n");
        assert_eq!(blocks("static", "3"), "300 300 300\n300 300 300\n3 3 3\n1 0 0\n");
        assert_eq!(blocks("all:static", "2"), "450 450\n450 450\n5 4\n1 0\n");
    }
}

#[test]
fn teams_have_their_own_loops() {
    for compiler in compilers("libomp_teams") {
        let program = program(&compiler, "teams.c", "omp-teams");
        for name in ["chain", "nested", "concurrent", "cancelled", "mixed", "sizes", "threads", "changing"] {
            for (schedule, threads) in ["ss", "static_steal", "all:fac2", "awf_b"]
                .into_iter()
                .flat_map(|schedule| THREADS.map(|threads| (schedule, threads)))
            {
                assert_eq!(kept(with(&program, schedule, threads).arg(name)), "", "{name}, {schedule}, {threads}");
            }
        }
    }
}
