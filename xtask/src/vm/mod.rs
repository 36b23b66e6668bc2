//! Runs cox on Debian's kernels in virtual machines, and compares what it could do there with a table.
//!
//! 1. [`kernels`] gets the kernel images: pinned packages, which apt downloads once and nobody installs.
//! 2. [`initramfs`] makes the guest's file system from the programs that were built. Its first process is kernel/vm/init, which runs the jobs.
//! 3. [`qemu`] boots it, without KVM. The kernel's log goes to the first serial port, the results of the jobs to the second one.
//! 4. [`results`] reads the latter, [`judge`] the former; [`facts`] is what both say about the kernel.
//! 5. [`expected`] compares the facts with kernel/vm/expected.txt; [`table`] prints them; [`finished`] keeps them for an interrupted `make vm-all`.

pub mod expected;
pub mod facts;
pub mod finished;
pub mod initramfs;
pub mod judge;
pub mod kernels;
pub mod options;
pub mod qemu;
pub mod results;
pub mod table;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use self::expected::{Compared, Expected};
use self::finished::{Finished, Log};
use self::judge::Verdict;
use self::kernels::{Kernel, PINNED, Store};
use self::options::Options;
use self::qemu::Boot;
use self::table::Column;
use crate::workspace;

/// What each kernel must have.
pub const EXPECTED: &str = include_str!("../../../kernel/vm/expected.txt");
/// The first process of the guest, which is part of what is tested.
const INIT: &str = include_str!("../../../kernel/vm/init");

/// Programs that are needed, and the Debian packages that contain them.
const NEEDED: [(&str, &str); 5] = [
    (qemu::QEMU, "qemu-system-x86"),
    ("cpio", "cpio"),
    ("setpriv", "util-linux"),
    ("strip", "binutils"),
    ("ldd", "libc-bin"),
];
/// Number of boots of a guest that QEMU crashes in a job.
const TRIES: u32 = 2;
/// Number of boots of a guest that QEMU crashes before the first job, which takes seconds. With QEMU 7.2, most boots of Debian's 6.12.95+deb12 end there:
/// the return from an interrupt gets flags that no instruction has set.
const EARLY_TRIES: u32 = 10;
/// Number of lines of a log that are shown.
const TAIL: usize = 20;

/// Boots the kernels. Returns whether each has what the table demands. If QEMU or the network is missing, prints so and returns true.
///
/// # Errors
/// When the guests cannot be started, or are skipped although `COX_TEST_REQUIRE` names vm.
pub fn run(options: &Options) -> Result<bool> {
    options.check()?;
    let root = workspace::root();
    let work = std::path::absolute(options.work.clone().unwrap_or_else(|| root.join("target/vm")))?;
    let store = Store { folder: &work, mirror: options.mirror.as_deref(), download: !options.no_download };
    if let Some(reason) = missing() {
        return skipped(&reason);
    }
    let kernels = match kernels(options, &store) {
        Ok(kernels) => kernels,
        // An image that was named must be there; a download may fail for want of a network.
        Err(error) if options.images.is_empty() => return skipped(&format!("{error:#}")),
        Err(error) => return Err(error),
    };
    if options.fetch {
        return Ok(true);
    }
    let expected = Expected::parse(EXPECTED).context("kernel/vm/expected.txt")?;
    let programs = options.programs.clone().unwrap_or_else(|| root.join("target/release"));
    fs::create_dir_all(&work)?;
    let initramfs = initramfs::make(&work, &programs, &root.join("target/workloads"))?;
    let log = match &options.resume {
        Some(file) => {
            let files: Vec<PathBuf> = initramfs::PROGRAMS.iter().map(|name| programs.join(name)).collect();
            Log::open(file, &finished::tested(&files, INIT, &options.jobs))?
        }
        None => Log::default(),
    };
    Matrix { options, expected, initramfs, work, log: Mutex::new(log) }.run(&kernels)
}

/// Returns which programs this machine lacks.
#[must_use]
pub fn missing() -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let mut packages: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    if !Path::new(initramfs::BUSYBOX).is_file() {
        packages.push("busybox-static");
    }
    (!packages.is_empty()).then(|| format!("not installed: {}", packages.join(", ")))
}

fn kernels(options: &Options, store: &Store<'_>) -> Result<Vec<Kernel>> {
    if !options.images.is_empty() {
        return options.images.iter().map(|image| Kernel::at(image)).collect();
    }
    let is_wanted =
        |version: &str| options.kernels.is_empty() || options.kernels.iter().any(|wanted| wanted == version);
    let mut kernels: Vec<Kernel> = PINNED
        .iter()
        .filter(|pinned| is_wanted(pinned.version))
        .map(|pinned| store.pinned(pinned))
        .collect::<Result<_>>()?;
    if options.all {
        for kernel in store.more()? {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
    }
    Ok(kernels)
}

/// Prints that nothing was booted, in the form of skipped tests.
fn skipped(reason: &str) -> Result<bool> {
    let required = env::var("COX_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|word| ["vm", "all"].contains(&word.trim()));
    ensure!(!is_required, "{reason}; COX_TEST_REQUIRE has vm");
    eprintln!("skipped: vm: {}", reason.replace('\n', " "));
    Ok(true)
}

struct Matrix<'a> {
    options: &'a Options,
    expected: Expected,
    initramfs: PathBuf,
    work: PathBuf,
    log: Mutex<Log>,
}

impl Matrix<'_> {
    fn run(self, kernels: &[Kernel]) -> Result<bool> {
        let started = Instant::now();
        let lines = |kernel| self.options.boot_lines(kernel).into_iter().map(move |line| (kernel, line));
        let boots: Vec<(&Kernel, String)> = kernels.iter().flat_map(lines).collect();
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        // A guest runs on one CPU. Each thread here boots one guest after another.
        let boot_some = || -> Result<Vec<(usize, Column)>> {
            let mut columns = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((kernel, boot_line)) = boots.get(number) else { break };
                let name = format!("{} {boot_line}", kernel.release).trim_end().to_owned();
                let compared =
                    self.one(kernel, boot_line, &name).inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
                let column = Column { name, compared };
                is_over.fetch_or(!column.is_good() && !self.options.keep_going, Ordering::Relaxed);
                columns.push((number, column));
            }
            Ok(columns)
        };
        let mut columns = Vec::new();
        thread::scope(|scope| -> Result<()> {
            let threads: Vec<_> = (0..self.options.at_once()).map(|_| scope.spawn(boot_some)).collect();
            for thread in threads {
                columns.extend(thread.join().map_err(|_| anyhow!("a thread that boots guests panicked"))??);
            }
            Ok(())
        })?;
        columns.sort_by_key(|(number, _)| *number);
        let columns: Vec<Column> = columns.into_iter().map(|(_, column)| column).collect();
        let good = columns.iter().all(Column::is_good);
        println!("{}", table::text(&columns));
        let differ = columns.iter().filter(|column| !column.is_good()).count();
        println!(
            "vm: {} boots, {differ} differ from kernel/vm/expected.txt, {:.0} s",
            columns.len(),
            started.elapsed().as_secs_f64()
        );
        Ok(good)
    }

    /// Boots one kernel, unless an earlier run has done so. Returns its checks.
    fn one(&self, kernel: &Kernel, boot_line: &str, name: &str) -> Result<Vec<Compared>> {
        let log = || self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = log().get(&kernel.release, boot_line).cloned();
        let (facts, seconds) = if let Some(earlier) = earlier {
            (earlier.facts, earlier.seconds)
        } else {
            let (facts, ran, is_finished) = self.boot(kernel, boot_line, name)?;
            let seconds = ran.as_secs_f64();
            if is_finished {
                let (release, boot_line) = (kernel.release.clone(), boot_line.to_owned());
                log().enter(Finished { release, boot_line, seconds, facts: facts.clone() })?;
            }
            (facts, seconds)
        };
        let compared = self.expected.compare(&kernel.release, boot_line, &|job| self.options.has_job(job), &facts)?;
        let bad: Vec<&Compared> = compared.iter().filter(|one| !one.is_good()).collect();
        let (all, good) = (compared.len(), compared.len() - bad.len());
        let mut lines = vec![format!("vm: {name}: {good} of {all} checks as expected, {seconds:.0} s")];
        for one in bad {
            let found = one.found.as_ref().map_or("nothing", |found| &found.value);
            lines.push(format!("  {}: {found}, expected {}", one.check, one.expected));
            let detail = one.found.as_ref().map_or("", |found| &found.detail);
            lines.extend(judge::tail(detail, TAIL).lines().map(|line| format!("    {line}")));
        }
        // At once, because other guests run.
        println!("{}", lines.join("\n"));
        Ok(compared)
    }

    /// Boots one kernel; again if QEMU crashes it. Returns what it has shown, how long it ran, and whether it ran to its end.
    fn boot(
        &self,
        kernel: &Kernel,
        boot_line: &str,
        name: &str,
    ) -> Result<(BTreeMap<String, facts::Fact>, Duration, bool)> {
        let folder = self.work.join("boots").join(name.replace([' ', '/'], "_"));
        let boot = Boot {
            image: &kernel.image,
            initramfs: &self.initramfs,
            boot_line,
            jobs: &self.options.jobs,
            long: self.options.all,
            limit: Duration::from_secs(self.options.limit),
            folder: &folder,
        };
        let mut tries = 1;
        loop {
            let (end, ran) = boot.run()?;
            // A crash may leave bytes that are no text.
            let read = |path: PathBuf| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let (console, results) = (read(boot.console())?, results::read(&read(boot.results())?));
            let verdict = judge::judge(end, results.done, results.has_begun(), &console);
            let what = match &verdict {
                Verdict::Finished => return Ok((facts::facts(&results, &console), ran, true)),
                Verdict::Emulator(line) if tries < if results.has_begun() { TRIES } else { EARLY_TRIES } => {
                    println!("vm: {name}: QEMU's own crash, not the kernel's: {line}; booting again");
                    tries += 1;
                    continue;
                }
                Verdict::Emulator(line) => format!("QEMU's own crash, {tries} times: {line}"),
                Verdict::Hung(why) => format!("hangs: {why}"),
                Verdict::Crashed(why) => format!("crashed: {why}"),
            };
            let job = results.unfinished.as_deref().map_or(String::new(), |job| format!(" in the job '{job}'"));
            println!("vm: {name}: {what}{job}; the end of {}:", boot.console().display());
            judge::tail(&console, TAIL).lines().for_each(|line| println!("    {line}"));
            let errors = read(folder.join("qemu.log"))?;
            judge::tail(&errors, TAIL).lines().for_each(|line| println!("    QEMU: {line}"));
            return Ok((facts::facts(&results, &console), ran, false));
        }
    }
}
