//! Programs with the preload library loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library under test: cargo builds it for these tests, beside them.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("libcox_preload.so"));
    places.find(|place| place.exists()).expect("libcox_preload.so beside the tests")
}

/// Compiles a program of this folder; `name` is the result's, one for each test: they run at the same time.
pub fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
    fs::create_dir_all(&folder).unwrap();
    let output = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    cc.arg(package.join("../wire/include")).arg("-o").arg(&output);
    cc.arg(package.join("tests/programs").join(source)).args(flags);
    assert!(cc.status().unwrap().success(), "{cc:?}");
    output
}

/// Runs a program with the library inside; it must succeed and complain about nothing.
pub fn inside(command: &mut Command) -> String {
    let output = run(command.env("LD_PRELOAD", library()));
    assert!(output.status.success(), "{command:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a program said of its preload page: the header's words, then each thread's.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub pid: u64,
    pub given: u64,
    pub seen: u64,
    pub team_threads: u64,
    pub threads: Vec<Thread>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Thread {
    pub tid: u64,
    pub in_barrier: u64,
    pub phases: u64,
    pub role: u64,
    pub ended: u64,
}

/// All that a program said of its page, one after the other.
pub fn reports(text: &str) -> Vec<Report> {
    let mut all: Vec<Report> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |name: &str| {
            let at = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("{name}: {text}"));
            words[at + 1].parse().unwrap()
        };
        match words[0] {
            "page" => all.push(Report {
                pid: number("pid"),
                given: number("given"),
                seen: number("seen"),
                team_threads: number("team_threads"),
                threads: Vec::new(),
            }),
            "thread" => all.last_mut().unwrap().threads.push(Thread {
                tid: number("thread"),
                in_barrier: number("in_barrier"),
                phases: number("phases"),
                role: number("role"),
                ended: number("ended"),
            }),
            _ => {}
        }
    }
    all
}
