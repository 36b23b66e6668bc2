//! The client side, in cox: an observer whose eBPF programs are in the process `cox-observe`.

mod doorbells;
mod noise;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use watch::bpf::unavailable;
use watch::snapshots::{Before, Mapped, Others, Table, ThreadSnapshots};
use watch::{Intake, Observer, WatchError};
use wire::layout::comm_text;
use wire::{Backend, Clock, LatencyCount, Living, Record};

pub use doorbells::RemoteDoorbells;
pub use noise::{MAX_RING_BYTES, RemoteNoise};

use crate::protocol::{
    LAYOUT, MAX_DESCRIPTORS, MAX_REPLY, MAX_THREADS, Malformed, NameRow, PairRow, Part, PreemptorRow, Reply, Request,
    Summary, VERSION, Wanted, Why, decode_reply, rows,
};
use crate::socket::{is_readable_within, pair, receive_with, send_message};

/// File name of the program.
pub const FILE: &str = "cox-observe";
/// Folder of the program after `make install`, relative to the folder of `cox`.
const INSTALLED: &str = "../libexec/coxswain";
/// Maximum size of an answer, bytes.
const MAX_ANSWER: usize = 1 << 30;
/// Time limit for the next message of an answer, seconds. If no message arrives within this time, the helper or the
/// machine has been stopped.
const PATIENCE_S: i64 = 60;
/// Time limit for the next message, seconds, if processes of the session also wait for the answer.
const SHORT_PATIENCE_S: i64 = 10;
/// Time limit for the helper to exit after its socket is closed.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// Returns the path of `cox-observe` for this cox: the installed one, else the one built next to cox.
#[must_use]
pub fn helper() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    let places = [folder.join(INSTALLED).join(FILE), folder.join(FILE)];
    places.into_iter().find_map(|place| place.canonicalize().ok())
}

/// An observation by eBPF in the helper process.
pub struct RemoteObserver {
    helper: Helper,
    /// Final time accounts (clocks) of threads that have ended. The helper sends them in its answers to cox's periodic requests for new data
    /// (`Request::Tick`).
    finals: Vec<Clock>,
    latencies_of_threads: bool,
}

impl RemoteObserver {
    /// Starts the helper, which loads and attaches its eBPF programs. No thread is tracked yet.
    ///
    /// # Errors
    /// `Unavailable`, with the reason, when the helper cannot be started or refuses.
    pub fn new(program: &Path, wanted: Wanted) -> Result<RemoteObserver, WatchError> {
        let mut helper = Helper::start(program)?;
        helper.ask(&Request::Observe(wanted), None)?;
        Ok(RemoteObserver { helper, finals: Vec::new(), latencies_of_threads: wanted.latencies.threads })
    }

    fn enrol_as(&mut self, request: &Request, pid: u32) -> Result<(), WatchError> {
        self.helper.ask(request, Some(pid)).map(|_| ())
    }

    /// Asks for the whole record. Adds the time accounts (clocks) of ended threads to those that arrived before.
    fn record(&mut self, request: &Request, intake: &mut Intake) -> Result<Record, WatchError> {
        let mut answer = self.helper.ask(request, None)?;
        answer.move_into(intake);
        let mut record = answer.into_record().ok_or_else(malformed)?;
        record.latencies_of_threads = self.latencies_of_threads;
        record.own_processes = own_processes();
        self.finals.append(&mut record.clocks);
        Ok(record)
    }
}

impl Observer for RemoteObserver {
    fn backend(&self) -> Backend {
        Backend::Bpf
    }

    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        self.enrol_as(&Request::Process(pid), pid)
    }

    fn enrol_launched(&mut self, pid: u32) -> Result<(), WatchError> {
        self.enrol_as(&Request::Launched(pid), pid)
    }

    fn enrol_threads(&mut self, tids: &[u32]) -> Result<bool, WatchError> {
        for tids in tids.chunks(MAX_THREADS) {
            self.helper.ask(&Request::Threads(tids.to_vec()), None)?;
        }
        Ok(true)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.helper.socket.as_fd())
    }

    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError> {
        let mut answer = self.helper.ask(&Request::Tick, None)?;
        self.finals.append(&mut answer.finals);
        answer.move_into(intake);
        Ok(())
    }

    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError> {
        let answer = self.helper.ask(&Request::Living, None)?;
        Ok(answer.names.iter().map(|row| (row.tgid, row.tid, comm_text(&row.comm))).collect())
    }

    fn snapshot(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        let record = self.record(&Request::Snapshot, intake)?;
        Ok(Record { clocks: self.finals.clone(), ..record })
    }

    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        let record = self.record(&Request::Finish, intake)?;
        Ok(Record { clocks: std::mem::take(&mut self.finals), ..record })
    }

    fn cpu_elsewhere_ns(&self) -> u64 {
        self.helper.cpu_ns
    }
}

/// Tries both kinds of eBPF programs in one helper process: first those that observe, then those that ring doorbells (wake
/// standby threads). A second process would count as another session of the user and take more memory. The inner result tells
/// whether the helper can ring doorbells.
///
/// # Errors
/// Same as [`RemoteObserver::new`], when the helper cannot observe. In that case, doorbells are not tried.
pub fn try_out(program: &Path, wanted: Wanted) -> Result<Result<(), WatchError>, WatchError> {
    let mut helper = RemoteObserver::new(program, wanted)?.helper;
    let rings = helper.ask(&Request::Finish, None).and_then(|_| helper.ask(&Request::Doorbells, None));
    Ok(rings.map(|_| ()))
}

/// Thread snapshots that eBPF programs in the helper process keep, in a table that is mapped into this process.
pub struct RemoteSnapshots {
    helper: Helper,
    table: Arc<Mapped>,
    /// CPU times of other programs just before the helper started. This process reads them, because the helper does not count
    /// them.
    before: Before,
}

impl RemoteSnapshots {
    /// Starts the helper, which loads and attaches its eBPF programs. The table is still empty. The CPU time of other
    /// programs on `cpus` is counted.
    ///
    /// # Errors
    /// Same as [`RemoteObserver::new`].
    pub fn new(program: &Path, children: bool, cpus: &[u32]) -> Result<RemoteSnapshots, WatchError> {
        let before = Before::read(cpus, 0);
        let mut helper = Helper::start(program)?;
        let answer = helper.ask(&Request::Snapshots { children }, None)?;
        let [snapshots, counts] = answer.descriptors.as_slice() else { return Err(malformed()) };
        let table = Arc::new(Mapped::map([snapshots.as_fd(), counts.as_fd()])?);
        Ok(RemoteSnapshots { helper, table, before })
    }
}

impl ThreadSnapshots for RemoteSnapshots {
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        self.helper.ask(&Request::Process(pid), Some(pid)).map(|_| ())
    }

    fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        let cpus = cpus.get(..cpus.len().min(MAX_THREADS)).unwrap_or_default().to_vec();
        self.helper.ask(&Request::Sample { mean_ns, cpus }, None).map(|_| ())
    }

    fn take_samples(&mut self) -> Result<Vec<wire::Sample>, WatchError> {
        Ok(self.helper.ask(&Request::Tick, None)?.intake.samples)
    }

    fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.table) as Arc<dyn Table>
    }

    fn others(&self) -> Others {
        self.before.others(&self.table.processes(), self.table.run_ns())
    }
}

fn system(source: io::Error) -> WatchError {
    WatchError::System { what: "talking to cox-observe".into(), source }
}

fn malformed() -> WatchError {
    system(io::ErrorKind::InvalidData.into())
}

/// Ids of all helper processes that this process has started. A session can have several: for observing, for doorbells and for thread snapshots.
static STARTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Returns the ids of this process and of its helpers.
fn own_processes() -> Vec<u32> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    [std::process::id()].into_iter().chain(started.iter().copied()).collect()
}

/// The helper process and the socket to it.
struct Helper {
    // Field order: the socket is dropped first, which ends the process.
    socket: OwnedFd,
    child: Child,
    buffer: Vec<u8>,
    cpu_ns: u64,
}

impl Helper {
    fn start(program: &Path) -> Result<Helper, WatchError> {
        let (socket, its) = pair().map_err(system)?;
        let mut command = Command::new(program);
        // The helper clears its environment anyway; pass none.
        command.env_clear().stdin(Stdio::from(its)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| {
            let program = program.display();
            unavailable(match error.raw_os_error() {
                Some(libc::EACCES) => {
                    format!("this user may not execute {program} (ask for membership of its group)")
                }
                Some(libc::EPERM) => {
                    format!("{program} does not get its capabilities here (the container's bounding set excludes them)")
                }
                _ => format!("{program}: {error}"),
            })
        })?;
        STARTED.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
        let mut helper = Helper { socket, child, buffer: vec![0; MAX_REPLY], cpu_ns: 0 };
        helper.ask(&Request::Hello { version: VERSION, layout: LAYOUT }, None)?;
        Ok(helper)
    }

    /// Sends a request and collects the answer. `pid` is the process that the request is about.
    fn ask(&mut self, request: &Request, pid: Option<u32>) -> Result<Answer, WatchError> {
        self.ask_within(PATIENCE_S, request, pid)
    }

    /// Same as `ask`, with `seconds` as the time limit for each message of the answer.
    fn ask_within(&mut self, seconds: i64, request: &Request, pid: Option<u32>) -> Result<Answer, WatchError> {
        match self.converse(seconds, request) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err((Why::Unavailable, why))) => Err(unavailable(why)),
            Ok(Err((Why::NoTarget, why))) => Err(WatchError::NoTarget { pid: pid.unwrap_or(0), why }),
            Ok(Err((Why::Failed, why))) => Err(system(io::Error::other(why))),
            Err(error) => {
                // The rest of this answer may still arrive and must not be taken for the next answer, so the connection
                // is closed.
                self.hang_up();
                Err(error)
            }
        }
    }

    /// Sends a request and receives the answer or a refusal. After an error, the connection cannot be used any more: the next
    /// message could still belong to this answer.
    fn converse(&mut self, seconds: i64, request: &Request) -> Result<Result<Answer, (Why, String)>, WatchError> {
        let ended = || system(io::Error::new(io::ErrorKind::UnexpectedEof, "the process has ended"));
        send_message(&self.socket, &request.encode()).map_err(|_| ended())?;
        let mut answer = Answer::default();
        loop {
            if !is_readable_within(&self.socket, seconds).map_err(system)? {
                return Err(system(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {seconds} s"))));
            }
            let message = receive_with(&self.socket, &mut self.buffer, &mut answer.descriptors);
            let message = message.map_err(system)?.ok_or_else(ended)?;
            match answer.take(message).map_err(|Malformed| malformed())? {
                Progress::More => {}
                Progress::Whole => {
                    self.cpu_ns = answer.summary.map_or(self.cpu_ns, |summary| summary.cpu_ns);
                    return Ok(Ok(answer));
                }
                Progress::Refused(why, text) => return Ok(Err((why, text))),
            }
        }
    }

    /// Closes the connection: the helper ends, and later requests fail immediately. A thread that polls this socket
    /// sees the same as if the helper had ended.
    fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.hang_up();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > LAST_MOMENTS {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Progress of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Whole,
    Refused(Why, String),
}

/// The parts of an answer received so far.
#[derive(Default)]
pub(crate) struct Answer {
    intake: Intake,
    finals: Vec<Clock>,
    living: Vec<Living>,
    names: Vec<NameRow>,
    cpus: Vec<wire::Cpu>,
    tracked: Option<wire::TrackedThreads>,
    preemptors: Vec<PreemptorRow>,
    pairs: Vec<PairRow>,
    summary: Option<Summary>,
    latencies: Vec<LatencyCount>,
    noise: noise::Noise,
    /// The number by which later requests refer to a process, from [`Reply::Given`].
    given: Option<u32>,
    descriptors: Vec<OwnedFd>,
    bytes: usize,
}

impl Answer {
    /// Adds one message to the answer.
    pub(crate) fn take(&mut self, message: &[u8]) -> Result<Progress, Malformed> {
        self.bytes += message.len();
        if self.bytes > MAX_ANSWER || self.descriptors.len() > MAX_DESCRIPTORS {
            return Err(Malformed);
        }
        match decode_reply(message)? {
            Reply::Done => return Ok(Progress::Whole),
            Reply::Ready | Reply::Maps => {}
            Reply::Given(process) => self.given = Some(process),
            Reply::Refused(why, text) => return Ok(Progress::Refused(why, text.to_owned())),
            Reply::Data(part, bytes) => match part {
                Part::Samples => self.intake.samples.extend(rows::<wire::Sample>(bytes)),
                Part::TraceEvents => self.intake.trace_events.extend(rows::<wire::TraceEvent>(bytes)),
                Part::Finals => self.finals.extend(rows::<Clock>(bytes)),
                Part::Living => self.living.extend(rows::<Living>(bytes)),
                Part::Names => self.names.extend(rows::<NameRow>(bytes)),
                Part::Cpus => self.cpus.extend(rows::<wire::Cpu>(bytes)),
                Part::TrackedThreads => self.tracked = rows(bytes).next(),
                Part::Preemptors => self.preemptors.extend(rows::<PreemptorRow>(bytes)),
                Part::Pairs => self.pairs.extend(rows::<PairRow>(bytes)),
                Part::Summary => self.summary = rows(bytes).next(),
                Part::Latencies => self.latencies.extend(rows::<LatencyCount>(bytes)),
                Part::NoiseEvents => self.noise.take_events(rows(bytes)),
                Part::Functions => self.noise.take_functions(rows(bytes)),
                Part::Counts => self.noise.take_counts(rows(bytes)),
                Part::NoiseState => self.noise.take_state(rows(bytes).next()),
            },
        }
        Ok(Progress::More)
    }

    #[cfg(test)]
    pub(crate) fn given(&self) -> Option<u32> {
        self.given
    }

    /// Returns the noise events, and the functions that have numbers.
    #[cfg(test)]
    pub(crate) fn noise_events(&self) -> (Vec<watch::noise::Interruption>, Vec<(u64, String)>) {
        (self.noise.events().to_vec(), self.noise.names().collect())
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> &[crate::protocol::CountRow] {
        self.noise.counts()
    }

    fn move_into(&mut self, intake: &mut Intake) {
        intake.samples.append(&mut self.intake.samples);
        intake.trace_events.append(&mut self.intake.trace_events);
    }

    /// Returns the record; `None` if parts are missing.
    pub(crate) fn into_record(self) -> Option<Record> {
        let summary = self.summary?;
        Some(Record {
            clocks: self.finals,
            living: self.living,
            cpus: self.cpus,
            tracked: self.tracked?,
            preemptors: self.preemptors.iter().map(|row| (row.tid as u32, row.preemptor)).collect(),
            pairs: self.pairs.iter().map(|row| (row.pair, row.sum)).collect(),
            unlisted: summary.unlisted,
            latencies: self.latencies,
            latencies_of_programs: summary.latencies_of_programs as u32,
            sample_period_ns: summary.sample_period_ns,
            events: summary.events,
            kernel_cost_ns: (summary.kernel_cost_ns != u64::MAX).then_some(summary.kernel_cost_ns),
            losses: summary.losses,
            ..Record::new(Backend::Bpf, summary.start_ns, summary.end_ns)
        })
    }
}

#[cfg(test)]
mod tests;
