//! `cox run --overlap` on programs with different OpenMP runtimes: cox takes their tasks over, or leaves them alone with the reason in one line.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::overlapped::{Place, diagnostics, number, with_program};
use testkit::skip::{Need, skip};

/// Sums up 0 to 19 by tasks.
const SUM: &str = "\
#include <stdio.h>
int main(void) {
    int sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 20; i++)
#pragma omp task shared(sum)
#pragma omp atomic
        sum += i;
    printf(\"%d\\n\", sum);
    return 0;
}
";

fn place(test: &str) -> Option<Place> {
    with_program(test, "tests/programs/blocked.c", &[])
}

/// Compiles a text in the place's folder.
fn compile(place: &Place, name: &str, text: &str, flags: &[&str]) -> PathBuf {
    let program = place.folder.path().join(name);
    let source = program.with_extension("c");
    fs::write(&source, text).unwrap();
    // Libraries come behind what needs them.
    let mut cc = Command::new("gcc");
    cc.arg("-O1").arg(&source).arg("-o").arg(&program).args(flags).current_dir(place.folder.path());
    assert!(cc.status().unwrap().success(), "{cc:?}");
    program
}

/// Compiles SUM without a runtime, and links it to what `flags` say.
fn compile_sum(place: &Place, name: &str, flags: &[&str]) -> PathBuf {
    let object = place.folder.path().join(format!("{name}.o"));
    let source = place.folder.path().join(format!("{name}.c"));
    fs::write(&source, SUM).unwrap();
    assert!(
        Command::new("gcc")
            .args(["-O1", "-fopenmp", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .status()
            .unwrap()
            .success()
    );
    let program = place.folder.path().join(name);
    let mut cc = Command::new("gcc");
    cc.arg(&object).arg("-o").arg(&program).args(flags);
    assert!(cc.status().unwrap().success(), "{cc:?}");
    program
}

fn run(place: &Place, program: &Path) -> Output {
    let output = place.cox_of("--overlap=standby-idle", program).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

fn assert_untouched(place: &Place, program: &Path, why: &str) {
    let output = run(place, program);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.lines().count() == 1 && said.starts_with("cox: "), "{said}");
    assert!(said.contains(why) && said.contains("the program runs unchanged"), "{said}");
    assert!(diagnostics(&place.report()).contains(why), "{}", place.report());
}

fn assert_taken_over(place: &Place, program: &Path) {
    let output = run(place, program);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let report = place.report();
    assert_eq!((number(&report, "processes"), diagnostics(&report).as_str()), (1, "[]"), "{report}");
}

#[test]
fn a_static_libgomp_is_named() {
    let Some(place) = place("a_static_libgomp_is_named") else { return };
    let flags = ["-Wl,-Bstatic", "-lgomp", "-Wl,-Bdynamic", "-ldl", "-pthread"];
    let program = compile_sum(&place, "static-libgomp", &flags);
    assert_untouched(&place, &program, "libgomp is linked into it statically");
    assert_eq!(run(&place, &program).stdout, b"190\n");
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    assert_untouched(&place, &program, "libgomp is linked into it statically");
}

/// In LLVM's words, so that no static libomp has to be there: distributions have none.
#[test]
fn a_static_libomp_is_named() {
    let Some(place) = place("a_static_libomp_is_named") else { return };
    let text = "void __kmpc_fork_call(void) {}\nvoid GOMP_parallel(void) {}\nint main(void) { return 0; }\n";
    let program = compile(&place, "static-libomp", text, &[]);
    assert_untouched(&place, &program, "(libomp) is linked into it statically");
}

#[test]
fn gccs_program_with_llvms_runtime_is_named() {
    let test = "gccs_program_with_llvms_runtime_is_named";
    let Some(place) = place(test) else { return };
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path().join("lib"));
    let Some(folder) = folders.into_iter().find(|folder| folder.join("libomp.so").exists()) else {
        return skip(test, Need::Libomp, "no libomp.so below /usr/lib/llvm-*");
    };
    let folder = folder.to_str().unwrap();
    let program = compile_sum(&place, "llvms", &["-L", folder, "-lomp", &format!("-Wl,-rpath,{folder}")]);
    assert_untouched(&place, &program, "linked to LLVM's OpenMP runtime");
}

/// A version of libgomp that a user brings, and one that a plug-in brings.
#[test]
fn a_libgomp_from_elsewhere_is_taken_over() {
    let Some(place) = place("a_libgomp_from_elsewhere_is_taken_over") else { return };
    let asked = Command::new("gcc").arg("-print-file-name=libgomp.so").output().unwrap();
    let libgomp = PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim()).canonicalize().unwrap();
    let own = place.folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::copy(libgomp, own.join("libgomp.so.1")).unwrap();
    let program = compile_sum(&place, "elsewhere", &["-fopenmp", &format!("-Wl,-rpath,{}", own.display())]);
    let loaded = Command::new(&program).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&loaded.stdout).contains(own.to_str().unwrap()), "{loaded:?}");
    assert_taken_over(&place, &program);
    let module = SUM.replace("int main(void)", "int sum(void)");
    compile(&place, "module.so", &module, &["-fopenmp", "-fPIC", "-shared"]);
    let loading = format!(
        "#include <dlfcn.h>\nint main(void) {{ void *module = dlopen(\"{}/module.so\", RTLD_NOW | RTLD_LOCAL);\n\
         return module ? ((int (*)(void))dlsym(module, \"sum\"))() : 3; }}\n",
        place.folder.path().display()
    );
    assert_taken_over(&place, &compile(&place, "loading", &loading, &[]));
}

/// There is nothing to say before the program runs: what it starts may have tasks.
#[test]
fn a_program_without_openmp_is_told_in_the_report() {
    let Some(place) = place("a_program_without_openmp_is_told_in_the_report") else { return };
    assert_eq!(String::from_utf8_lossy(&run(&place, Path::new("/bin/true")).stderr), "");
    let report = place.report();
    assert!(diagnostics(&report).contains("no process asked"), "{report}");
    assert!(diagnostics(&report).contains("linked statically"), "{report}");
}
