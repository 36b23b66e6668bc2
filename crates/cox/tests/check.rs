//! `cox check`: what it says about programs that are there, and about programs made for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::run::{COX, Ran, run};

fn check(program: &Path) -> Ran {
    run(Command::new(COX).arg("check").arg(program))
}

/// Compiles a program whose `main` is this.
fn compiled(folder: &Path, name: &str, options: &[&str], main: &str) -> std::path::PathBuf {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, format!("#include <unistd.h>\nint main(void) {{ {main} }}\n")).unwrap();
    let is_compiled = Command::new("cc").args(options).arg("-o").arg(&program).arg(&source).status().unwrap().success();
    assert!(is_compiled, "{name}");
    program
}

#[test]
fn an_ordinary_program_can_run_and_cox_ulp_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let plain = compiled(folder.path(), "plain", &["-pie", "-fPIE"], "return 0;");
    let ran = check(&plain);
    assert_eq!((ran.code, ran.text().as_str(), ran.stderr.as_str()), (0, "runs as a ULP: yes\n", ""));
    let fixed = compiled(folder.path(), "fixed", &["-no-pie"], "return 0;");
    let ran = check(&fixed);
    assert_eq!(ran.code, 1);
    assert!(ran.text().starts_with("runs as a ULP: no\n") && ran.text().contains("-pie"), "{}", ran.text());
    for (program, code) in [(&plain, 0), (&fixed, 126)] {
        let ran = run(Command::new(COX).args(["ulp", "-q", "-n", "2", "--"]).arg(program));
        assert_eq!(ran.code, code, "{}", ran.stderr);
    }
}

#[test]
fn what_is_different_is_said_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let main = "return sbrk(4096) == (void *)-1 || access(\"/proc/self/exe\", R_OK);";
    let moves = compiled(folder.path(), "moves", &["-pie", "-fPIE"], main);
    fs::set_permissions(&moves, fs::Permissions::from_mode(0o4755)).unwrap();
    let ran = check(&moves);
    let text = ran.text();
    assert_eq!((ran.code, text.matches("\n    -> ").count()), (0, 3), "{text}");
    for part in ["runs as a ULP: yes", "set-user-id", "sbrk()", "/proc/self/exe"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let limited = run(Command::new("sh").args(["-c", "ulimit -v 4000000; exec \"$0\" check \"$1\"", COX]).arg(&moves));
    assert!(limited.text().contains("limited to 3906 MiB"), "{}{}", limited.text(), limited.stderr);
}

#[test]
fn a_script_is_as_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let fixed = compiled(folder.path(), "fixed", &["-no-pie"], "return 0;");
    for (interpreter, code) in [("/bin/sh", 0), (fixed.to_str().unwrap(), 1)] {
        let script = folder.path().join("script");
        fs::write(&script, format!("#!{interpreter}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(check(&script).code, code, "{interpreter}");
    }
}

#[test]
fn what_is_no_program_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "no program").unwrap();
    for (path, code, part) in
        [(Path::new("/no/such"), 127, "no such file"), (Path::new("no-such"), 127, "PATH"), (&text, 126, "executable")]
    {
        let ran = check(path);
        assert_eq!((ran.code, ran.text().as_str(), ran.stderr.lines().count()), (code, "", 1), "{}", ran.stderr);
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&text, "#!/no/such/interpreter\n").unwrap();
    let ran = check(&text);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    assert!(ran.text().contains("text needs /no/such/interpreter: No such file"), "{}", ran.text());
    fs::write(&text, "no program").unwrap();
    let ran = check(&text);
    assert_eq!(ran.code, 1);
    assert!(ran.text().contains("no ELF program"), "{}", ran.text());
    assert_eq!(run(Command::new(COX).args(["check", "--magic"])).code, 2);
}
