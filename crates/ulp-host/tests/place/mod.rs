//! A folder in which ULPs run, and what they print.

#![allow(dead_code, reason = "not every test needs everything")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A folder, and the command line of the host in it.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// Builds a program of the tests. `linking`: options for the linker.
    pub fn compile(&self, name: &str, linking: &[&str]) -> String {
        self.compile_with("cc", name, &[&format!("{name}.c")], linking)
    }

    /// Builds a file in the folder from several sources of the tests, with this compiler.
    pub fn compile_with(&self, compiler: &str, name: &str, sources: &[&str], linking: &[&str]) -> String {
        let program = self.folder().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut compiler = Command::new(compiler);
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-frounding-math", "-pthread", "-o"]);
        compiler.arg(&program).args(sources.iter().map(|name| source.join("tests").join(name)));
        compiler.arg("-I").arg(source.join("../ulp/include")).args(linking).arg("-lm");
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
        program.display().to_string()
    }

    /// Runs `count` copies. Each has its number in `RANK`.
    pub fn run(&self, count: usize, program: &str, arguments: &[&str]) -> (Output, Vec<i32>) {
        self.ended(self.host(count, program, arguments))
    }

    /// The same; the host prints where copies crash.
    pub fn run_with_backtrace(&self, count: usize, program: &str, arguments: &[&str]) -> (Output, Vec<i32>) {
        self.ended(self.host_with_backtrace(count, program, arguments))
    }

    /// The same on one of the CPUs that this process may use.
    pub fn run_on_one_cpu(&self, count: usize, program: &str, arguments: &[&str]) -> (Output, Vec<i32>) {
        self.ended(self.on_one_cpu(count, program, arguments))
    }

    /// The same, with the host started by another command.
    pub fn run_by(&self, by: &[&str], count: usize, program: &str, arguments: &[&str]) -> (Output, Vec<i32>) {
        self.ended(self.host_by(by, count, program, arguments))
    }

    /// The command that runs `count` copies on one of the CPUs that this process may use.
    pub fn on_one_cpu(&self, count: usize, program: &str, arguments: &[&str]) -> Command {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let first = allowed.trim().split([',', '-']).next().unwrap();
        self.host_by(&["taskset", "-c", first], count, program, arguments)
    }

    fn host_by(&self, by: &[&str], count: usize, program: &str, arguments: &[&str]) -> Command {
        self.started_by(by, &self.host(count, program, arguments))
    }

    /// The command that starts a host by another command.
    pub fn started_by(&self, by: &[&str], host: &Command) -> Command {
        let mut command = Command::new(by[0]);
        command.args(&by[1..]).arg(host.get_program()).args(host.get_args()).current_dir(self.folder());
        command
    }

    /// Runs a host. Returns what all have printed, and how each has ended.
    pub fn ended(&self, mut host: Command) -> (Output, Vec<i32>) {
        let output = host.output().unwrap();
        let ends = self.told()["ends"].as_array().cloned().unwrap_or_default();
        (output, ends.iter().map(|end| end.as_i64().unwrap() as i32).collect())
    }

    /// What the last host wrote when all had ended; null if it has not.
    pub fn told(&self) -> Value {
        fs::read(self.report()).map(|text| serde_json::from_slice(&text).unwrap()).unwrap_or_default()
    }

    /// The command that runs `count` copies.
    pub fn host(&self, count: usize, program: &str, arguments: &[&str]) -> Command {
        self.host_with("", count, program, arguments)
    }

    /// The same; the host prints where copies crash.
    pub fn host_with_backtrace(&self, count: usize, program: &str, arguments: &[&str]) -> Command {
        self.host_with("backtrace", count, program, arguments)
    }

    /// The same with FLAGS of the host.
    pub fn host_with(&self, flags: &str, count: usize, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cox-ulp-host"));
        let _ = fs::remove_file(self.report());
        let words = (2 + arguments.len()).to_string();
        command.arg(self.report()).args(["RANK", flags, "", &count.to_string(), &words, &found(program), program]);
        command.args(arguments);
        command.current_dir(self.0.path());
        command
    }

    /// The folder, which is the working directory of the host.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    fn report(&self) -> PathBuf {
        self.0.path().join("report")
    }
}

/// A host that runs. It is killed when the value is dropped, so that a test that fails leaves no ULPs behind.
pub struct Running(pub Child);

impl Running {
    /// Starts a host, whose standard output can be read.
    pub fn start(mut host: Command) -> Running {
        Running(host.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    /// Starts a host, both of whose outputs can be read.
    pub fn start_piped(mut host: Command) -> Running {
        Running(host.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The lines that the ULPs print from now on.
    pub fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.0.stdout.take().unwrap()).lines().map(Result::unwrap)
    }

    /// Waits for its end. Returns what it has printed; both outputs must be pipes.
    pub fn output(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }

    /// What it prints on standard error until its end; that must be a pipe.
    pub fn errors(mut self) -> String {
        let mut errors = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        errors
    }

    /// Its exit code.
    pub fn code(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the path of a program on PATH.
fn found(program: &str) -> String {
    let folders = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(program));
    let found = folders.iter().find(|path| path.exists()).map(|path| path.display().to_string());
    found.unwrap_or_else(|| program.to_owned())
}

/// Returns the lines of an output, sorted.
pub fn lines(output: &Output) -> Vec<String> {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits until something is so.
pub fn wait_for(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// What each of the copies prints, sorted: `line(rank)`.
pub fn each(count: usize, line: impl Fn(usize) -> String) -> Vec<String> {
    let mut all: Vec<String> = (0..count).map(line).collect();
    all.sort();
    all
}
