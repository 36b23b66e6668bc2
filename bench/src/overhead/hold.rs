//! Holds parts of cox's BPF programs in the kernel from a separate process while a measurement runs, so that two builds can be compared in one run.
//!
//! The process loads the parts, registers the processes to observe, prints `ready NS` with the loading time, and detaches when its standard input
//! ends. Its exit code is 0 if each part has observed all of these processes.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use machine::Root;
use machine::topology::Topology;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use watch::bpf::{Parts, Snapshots, expect};
use watch::snapshots::Traced;
use watch::umt::{Doorbells, Given, Pages, Umt};
use watch::{BpfObserver, Intake, Observer, Settings, ThreadSnapshots};
use wire::umt::{ProgramPage, VERSION, place};

use super::cpus::last_allowed_cpu;

/// Interval at which a session of cox empties its buffers.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Keep parts of cox's BPF programs loaded until standard input ends.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Parts of cox's BPF programs to load
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    parts: Vec<Part>,
    /// Processes that each part observes
    #[arg(required = true)]
    pids: Vec<u32>,
}

/// A part of cox's BPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The BPF programs of the observer, as `cox run` uses them
    Observe,
    /// The BPF programs for `cox run --overlap`
    Overlap,
    /// The BPF programs for `cox run --pack-cpus`
    Pack,
}

/// A process that is registered with the BPF programs for overlap, and the memory pages that it shares with them.
struct Counted {
    pages: Pages,
    _given: Given,
}

/// Loads the chosen parts of cox's BPF programs, and keeps them loaded until standard input ends.
///
/// # Errors
/// When a part cannot be loaded, or has not observed one of the given processes.
pub fn hold(options: &Options) -> Result<u8> {
    let wants = |part| options.parts.contains(&part);
    let topology = Topology::read(&Root::live())?;
    let settings = Settings::new(topology.online.len() as u32, topology.possible.last().map_or(1, |last| last + 1));
    let begun_ns = arch::monotonic_ns();
    let _together = expect(Parts {
        clocks: wants(Part::Observe).then(|| settings.clone()),
        snapshots: wants(Part::Pack).then_some(Snapshots { children: true }),
        overlap: wants(Part::Overlap),
        noise: None,
        owner: None,
    });
    let mut umt = wants(Part::Overlap).then(|| Umt::new(None)).transpose()?;
    let mut observer = wants(Part::Observe).then(|| BpfObserver::new(&settings, None)).transpose()?;
    let mut traced = wants(Part::Pack)
        .then(|| Traced::new(true, None, &[last_allowed_cpu()? as u32]).map_err(anyhow::Error::from))
        .transpose()?;
    let loaded_ns = arch::monotonic_ns() - begun_ns;
    let mut counted = Vec::new();
    for &pid in &options.pids {
        if let Some(observer) = &mut observer {
            observer.enrol(pid)?;
        }
        if let Some(traced) = &mut traced {
            traced.enrol(pid)?;
        }
        if let Some(umt) = &mut umt {
            counted.push(count(umt.give(pid)?, pid)?);
        }
    }
    println!("ready {loaded_ns}");
    std::io::stdout().flush()?;
    let mut intake = Intake::default();
    while !has_ended()? {
        if let Some(observer) = &mut observer {
            observer.tick(&mut intake)?;
        }
    }
    if let Some(observer) = &mut observer {
        let record = observer.finish(&mut intake)?;
        let seen = |pid: &u32| record.living.iter().any(|l| l.clock.tgid == *pid && l.clock.switches_voluntary > 0);
        ensure!(options.pids.iter().all(seen), "the observer recorded no context switches of some processes");
    }
    if let Some(traced) = &traced {
        let table = traced.table();
        let blocks: Vec<u32> =
            (0..table.given()).filter_map(|at| table.read(at)).map(|snapshot| snapshot.blocks).collect();
        ensure!(
            blocks.len() >= options.pids.len() && blocks.iter().all(|n| *n > 0),
            "according to the thread snapshots, some threads never blocked"
        );
    }
    let is_counted = |counted: &Counted| counted.pages.kernel_page().blocks.load(Relaxed) > 0;
    ensure!(counted.iter().all(is_counted), "according to the BPF programs for overlap, some processes never blocked");
    Ok(0)
}

/// Registers the first thread of a process with the BPF programs for overlap, as the process itself would do.
fn count(given: Given, pid: u32) -> Result<Counted> {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the new mapping is a whole page, at an address of the kernel's choice, and is never unmapped; its words are atomics.
    let program_page = unsafe {
        let page = mmap(std::ptr::null_mut(), size_of::<ProgramPage>(), both, MapFlags::SHARED, &given.program_page, 0);
        &*page.context("cannot map the process's page")?.cast::<ProgramPage>()
    };
    program_page.cpus.store(1, Relaxed);
    program_page.version.store(VERSION, Relaxed);
    program_page.tids[place(pid, 0)].store(pid, Relaxed);
    program_page.generation.fetch_add(1, Relaxed);
    let pages = Pages::map(given.program_page.as_fd(), given.kernel_page.as_fd())?;
    Ok(Counted { pages, _given: given })
}

/// Waits until standard input can be read, but at most [`TICK`]. Returns whether standard input has ended.
fn has_ended() -> Result<bool> {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&TICK)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) => Ok(stdin.lock().read(&mut [0; 16])? == 0),
        Err(error) => Err(error.into()),
    }
}

/// The parent's handle of a child process that keeps parts of cox's BPF programs loaded.
pub struct Holder {
    child: std::process::Child,
    /// How long the child process took to load its parts of cox's BPF programs.
    pub loaded_ns: u64,
}

impl Holder {
    /// Starts `program`, which is a build of cox-bench, and waits until it has loaded these parts of cox's BPF programs.
    pub fn start(program: &std::path::Path, parts: &str, players: &[u32]) -> Result<Holder> {
        use std::process::{Command, Stdio};
        let mut child = Command::new(program)
            .args(["hold", "--parts", parts])
            .args(players.iter().map(u32::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("a pipe")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        match line.trim().strip_prefix("ready ").and_then(|ns| ns.parse().ok()) {
            Some(loaded_ns) => Ok(Holder { child, loaded_ns }),
            None => bail!("'{} hold --parts {parts}' failed", program.display()),
        }
    }

    /// Ends the child process. Fails unless its BPF programs have observed both ping-pong processes.
    pub fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        // The kernel detaches BPF programs only after RCU grace periods. Wait, because the last of these may still be in progress.
        std::thread::sleep(Duration::from_millis(2));
        ensure!(status.success(), "cox's BPF programs did not observe both ping-pong processes");
        Ok(())
    }
}
