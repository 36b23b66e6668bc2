//! Traces what the scheduler does to a program's threads, with BPF programs of our own. The method is the same for every runtime and needs no help
//! from it.

pub mod runnable;

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::RingBufferBuilder;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use runnable::{Event, Kind, Usage, usage};

#[allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/switches.skel.rs"));
}
use skeleton::SwitchesSkelBuilder;

/// Interval at which the ring buffer is emptied. The buffer holds several seconds of events; emptying it more often would take CPU time from the
/// program.
const PAUSE: Duration = Duration::from_millis(20);

/// A running trace, on a thread of its own.
pub struct Trace {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Event>>>>,
}

impl Trace {
    /// Starts tracing all processes named `program` that this process or its descendants start.
    ///
    /// # Errors
    /// When the BPF programs cannot be loaded or attached.
    pub fn begin(program: &'static str) -> Result<Trace> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, begun) = channel();
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || follow(program, &ready, &until));
        let trace = Trace { stop, thread: Some(thread) };
        // The thread sends a message when the trace has begun. If the thread fails before that, it drops the sender, and `recv` fails.
        if begun.recv().is_err() {
            return Err(trace.end(&(0..0)).err().unwrap_or_else(|| anyhow!("the trace did not begin")));
        }
        Ok(trace)
    }

    /// Ends the trace, and returns the CPU usage within `window`, in ns on the monotonic clock.
    ///
    /// # Errors
    /// When there were no events, or events were lost.
    pub fn end(mut self, window: &Range<u64>) -> Result<Usage> {
        let mut events = self.join().context("the trace has already ended")??;
        if events.is_empty() {
            bail!("the trace contains no events of the program");
        }
        Ok(usage(&mut events, window))
    }

    fn join(&mut self) -> Option<Result<Vec<Event>>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| Err(anyhow!("the tracing thread panicked"))))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Ignore the result: if a run has failed, the caller reports that error, which says more.
        drop(self.join());
    }
}

fn follow(program: &str, ready: &Sender<()>, stop: &AtomicBool) -> Result<Vec<Event>> {
    let mut object = MaybeUninit::uninit();
    let mut open = SwitchesSkelBuilder::default().open(&mut object).context("cannot open the tracing BPF programs")?;
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        // The kernel keeps 15 characters of a name.
        for (to, from) in settings.name.iter_mut().zip(program.bytes().take(15)) {
            *to = from as _;
        }
        settings.starter = std::process::id();
        let namespace = std::fs::metadata("/proc/self/ns/pid").context("/proc/self/ns/pid")?;
        (settings.namespace_device, settings.namespace_inode) = (namespace.dev(), namespace.ino());
    }
    let mut skel = open.load().context("cannot load the tracing BPF programs (they need root)")?;
    let events = RefCell::new(Vec::new());
    let mut builder = RingBufferBuilder::new();
    builder.add(&skel.maps.events, |bytes| {
        events.borrow_mut().extend(event(bytes));
        0
    })?;
    let ring = builder.build()?;
    skel.attach().context("cannot attach the tracing BPF programs (they need root)")?;
    // The sleep switches this thread out. From this switch, the BPF program learns which process starts the measured program.
    std::thread::sleep(Duration::from_millis(1));
    if skel.maps.data_data.as_deref().is_some_and(|state| state.starter_of_machine < 0) {
        bail!("the tracing BPF programs have not seen a switch of cox-bench");
    }
    ready.send(()).context("the thread that started the trace has ended")?;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        ring.consume()?;
    }
    ring.consume()?;
    drop(ring);
    let lost = skel.maps.bss_data.as_deref().map_or(0, |state| state.lost);
    if lost > 0 {
        bail!("the trace lost {lost} events");
    }
    Ok(events.into_inner())
}

/// Decodes an event as switches.bpf.c writes it.
fn event(bytes: &[u8]) -> Option<Event> {
    let kind = match bytes.get(14)? {
        0 => Kind::Woken,
        1 => Kind::SwitchedIn,
        2 => Kind::Preempted,
        3 => Kind::Blocked,
        4 => Kind::Moved,
        _ => return None,
    };
    Some(Event {
        ns: u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
        thread: u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?),
        cpu: u16::from_ne_bytes(bytes.get(12..14)?.try_into().ok()?),
        kind,
        idle_class: *bytes.get(15)? != 0,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn traced(program: &'static str, command: &mut Command) -> Result<Usage> {
        let trace = Trace::begin(program)?;
        let begin_ns = arch::monotonic_ns();
        assert!(command.status().unwrap().success());
        trace.end(&(begin_ns..arch::monotonic_ns()))
    }

    #[test]
    fn switches_of_a_program_that_we_start_are_seen_and_of_no_other() {
        if !testkit::skip::is_root("switches_of_a_program_that_we_start_are_seen_and_of_no_other") {
            return;
        }
        let usage = traced("sleep", Command::new("sh").args(["-c", "sleep 0.1; true"])).unwrap();
        // It sleeps once, and exits.
        assert!(usage.blocks >= 2 && usage.elapsed_ns >= 100_000_000, "{usage:?}");
        assert!(traced("no-such-name", Command::new("sleep").arg("0.05")).is_err());
    }

    /// Threads carry the ids of the machine's first PID namespace; this process knows its own.
    #[test]
    fn in_a_container_too() {
        if !testkit::skip::is_root("in_a_container_too") {
            return;
        }
        let test = "runtimes::trace::tests::switches_of_a_program_that_we_start_are_seen_and_of_no_other";
        let mut inside = Command::new("unshare");
        inside.args(["-p", "-f", "--mount-proc", "--kill-child"]).arg(std::env::current_exe().unwrap());
        let output = inside.args(["--exact", test]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    }

    /// What else runs on that CPU makes no difference.
    #[test]
    fn one_busy_process_on_a_cpu_is_no_crowd_and_two_are() {
        if !testkit::skip::is_root("one_busy_process_on_a_cpu_is_no_crowd_and_two_are") {
            return;
        }
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..1024).find(|cpu| allowed.is_set(*cpu)).unwrap().to_string();
        let busy = "timeout 0.3 taskset -c $0 sha256sum /dev/zero &";
        let of = |script: String| {
            let script = script + " wait; true";
            traced("sha256sum", Command::new("sh").args(["-c", &script, &cpu])).unwrap()
        };
        let (one, two) = (of(busy.to_owned()), of(busy.repeat(2)));
        assert_eq!(one.oversubscribed_ns, 0, "{one:?}");
        assert!(two.oversubscribed(1) > 0.5 && two.oversubscribed(1) <= 1.0, "{two:?}");
    }
}
