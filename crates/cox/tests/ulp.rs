//! `cox ulp`: copies of a program in one address space, from the command line to the summary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

use testkit::run::{COX, Ran, run};

/// Runs `cox ulp` with these words.
fn ulp(words: &[&str]) -> Ran {
    run(Command::new(COX).arg("ulp").args(words))
}

#[test]
fn copies_run_with_their_numbers_and_the_summary_says_how_they_ended() {
    let ran = ulp(&["-n", "5", "--env-rank", "RANK", "--", "sh", "-c", "echo $RANK; exit $((RANK % 2 * 3))"]);
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!((ran.code, lines), (3, vec!["0", "1", "2", "3", "4"]));
    let said = ran.stderr.trim_end();
    assert!(said.starts_with("cox: 5 ULPs · ") && said.ends_with(" s · exit 0: 0 2 4, exit 3: 1 3"), "{said}");
    let quiet = ulp(&["-q", "-n", "2", "--", "true"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[test]
fn what_cannot_run_is_one_line_with_the_usual_code() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    for (words, code, part) in [
        (&["-n", "2", "--", "/no/such/program"][..], 127, "no such file"),
        (&["-n", "2", "--", "no-such-program"], 127, "not found on PATH"),
        (&["-n", "2", "--", plain], 126, "not executable"),
        (&["-n", "2", "--", "/"], 126, "not executable"),
    ] {
        let ran = ulp(words);
        assert_eq!(
            (ran.code, ran.text().as_str(), ran.stderr.lines().count()),
            (code, "", 1),
            "{words:?}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    for words in
        [&["-n", "0", "--", "true"][..], &["--", "true"], &["-n", "2"], &["-n", "2", "--env-rank", "A=B", "--", "true"]]
    {
        assert_eq!(ulp(words).code, 125, "{words:?}");
    }
}
