//! Reads the directives at the head of test sources: DejaGnu's (gcc), RUN lines (LLVM), or none.

use std::collections::BTreeMap;

use super::tcl::{self, Word};

/// A programming language, with its compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// gcc
    C,
    /// g++
    Cxx,
    /// gfortran
    Fortran,
}

/// How a test is built and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Compiler options, in addition to `-fopenmp`.
    pub options: Vec<String>,
    /// Additional sources, relative to the test's folder.
    pub sources: Vec<String>,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Environment variables for the program.
    pub variables: BTreeMap<String, String>,
    /// True if the program is expected to fail.
    pub should_fail: bool,
    /// True if the output is part of the test. Of gcc's tests only those with `dg-output` prescribe their output; others may print something that
    /// occasionally differs.
    pub is_output_fixed: bool,
}

/// Reads the head of a source.
///
/// # Errors
/// The reason, if the test does not run here.
pub fn plan(source: &str, language: Language) -> Result<Plan, String> {
    let runs: Vec<&str> = source.lines().filter_map(|line| Some(line.split_once("RUN:")?.1.trim())).collect();
    if runs.iter().any(|line| line.contains('%')) { of_llvm(source, &runs) } else { of_gcc(source, language) }
}

fn bare() -> Plan {
    Plan {
        options: vec!["-O2".into()],
        sources: Vec::new(),
        arguments: Vec::new(),
        variables: BTreeMap::new(),
        should_fail: false,
        is_output_fixed: true,
    }
}

fn of_gcc(source: &str, language: Language) -> Result<Plan, String> {
    let mut plan = bare();
    let mut additional = Vec::new();
    let holds = |name: &str| is_here(name, language);
    // A directive may end with `{ target … }`; without it, the directive always applies.
    let is_for_us = |words: &[Word]| match words.last() {
        Some(Word::List(inner)) if inner.first().and_then(Word::text) == Some("target") => {
            tcl::selects(&inner[1..], &holds)
        }
        _ => true,
    };
    let directives = tcl::directives(source);
    let has_output = |words: &Vec<Word>| words[0].text() == Some("dg-output");
    plan.is_output_fixed = directives.is_empty() || directives.iter().any(has_output);
    for words in directives {
        let text = |at: usize| words.get(at).map(Word::flat).unwrap_or_default();
        let ours = is_for_us(&words);
        match words[0].text().unwrap_or_default() {
            "dg-do" if text(1) != "run" => return Err("it is only compiled, not run".into()),
            "dg-do" if !ours => return Err(format!("it runs only on {}", text(2))),
            "dg-require-effective-target" if !holds(&text(1)) => return Err(format!("it needs {}", text(1))),
            "dg-skip-if" => {
                let selected = match words.get(2) {
                    Some(Word::List(inner)) => tcl::selects(inner, &holds),
                    _ => false,
                };
                let flags = [&plan.options[..], &additional].concat();
                let names = |word: &Word| {
                    word.flat().split_whitespace().any(|flag| flag == "*" || flags.iter().any(|f| f == flag))
                };
                if selected && words.get(3).is_none_or(names) && !words.get(4).is_some_and(names) {
                    return Err("its header excludes this machine (dg-skip-if)".into());
                }
            }
            "dg-options" if ours => plan.options = split(&text(1)),
            "dg-additional-options" if ours => additional.extend(split(&text(1))),
            "dg-additional-sources" if ours => plan.sources.extend(split(&text(1))),
            "dg-set-target-env-var" if ours => {
                plan.variables.insert(text(1), text(2));
            }
            "dg-shouldfail" => plan.should_fail = true,
            _ => {}
        }
    }
    plan.options.extend(additional);
    Ok(plan)
}

fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns whether a name in a selector (a target, a feature, a language) applies to this machine and test. Names that are not listed here do not
/// apply, and tests that need them are set aside.
fn is_here(name: &str, language: Language) -> bool {
    match name {
        "c" => language == Language::C,
        "c++" => language == Language::Cxx,
        "avx_runtime" => has_feature("avx"),
        "lp64" | "tls" | "tls_runtime" | "sync_int_long" | "size32plus" | "fpic" | "shared" | "sse2_runtime"
        | "large_long_double" | "__float128" | "vect_simd_clones" | "lto" | "fd_truncate" => true,
        pattern if pattern.contains('-') => {
            matches(pattern.as_bytes(), format!("{}-pc-linux-gnu", std::env::consts::ARCH).as_bytes())
        }
        _ => false,
    }
}

/// Returns whether the processor has a feature, by the kernel's name for it on x86.
fn has_feature(name: &str) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|flag| flag == name))
}

/// Returns whether a pattern of `*` and `?` matches a machine's name.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => matches(&pattern[1..], name) || (!name.is_empty() && matches(pattern, &name[1..])),
        (Some(b'?'), Some(_)) => matches(&pattern[1..], &name[1..]),
        (Some(wanted), Some(found)) if wanted == found => matches(&pattern[1..], &name[1..]),
        _ => false,
    }
}

/// Reads the RUN lines of an LLVM test. If there are several, the first one that runs the program counts.
fn of_llvm(source: &str, runs: &[&str]) -> Result<Plan, String> {
    for line in source.lines() {
        for (mark, says) in [("UNSUPPORTED:", "it does not support"), ("XFAIL:", "it is expected to fail with")] {
            if let Some((_, list)) = line.split_once(mark)
                && list.split(',').any(|word| word.trim().starts_with("gcc") || matches!(word.trim(), "linux" | "*"))
            {
                return Err(format!("{says}{list}"));
            }
        }
        if let Some((_, list)) = line.split_once("REQUIRES:")
            && list.split(',').any(|word| !matches!(word.trim(), "linux" | "gcc" | "openmp"))
        {
            return Err(format!("it needs{list}"));
        }
    }
    let mut plan = bare();
    for run in runs {
        // Commands that check the output (FileCheck) are ignored: the output is compared with that of runs without cox.
        for command in run.split("&&").map(|command| command.split('|').next().unwrap_or_default()) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let Some(at) = words.iter().position(|word| word.starts_with("%libomp-")) else { continue };
            let compiles = words[at].contains("compile");
            let has_ended = words[at].ends_with("run");
            let variables = words[..at].iter().filter_map(|word| word.split_once('='));
            plan.variables.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
            plan.should_fail |= has_ended && words[..at].contains(&"not");
            let rest = words[at + 1..].iter().map(|word| (*word).to_owned());
            if compiles {
                plan.options.extend(rest)
            } else {
                plan.arguments.extend(rest)
            }
            if has_ended {
                return Ok(plan);
            }
        }
    }
    Err("none of its RUN lines uses %libomp-run or %libomp-compile-and-run".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_a_head_is_compiled_and_run() {
        assert_eq!(plan("int main(void) { return 0; }", Language::C), Ok(bare()));
    }

    #[test]
    fn gccs_directives_count() {
        let source = "/* { dg-do run { target i?86-*-* x86_64-*-* } } */\n\
                      /* { dg-options \"-O1 -std=c99\" { target c } } */\n\
                      /* { dg-options \"-O0\" { target c++ } } */\n\
                      /* { dg-additional-options \"-msse2\" { target sse2_runtime } } */\n\
                      /* { dg-additional-sources \"a.c b.c\" } */\n\
                      /* { dg-set-target-env-var OMP_CANCELLATION \"true\" } */\n\
                      /* { dg-shouldfail \"\" } */\n";
        let read = plan(source, Language::C).unwrap();
        assert_eq!(
            (read.options.join(" ").as_str(), read.sources.join(" ").as_str()),
            ("-O1 -std=c99 -msse2", "a.c b.c")
        );
        assert!(read.should_fail && read.variables["OMP_CANCELLATION"] == "true");
        assert_eq!(plan(source, Language::Cxx).unwrap().options, ["-O0", "-msse2"]);
    }

    #[test]
    fn gccs_tests_say_what_has_to_be_printed() {
        for (head, expected) in [
            ("", true),
            ("{ dg-do run }", false),
            ("{ dg-do run }\n{ dg-output \"OMP_.*\" }", true),
            ("// RUN: %libomp-compile-and-run", true),
        ] {
            assert_eq!(plan(head, Language::C).unwrap().is_output_fixed, expected, "{head}");
        }
    }

    #[test]
    fn what_is_not_for_this_machine_is_set_aside() {
        for head in [
            "{ dg-do compile }",
            "{ dg-do run { target offload_device } }",
            "{ dg-do compile { target { ! *-*-* } } }",
            "{ dg-require-effective-target offload_device_nonshared_as }",
            "{ dg-skip-if \"\" { *-*-* } }",
            "{ dg-skip-if \"\" { ! run_expensive_tests } { \"*\" } { \"-O3\" } }",
        ] {
            assert!(plan(head, Language::C).is_err(), "{head}");
        }
        for head in
            ["{ dg-skip-if \"\" { ! run_expensive_tests } { \"*\" } { \"-O2\" } }", "{ dg-skip-if \"\" { ia32 } }"]
        {
            assert!(plan(head, Language::C).is_ok(), "{head}");
        }
    }

    #[test]
    fn llvms_run_lines_count() {
        let read = plan("// RUN: %libomp-cxx-compile-and-run -lm | FileCheck %s\n", Language::Cxx).unwrap();
        assert_eq!(read.options, ["-O2", "-lm"]);
        let read = plan("// RUN: %libomp-compile -DA && env OMP_X=1 not %libomp-run 7\n", Language::C).unwrap();
        assert_eq!((&read.options[1..], &read.arguments[..]), (&["-DA".to_owned()][..], &["7".to_owned()][..]));
        assert!(read.should_fail && read.variables["OMP_X"] == "1");
        let run = "// RUN: %libomp-compile-and-run\n";
        for head in ["// UNSUPPORTED: clang, gcc-4\n", "// XFAIL: gcc\n", "// REQUIRES: ompt\n"] {
            assert!(plan(&format!("{head}{run}"), Language::C).is_err(), "{head}");
        }
        assert!(plan("// UNSUPPORTED: icc\n// RUN: %libomp-compile-and-run\n", Language::C).is_ok());
        assert!(plan("// RUN: %clang -fsyntax-only %s\n", Language::C).is_err());
    }
}
