use std::path::Path;

use super::*;

/// The hits of one row in a source of this name.
fn hits(row: &str, file: &str, text: &str) -> Vec<String> {
    let table = table(row).unwrap();
    let names = if file.ends_with(".md") { of_page(text) } else { of_rust(Path::new(file), text).unwrap() };
    names.iter().flat_map(|name| hits_of(Path::new(file), name, &table)).map(|hit| hit.to_string()).collect()
}

const ALL: &str = "crew\tteam\tmodule,type,field,function,option,json,message,page";

#[test]
fn each_kind_of_name_is_found_with_its_line() {
    let found =
        |file: &str, text: &str, expected: &str| assert_eq!(hits(ALL, file, text), [expected], "{file}: {text}");
    let file = "crates/a/src/b.rs";
    found(file, "\nmod crew {}", "crates/a/src/b.rs:2: module 'crew': write 'team' instead of 'crew'");
    found("crates/a/src/crew.rs", "", "crates/a/src/crew.rs:1: module 'crew': write 'team' instead of 'crew'");
    found("crates/crew/src/lib.rs", "", "crates/crew/src/lib.rs:1: module 'crew': write 'team' instead of 'crew'");
    found(file, "struct BigCrew;", "crates/a/src/b.rs:1: type 'BigCrew': write 'team' instead of 'crew'");
    found(file, "enum E { Crew }", "crates/a/src/b.rs:1: type 'Crew': write 'team' instead of 'crew'");
    found(file, "struct S { crews: u8 }", "crates/a/src/b.rs:1: field 'crews': write 'team' instead of 'crew'");
    found(
        file,
        "impl S { fn crew_of() {} }",
        "crates/a/src/b.rs:1: function 'crew_of': write 'team' instead of 'crew'",
    );
    found(
        file,
        "#[derive(clap::Args)] struct S { crew: u8 }",
        "crates/a/src/b.rs:1: option 'crew': write 'team' instead of 'crew'",
    );
    found(
        file,
        "#[derive(clap::Args)] struct S { #[arg(short, long = \"the-crew\")] team: u8 }",
        "crates/a/src/b.rs:1: option 'the-crew': write 'team' instead of 'crew'",
    );
    found(
        file,
        "#[derive(Debug, Serialize)] struct S { #[serde(default, rename = \"crew\")] team: u8 }",
        "crates/a/src/b.rs:1: json 'crew': write 'team' instead of 'crew'",
    );
    found(
        file,
        "fn f() { format!(\"{} in the crew\", 1) }",
        "crates/a/src/b.rs:1: message '{} in the crew': write 'team' instead of 'crew'",
    );
    found("docs/a.md", "One\nThe crew waits.", "docs/a.md:2: page 'The crew waits.': write 'team' instead of 'crew'");
}

#[test]
fn other_kinds_comments_tests_and_longer_words_are_none() {
    let file = "crates/a/src/b.rs";
    let text = "/// A crew.\nstruct S { screw: u8, crewed: u8 }\n#[cfg(test)] mod tests { fn crew() {} }\n#[test] fn crew() {}";
    assert_eq!(hits(ALL, file, text), [""; 0]);
    assert_eq!(hits("crew\tteam\ttype", file, "struct S { crew: u8 }"), [""; 0]);
    assert_eq!(hits("crew\tteam\tfield\tcrates/a/src", file, "struct S { crew: u8 }"), [""; 0]);
    assert_eq!(hits("crew\tteam\tfield\tcrates/b", file, "struct S { crew: u8 }").len(), 1);
}

#[test]
fn a_phrase_is_its_words_in_a_row() {
    let found = |text: &str| hits("took cpu\tpreemptors\tjson,message", "a.rs", text).len();
    assert_eq!(found("#[derive(Serialize)] struct S { took_cpu: u8, cpu_took: u8 }"), 1);
    assert_eq!(found("const A: &str = \"who took CPUs\"; const B: &str = \"took the CPU\";"), 1);
}

#[test]
fn a_whole_name_has_no_other_words() {
    let found = |text: &str| hits("=hot\thot_functions\tjson,type", "a.rs", text).len();
    assert_eq!(found("#[derive(Serialize)] struct S { hot: u8, hot_functions: u8 }"), 1);
    assert_eq!(found("struct Hot; struct HotFunction;"), 1);
}

#[test]
fn a_row_that_says_nothing_is_refused() {
    for row in ["crew", "crew\tteam", "crew\tteam\tfields", "a\tb\tfield\tc\td"] {
        assert!(table(row).is_err(), "{row}");
    }
    assert!(table("# a comment\n\n").unwrap().is_empty());
}
