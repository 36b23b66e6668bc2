//! Finds the tests in a folder.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::headers::{self, Language, Plan};

/// Names of folders with headers, looked for in the test's folder and in each folder above it, up to the suite's root.
const INCLUDES: [&str; 4] = ["include", "ompvv", "utilities", "common"];

/// A test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Path in the suite, with `@c++` appended if a file for both languages is compiled as C++.
    pub name: String,
    /// How to get the program.
    pub how: How,
    /// How the program is run.
    pub plan: Plan,
    /// True if the test makes tasks, which cox's runtime handles differently from libgomp.
    pub makes_tasks: bool,
}

/// How to get a test's program.
#[derive(Clone, Debug)]
pub enum How {
    /// Compile it.
    Compiled {
        /// The source.
        source: PathBuf,
        /// Language of the source.
        language: Language,
        /// Folders of headers.
        includes: Vec<PathBuf>,
    },
    /// Use this program, which has been built.
    Built(PathBuf),
}

/// The tests of a folder.
#[derive(Debug, Default)]
pub struct Suite {
    /// Tests that can run here.
    pub tests: Vec<Test>,
    /// Names of the other tests, and why they cannot run here.
    pub set_aside: Vec<(String, String)>,
}

/// Reads a folder. The tests are all sources with a `main` function or with test directives, and all programs that are already compiled.
///
/// # Errors
/// When the folder cannot be read.
pub fn read(root: &Path) -> Result<Suite> {
    let root = root.canonicalize().with_context(|| format!("the suite '{}'", root.display()))?;
    let mut files = Vec::new();
    walk(&root, &mut files)?;
    files.sort();
    let mut suite = Suite::default();
    let mut helpers = BTreeSet::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).display().to_string();
        let languages = languages(file);
        if languages.is_empty() {
            if is_program(file) {
                let plan = headers::plan("", Language::C)
                    .unwrap_or_else(|why| unreachable!("a source without directives should be valid: {why}"));
                suite.tests.push(Test { name, how: How::Built(file.clone()), plan, makes_tasks: true });
            }
            continue;
        }
        // Sources of old tests can have any encoding.
        let text = String::from_utf8_lossy(&fs::read(file).with_context(|| name.clone())?).into_owned();
        for language in languages {
            if !is_test(&text, language) {
                continue;
            }
            let name = if language == Language::Cxx && has_suffix(file, &["c"]) {
                format!("{name}@c++")
            } else {
                name.clone()
            };
            match headers::plan(&text, language) {
                Ok(plan) => {
                    let folder = file.parent().unwrap_or(&root);
                    helpers.extend(plan.sources.iter().map(|source| folder.join(source)));
                    let includes = includes(&root, folder);
                    let how = How::Compiled { source: file.clone(), language, includes };
                    suite.tests.push(Test { name, how, plan, makes_tasks: makes_tasks(&text, file) });
                }
                Err(why) => suite.set_aside.push((name, why)),
            }
        }
    }
    suite.tests.retain(|test| !matches!(&test.how, How::Compiled { source, .. } if helpers.contains(source)));
    Ok(suite)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry.with_context(|| folder.display().to_string())?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(|| folder.display().to_string())?);
        let name = entry.file_name().to_string_lossy().into_owned();
        // Skip OpenACC tests and Graphite's polyhedral loops: they are not OpenMP.
        if kind.is_dir() && !name.starts_with('.') && !name.contains(".oacc") && !name.contains(".graphite") {
            walk(&path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn has_suffix(file: &Path, suffixes: &[&str]) -> bool {
    file.extension().and_then(|suffix| suffix.to_str()).is_some_and(|suffix| suffixes.contains(&suffix))
}

/// Returns the languages in which to compile a file: C and C++ if its folder's name says both, none if it is not a source.
fn languages(file: &Path) -> Vec<Language> {
    let is_of_both =
        file.parent().and_then(Path::file_name).is_some_and(|folder| folder.to_string_lossy().contains("c-c++"));
    if has_suffix(file, &["c"]) {
        if is_of_both { vec![Language::C, Language::Cxx] } else { vec![Language::C] }
    } else if has_suffix(file, &["C", "cc", "cpp", "cxx"]) {
        vec![Language::Cxx]
    } else if has_suffix(file, &["f", "F", "f90", "F90", "f95", "F95", "f03", "F03", "f08", "F08", "for"]) {
        vec![Language::Fortran]
    } else {
        Vec::new()
    }
}

/// Returns whether a source is a whole program.
fn is_test(text: &str, language: Language) -> bool {
    let includes_a_source = || {
        let mut included = text.lines().filter_map(|line| line.trim_start().strip_prefix("#include"));
        included.any(|file| file.trim_end().ends_with(".c\"") || file.trim_end().ends_with(".C\""))
    };
    match language {
        Language::C | Language::Cxx => calls(text, "main") || text.contains("{ dg-") || includes_a_source(),
        Language::Fortran => {
            let is_program =
                |line: &str| line.trim_start().get(..8).is_some_and(|start| start.eq_ignore_ascii_case("program "));
            text.contains("{ dg-") || text.lines().any(is_program)
        }
    }
}

/// Returns whether the text contains a name followed by a parenthesis.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let begins = !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        begins && text[at + name.len()..].trim_start().starts_with('(')
    })
}

/// Returns whether a source, or a source in the same folder that it includes, contains a task construct.
fn makes_tasks(text: &str, file: &Path) -> bool {
    let has = |text: &str| {
        let mut lines = text.lines().map(str::to_ascii_lowercase);
        // Examples of such lines: `#pragma omp task`, `!$omp parallel master taskloop`, `reduction(task, …)`, `_Pragma ("omp task")`.
        lines.any(|line| (line.contains("omp") || line.contains("reduction")) && line.contains("task"))
    };
    let included = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("#include")?.trim().strip_prefix('"')?.strip_suffix('"'));
    let beside =
        |name: &str| fs::read(file.with_file_name(name)).is_ok_and(|bytes| has(&String::from_utf8_lossy(&bytes)));
    has(text) || included.into_iter().any(beside)
}

fn includes(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let up = folder.ancestors().take_while(|above| above.starts_with(root));
    up.flat_map(|above| [above.to_owned()].into_iter().chain(INCLUDES.map(|name| above.join(name))))
        .filter(|folder| folder.is_dir())
        .collect()
}

fn is_program(file: &Path) -> bool {
    let is_executable = file.metadata().is_ok_and(|status| status.permissions().mode() & 0o111 != 0);
    is_executable && !file.to_string_lossy().contains(".so") && starts_with_elf(file)
}

fn starts_with_elf(file: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 4];
    fs::File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_sources_with_a_main_in_each_language_of_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/plain.c", "int main (void) { }");
        write("a/helper.c", "int remain(void); int domain (void) { }");
        write("a/two.c", "/* { dg-additional-sources two-b.c } */ int main() {\n#pragma omp task\n}");
        write("a/two-b.c", "int main() { /* not a test by itself */ }");
        write("a/again.C", "#include \"two.c\"\n");
        write("x.c-c++-common/both.c", "int main() { }");
        write("x.oacc-c/acc.c", "int main() { }");
        write("f/prog.f90", "  PROGRAM p\n!$OMP TASK\nend");
        write("f/headless.f90", "! { dg-options \"-O1\" }\n integer :: i\n end");
        write("f/module.f90", "module m\nend module");
        write("f/compiled.f90", "! { dg-do compile }\n program x\nend");
        let suite = read(folder.path()).unwrap();
        let names: Vec<_> = suite.tests.iter().map(|test| (test.name.as_str(), test.makes_tasks)).collect();
        let expected = [
            ("a/again.C", true),
            ("a/plain.c", false),
            ("a/two.c", true),
            ("f/headless.f90", false),
            ("f/prog.f90", true),
            ("x.c-c++-common/both.c", false),
            ("x.c-c++-common/both.c@c++", false),
        ];
        assert_eq!(names, expected);
        assert_eq!(suite.set_aside.iter().map(|aside| aside.0.as_str()).collect::<Vec<_>>(), ["f/compiled.f90"]);
    }
}
