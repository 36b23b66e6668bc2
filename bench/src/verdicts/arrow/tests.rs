//! Every action of the crate `advise`, taken from its source, must be one that is followed or listed as by hand.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn changes(action: &str) -> Vec<Change> {
    match read(action, 2) {
        Followed::Changes(changes) => changes,
        other => panic!("{action}: {other:?}"),
    }
}

fn set(name: &str, value: &str) -> Vec<Change> {
    vec![Change::Set(name.to_owned(), value.to_owned())]
}

fn under(words: &[&str]) -> Vec<Change> {
    vec![Change::Under(words.iter().map(|word| (*word).to_owned()).collect())]
}

#[test]
fn steps_become_changes() {
    assert_eq!(changes("OMP_NUM_THREADS=2"), set("OMP_NUM_THREADS", "2"));
    assert_eq!(changes("OMP_WAIT_POLICY=passive"), set("OMP_WAIT_POLICY", "passive"));
    assert_eq!(changes("GOMAXPROCS=4 (Go)"), set("GOMAXPROCS", "4"));
    assert_eq!(changes("unset OMP_PLACES, or let it include CPU 0-1"), [Change::Unset("OMP_PLACES".into())]);
    assert_eq!(changes("run it with 2 threads"), [Change::Number(2)]);
    let options = "run it with 2 threads, if it has an option for that (such as -j, -p, -T or --threads)";
    assert_eq!(changes(options), [Change::Number(2)]);
    assert_eq!(changes("run 2 children at the same time, if they can (make -j2)"), [Change::Number(2)]);
    assert_eq!(changes("run it with 1 thread"), [Change::Number(1)]);
    assert_eq!(changes("run it with 2 ranks on this machine (mpirun -n 2)"), [Change::Number(2)]);
    assert_eq!(changes("allow CPU 0-1 (taskset -c 0-1, cpuset or job request)"), [Change::Allow(vec![0, 1])]);
    assert_eq!(changes("allow CPU 0,2-3 (taskset -c 0,2-3, cpuset or job request)"), [Change::Allow(vec![0, 2, 3])]);
    let both = changes("allow CPU 0-1 (taskset -c 0-1, cpuset or job request), with OMP_NUM_THREADS=2");
    let set = set("OMP_NUM_THREADS", "2");
    assert_eq!(both, [Change::All(vec![Change::Allow(vec![0, 1]), set[0].clone()])]);
    let both = changes("unset OMP_PLACES, or let it include CPU 0-1, with 2 threads");
    assert_eq!(both, [Change::All(vec![Change::Unset("OMP_PLACES".into()), Change::Number(2)])]);
    assert_eq!(changes("mpirun --bind-to none"), [Change::Bind("none".into())]);
    assert_eq!(changes("stop hog, or keep it off CPU 0-1"), [Change::Alone]);
    assert_eq!(changes("look for another busy program on these CPUs (top)"), [Change::Alone]);
    assert_eq!(changes("raise the group's cpu.max to 2 CPUs or more"), [Change::Quota(2.0)]);
    assert_eq!(changes("ask for a quota of 4 CPUs or more (container or job limit)"), [Change::Quota(2.0)]);
    assert_eq!(changes("cox pack --cpus 0-1 …"), under(&["pack", "--cpus", "0-1"]));
    assert_eq!(changes("cox run --overlap -- …"), under(&["run", "--overlap"]));
}

#[test]
fn what_only_people_can_do_is_listed() {
    for (action, why) in [
        ("schedule(dynamic) or schedule(guided) on the loops (OMP_SCHEDULE if they have schedule(runtime))", PROGRAM),
        ("hold the lock for a shorter time, or split it", PROGRAM),
        ("ask the host for CPUs of your own; no setting inside this machine helps", MACHINE),
        ("cox advise --cpus 0-1 -- ./app …", QUESTION),
    ] {
        assert_eq!(read(action, 2), Followed::ByHand(why), "{action}");
    }
    for unknown in ["", "rewrite it", "allow CPU x", "run it with many threads", "=2", "a=2", "cox fly", "unset "] {
        assert_eq!(read(unknown, 2), Followed::Unknown, "{unknown}");
    }
}

/// Words with which an English sentence tells somebody what to do. A text in `advise` that begins with one of them, or with an assignment of a
/// variable, is an action.
const IMPERATIVES: &str = "add allow ask avoid balance batch bind build change choose close collect combine cox cut decrease \
    dedicate disable distribute divide do drop enable end ensure export find fix free fuse get give group \
    halt hold increase isolate join keep leave let limit look lower make mark merge move mpiexec mpirun \
    numactl overlap pass pin place prefer put raise read rebuild reduce remove replace request restrict run \
    schedule(dynamic) send set share shorten shrink sleep slow spin split spread start stop swap switch take \
    taskset tell test try tune turn unbind unpin unset use wait widen write yield";

/// Texts that begin with such a word and are no actions: parts of sentences.
const NO_ACTIONS: [&str; 2] = ["spin and yield", "run it with "];

/// Values for the placeholders of actions.
const VALUES: [(&str, &str); 17] = [
    ("run {cpus} children", "run 2 children"),
    ("{variable}={whole}", "GOMAXPROCS=2"),
    ("run it with {}", "run it with 2 threads"),
    ("cox {verb} --cpus {cpus} {what}", "cox pack --cpus 0-1 --pid 1"),
    ("run it with {} on this machine{option}", "run it with 2 ranks on this machine"),
    ("{name}", "OMP_PLACES"),
    ("{TOP_PAD}", "MALLOC_TOP_PAD_"),
    ("{setting}", "run it with 2 threads"),
    ("unset {}, so", "unset KMP_BLOCKTIME, so"),
    ("{who}", "hog"),
    ("{them}", "it"),
    ("{comm}", "kworker"),
    ("{tid}", "42"),
    ("{whole}", "2"),
    ("{could_use:.0}", "2"),
    ("{0}", "0-1"),
    ("{}", "0-1"),
];

/// Number of mentions of `NextStep::` in the source of `advise`.
const PLACES: usize = 30;

/// Texts of actions that are in the source of `advise`.
const PRESENT: [&str; 32] = [
    "use faster storage",
    "run {cpus} children at the same time",
    "{variable}={whole}",
    "OMP_NUM_THREADS={",
    "OMP_WAIT_POLICY=passive",
    "OMP_WAIT_POLICY=active",
    "run it with {",
    "cox {verb} --cpus",
    "cox run --overlap",
    "unset {name}, or",
    "unset {}, so that",
    "run it with {} on this machine",
    "--bind-to none",
    "give part of the work of process",
    "allow CPU {",
    "raise the group's cpu.max to",
    "ask for a quota of",
    "stop {who}, or keep",
    "look for another busy program",
    "run it on CPUs",
    "schedule(dynamic) or",
    "use smaller chunks",
    "give part of thread",
    "divide this work among the {them}",
    "{TOP_PAD}=67108864",
    "if it has an option for that",
    "hold the lock",
    "let the threads meet less",
    "make fewer and larger",
    "send fewer and larger",
    "read ahead (",
    "ask the host",
];

#[test]
fn every_action_of_advise_is_known() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/advise/src");
    let (mut actions, mut places) = (0, 0);
    for file in rust_files(&source) {
        let code = fs::read_to_string(&file).unwrap();
        for text in texts(&code).into_iter().filter(|text| is_action(text)) {
            let example = VALUES.iter().fold(text.clone(), |text, (name, value)| text.replace(name, value));
            let known = read(&example, 2) != Followed::Unknown;
            assert!(known, "{}: the corpus cannot follow the step \"{text}\": add it to arrow.rs", file.display());
            actions += 1;
        }
        places += code.split("#[cfg(test)]").next().unwrap_or_default().matches("NextStep::").count();
        // An action need not begin with an imperative of this test. The first text in each call that makes a step is an action, too.
        for text in first_texts(&code) {
            let example = VALUES.iter().fold(text.clone(), |text, (name, value)| text.replace(name, value));
            let known = read(&example, 2) != Followed::Unknown;
            assert!(known, "{}: the corpus cannot follow the step \"{text}\": add it to arrow.rs", file.display());
        }
    }
    assert!(actions >= 20, "only {actions} actions were found in {}", source.display());
    // An action can begin with a word that is not in the list. A new one needs a new place that makes steps, or replaces one of the texts below.
    assert_eq!(
        places, PLACES,
        "advise makes steps in other places: see that arrow.rs knows their actions, then set this number"
    );
    let all: String = rust_files(&source).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for text in PRESENT {
        assert!(all.contains(text), "advise no longer says \"{text}\": see that arrow.rs knows what replaces it");
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| rust_files(folder));
    files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")).chain(below).collect()
}

fn is_action(text: &str) -> bool {
    let Some(first) = text.split(' ').next() else { return false };
    let assigned = first.split_once('=').is_some_and(|(name, _)| {
        name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
    });
    let told = text.contains(' ') && IMPERATIVES.split_whitespace().any(|word| word == first);
    // Sentences end with a full stop; actions do not.
    (assigned || told) && !text.ends_with('.') && !text.starts_with("cox does not know ") && !NO_ACTIONS.contains(&text)
}

/// Returns the string literals of code, without those in comments and in tests at the end of the file.
fn texts(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some((_, after)) = rest.split_once('"') {
        let Some(end) = end_of_text(after) else { break };
        found.push(joined(&after[..end]));
        rest = &after[end + 1..];
    }
    found
}

fn end_of_text(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// Joins a literal that continues on the next line.
fn joined(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

/// Returns the literals that are the first argument of a call that makes a step without a forecast.
fn first_texts(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let calls = code.split("NextStep::plain(").skip(1);
    let literal = calls.filter_map(|call| call.trim_start().strip_prefix('"'));
    literal.filter_map(|text| Some(joined(&text[..end_of_text(text)?]))).collect()
}

#[test]
fn the_search_for_actions_finds_them() {
    let code = "// \"use this\"\nlet a = f(\"stop it\", \"said so.\");\nlet b = \"A_B={n}\"; \"move \\\n   it\";\n#[cfg(test)] \"use x\"";
    let found: Vec<String> = texts(code).into_iter().filter(|text| is_action(text)).collect();
    assert_eq!(found, ["stop it", "A_B={n}", "move it"]);
    assert_eq!(first_texts("NextStep::plain(\n  \"a b\", k); NextStep::plain(x, k)"), ["a b"]);
}
