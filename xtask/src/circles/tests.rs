use std::fs;

use super::*;

/// The circles of a crate of these files, below a folder of its own. `lib.rs` is its root.
fn circles_of(files: &[(&str, &str)]) -> Vec<Circle> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let built = Crate { roots: vec![folder.path().join("lib.rs")], ..Crate::default() };
    let (circles, number) = of_workspace(&[built], folder.path()).unwrap();
    assert_eq!(number, files.len(), "not all files were read");
    circles
}

/// Whether these files, and no others, are in a circle.
fn is_circle(files: &[(&str, &str)], expected: &[&str]) {
    let circles = circles_of(files);
    let found: Vec<Vec<&str>> =
        circles.iter().map(|circle| circle.files.iter().map(|f| f.to_str().unwrap()).collect()).collect();
    let expected: Vec<Vec<&str>> = if expected.is_empty() { Vec::new() } else { vec![expected.to_vec()] };
    assert_eq!(found, expected, "{}", circles.iter().map(ToString::to_string).collect::<String>());
}

const ROOT: (&str, &str) = ("lib.rs", "mod a;\nmod b;\n");

#[test]
fn two_files_that_use_one_another_are_a_circle_with_its_lines() {
    let b = "use crate::a::A;\n\npub struct B(A);\n";
    let circles = circles_of(&[ROOT, ("a.rs", "pub struct A;\n\nfn f() {\n    super::b::g();\n}\n"), ("b.rs", b)]);
    assert_eq!(circles.len(), 1);
    let expected = "dependency cycle of 2 files\n  a.rs uses b.rs\n    a.rs:4: super::b::g\n  b.rs uses a.rs\n    \
                    b.rs:1: crate::a::A\n    b.rs:3: A";
    assert_eq!(circles[0].to_string(), expected);
}

#[test]
fn one_direction_is_none() {
    is_circle(&[ROOT, ("a.rs", "pub struct A;\n"), ("b.rs", "use crate::a::A;\npub struct B(A);\n")], &[]);
}

#[test]
fn a_circle_of_three_is_found_and_who_only_uses_it_is_not_in_it() {
    let root = ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n");
    let d = ("d.rs", "use crate::a::A;\n");
    let closed =
        [root, ("a.rs", "use super::b::B;\n"), ("b.rs", "use super::c::C;\n"), ("c.rs", "use super::a::A;\n"), d];
    is_circle(&closed, &["a.rs", "b.rs", "c.rs"]);
    let open = [root, ("a.rs", "use super::b::B;\n"), ("b.rs", "use super::c::C;\n"), ("c.rs", ""), d];
    is_circle(&open, &[]);
}

#[test]
fn a_parent_may_declare_and_pass_on_what_uses_it_but_not_use_it() {
    let child = ("a/inner.rs", "use super::Shared;\npub fn inner(_: Shared) {}\n");
    let root = ("lib.rs", "mod a;\n");
    let declares = ("a.rs", "mod inner;\npub use inner::inner;\npub struct Shared;\n");
    is_circle(&[root, declares, child], &[]);
    let uses = ("a.rs", "mod inner;\npub use inner::inner;\npub struct Shared;\nfn f() {\n    inner(Shared)\n}\n");
    is_circle(&[root, uses, child], &["a/inner.rs", "a.rs"]);
    let qualified = ("a.rs", "mod inner;\npub struct Shared;\nfn f() {\n    self::inner::inner(Shared)\n}\n");
    is_circle(&[root, qualified, child], &["a/inner.rs", "a.rs"]);
}

#[test]
fn passing_a_name_on_hides_no_circle() {
    let root = ("lib.rs", "mod a;\nmod b;\nmod front;\n");
    let front = ("front.rs", "pub use crate::a::*;\npub use crate::b::B as Other;\n");
    let a = ("a.rs", "use crate::front::Other;\npub struct A(Other);\n");
    let b = ("b.rs", "use crate::front::A;\npub struct B(Box<A>);\n");
    is_circle(&[root, front, a, b], &["a.rs", "b.rs"]);
}

#[test]
fn paths_in_macros_and_in_attributes_count() {
    let in_call = ("a.rs", "pub struct A;\nfn f() {\n    println!(\"{}\", crate::b::g());\n}\n");
    let b = ("b.rs", "use crate::a::A;\npub fn g(_: A) {}\n");
    is_circle(&[ROOT, in_call, b], &["a.rs", "b.rs"]);
    let in_attribute = ("a.rs", "pub struct A {\n    #[serde(serialize_with = \"super::b::g\")]\n    x: u64,\n}\n");
    is_circle(&[ROOT, in_attribute, b], &["a.rs", "b.rs"]);
    let through_module = ("a.rs", "use crate::b;\npub struct A;\nfn f() {\n    assert!(b::g(A));\n}\n");
    is_circle(&[ROOT, through_module, b], &["a.rs", "b.rs"]);
    let same_words = ("a.rs", "pub struct A;\nfn f() {\n    println!(\"{}\", std::b::g());\n}\n");
    is_circle(&[ROOT, same_words, b], &[]);
}

#[test]
fn tests_may_use_what_they_test() {
    let inline = "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n";
    let b = ("b.rs", "use crate::a::A;\npub struct B(A);\n");
    is_circle(&[ROOT, ("a.rs", inline), b], &[]);
    is_circle(&[ROOT, ("a.rs", &inline.replace("cfg(test)", "cfg(all(loom, test))")), b], &[]);
    is_circle(&[ROOT, ("a.rs", &inline.replace("cfg(test)", "cfg(loom)")), b], &["a.rs", "b.rs"]);
    is_circle(&[ROOT, ("a.rs", &inline.replace("cfg(test)", "cfg(not(test))")), b], &["a.rs", "b.rs"]);
}

#[test]
fn modules_in_one_file_are_one() {
    let text = "mod inner {\n    pub struct I(super::A);\n}\npub struct A;\nfn f(_: inner::I) {}\n";
    is_circle(&[("lib.rs", "mod a;\n"), ("a.rs", text)], &[]);
}

#[test]
fn a_file_with_a_path_of_its_own_and_a_folder_with_mod_rs_are_found() {
    let root = ("lib.rs", "#[path = \"elsewhere.rs\"]\nmod a;\nmod b;\n");
    let b = ("b/mod.rs", "mod inner;\n");
    let inner = ("b/inner.rs", "use crate::a::A;\npub struct I;\n");
    is_circle(
        &[root, ("elsewhere.rs", "pub struct A(crate::b::inner::I);\n"), b, inner],
        &["b/inner.rs", "elsewhere.rs"],
    );
}

#[test]
fn a_file_that_is_missing_or_no_rust_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("lib.rs");
    let built = [Crate { roots: vec![root.clone()], ..Crate::default() }];
    for (text, named) in [("mod gone;\n", "gone"), ("fn fn\n", "lib.rs")] {
        fs::write(&root, text).unwrap();
        let error = of_workspace(&built, folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains(named), "{error:#}");
    }
}

#[test]
fn an_exception_covers_what_is_below_it_and_has_to_cover_something() {
    let circle = |files: &[&str]| Circle { files: files.iter().map(PathBuf::from).collect(), arrows: Vec::new() };
    let circles = [circle(&["x/a.rs", "x/b.rs"]), circle(&["x/c.rs", "y/d.rs"])];
    let known = [Exception { below: "x", why: "" }, Exception { below: "z", why: "" }];
    assert_eq!(faults(&circles, &known), (vec![&circles[1]], vec![&known[1]]));
    assert_eq!(faults(&circles, &[]), (vec![&circles[0], &circles[1]], vec![]));
}
