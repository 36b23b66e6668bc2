//! Encodes and decodes the messages between cox and cox-observe.
//!
//! A message is one packet of a SOCK_SEQPACKET socket: a header (kind, zero, length of the body) and a body. Numbers
//! have the machine's byte order, because both sides run on the same machine. The kind determines the valid lengths of
//! the body. cox sends requests. The answer to a request is any number of [`Reply::Data`], [`Reply::Maps`] and
//! [`Reply::Given`], followed by one [`Reply::Done`] or [`Reply::Refused`]. The only message without a request is
//! [`Reply::Ready`], which asks for a tick.
//!
//! No function here allocates more than the size of one message, whatever the bytes are.

use std::io;
use std::mem::size_of;

use bytemuck::{Pod, Zeroable};
use watch::noise::TRACEPOINTS;
use wire::latency::{BUCKETS, Scope};
use wire::noise::{Event, Named, count};
use wire::umt::{BELLS, KernelPage, ProgramPage};
use wire::{Clock, Cpu, LatencyCount, Living, Losses, Pair, PairSum, Preemptor, Sample, TraceEvent, TrackedThreads};

/// Version of the messages.
pub const VERSION: u32 = 8;
/// Hash of the struct sizes and of the number of a histogram's buckets. It distinguishes builds with different structs even if [`VERSION`] was not
/// raised. It does not depend on the order of the fields: raise [`VERSION`] if you change the order.
pub const LAYOUT: u32 = {
    let sizes = [
        size_of::<Clock>(),
        size_of::<Cpu>(),
        size_of::<TrackedThreads>(),
        size_of::<TraceEvent>(),
        size_of::<Summary>(),
        size_of::<ProgramPage>(),
        size_of::<KernelPage>(),
        size_of::<LatencyCount>(),
        BUCKETS,
        size_of::<NoiseRow>(),
        size_of::<FunctionRow>(),
        count::ALL,
    ];
    let (mut hash, mut i) = (0x811c_9dc5_u32, 0);
    while i < sizes.len() {
        hash = hash.wrapping_mul(0x0100_0193) ^ sizes[i] as u32;
        i += 1;
    }
    hash
};

const HEAD: usize = 8;
/// Maximum number of threads or CPUs in one message.
pub const MAX_THREADS: usize = 1000;
/// Maximum size of a request, bytes.
pub const MAX_REQUEST: usize = HEAD + 8 + 4 * MAX_THREADS;
/// Maximum size of each message of an answer, bytes.
pub const MAX_REPLY: usize = HEAD + MAX_DATA;
/// Maximum number of descriptors in one answer: those of a process's two pages and of its doorbells, on which standby
/// threads wait.
pub const MAX_DESCRIPTORS: usize = 2 + BELLS;
/// Maximum size of the data in one message, bytes. Several such messages fit into a socket's default buffer.
const MAX_DATA: usize = 48 << 10;
/// Maximum size of the text in a refusal, bytes.
const MAX_TEXT: usize = 600;

/// A message that does not follow this version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl From<Malformed> for io::Error {
    fn from(_: Malformed) -> io::Error {
        io::ErrorKind::InvalidData.into()
    }
}

/// A request that cox sends to the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first request: the protocol and layout versions of this cox.
    Hello {
        /// Protocol version, [`VERSION`].
        version: u32,
        /// Layout hash, [`LAYOUT`].
        layout: u32,
    },
    /// Load and attach the observing eBPF programs.
    Observe(Wanted),
    /// Track the threads of a freshly forked child, which waits before its exec.
    Launched(u32),
    /// Track the threads of a process.
    Process(u32),
    /// Track these threads.
    Threads(Vec<u32>),
    /// Load the eBPF programs that keep thread snapshots, and send the maps of their table.
    Snapshots {
        /// Whether to follow the child processes of tracked threads.
        children: bool,
    },
    /// Start or stop sampling tracked threads that have snapshots.
    Sample {
        /// Time between two samples on each CPU, nanoseconds.
        mean_ns: u64,
        /// The CPUs to sample; none to stop sampling.
        cpus: Vec<u32>,
    },
    /// Send the data that has arrived since the last request.
    Tick,
    /// Send the tracked threads that are alive.
    Living,
    /// Send the whole record, and continue.
    Snapshot,
    /// Stop observing, and send the whole record.
    Finish,
    /// Load the eBPF programs that count runnable threads and ring doorbells, which wake standby threads (`watch::umt`).
    Doorbells,
    /// Count the runnable threads of this process, and send pages and doorbells for it.
    Give(u32),
    /// The process with this number, from [`Reply::Given`], has closed its connection to cox.
    Over(u32),
    /// The process with this number has ended, and the number may be reused.
    Gone(u32),
    /// Load the eBPF programs that report what interrupts threads (`watch::noise`).
    Noise(WantedNoise),
    /// Send what the eBPF programs have counted on each CPU.
    Counts,
}

/// The settings of noise events that a session may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedNoise {
    /// Whether to follow the child processes of followed processes.
    pub children: bool,
    /// Size of the ring buffer for events, bytes.
    pub ring_bytes: u32,
    /// The time of one page fault in this many is measured, on every CPU. `None`: of each fault of threads that are named one by one.
    pub fault_period: Option<u32>,
    /// Tracepoints that are left out: a bit for each of [`watch::noise::TRACEPOINTS`], in their order.
    pub without: u64,
}

/// The settings that a session may choose. The helper sets the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether to follow the child processes of tracked threads.
    pub children: bool,
    /// Whether to sample user instruction pointers.
    pub samples: bool,
    /// Size of the ring buffer for the trace events that arrive between two ticks, bytes; `None` for no trace.
    pub trace_bytes: Option<u32>,
    /// Which programs and threads get histograms of interval lengths.
    pub latencies: Scope,
}

/// Reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Why {
    /// eBPF is not available to this user on this kernel, or a limit is reached.
    Unavailable = 1,
    /// The target does not exist, or belongs to another user.
    NoTarget,
    /// A system call failed.
    Failed,
}

/// The type of the data in an answer: an array of structs of one type, or a single struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Part {
    /// Array of [`Sample`].
    Samples = 1,
    /// Array of [`TraceEvent`].
    TraceEvents,
    /// Array of [`Clock`]: the time accounts of threads that have ended.
    Finals,
    /// Array of [`Living`].
    Living,
    /// Array of [`NameRow`].
    Names,
    /// Array of [`Cpu`].
    Cpus,
    /// One [`TrackedThreads`].
    TrackedThreads,
    /// Array of [`PreemptorRow`].
    Preemptors,
    /// Array of [`PairRow`].
    Pairs,
    /// One [`Summary`].
    Summary,
    /// Array of [`LatencyCount`].
    Latencies,
    /// Array of [`NoiseRow`].
    NoiseEvents,
    /// Array of [`FunctionRow`].
    Functions,
    /// Array of [`CountRow`].
    Counts,
    /// One [`NoiseState`].
    NoiseState,
}

impl Part {
    /// For each type of data: the size of one struct, bytes.
    const SIZES: [(Part, usize); 15] = [
        (Part::Samples, size_of::<Sample>()),
        (Part::TraceEvents, size_of::<TraceEvent>()),
        (Part::Finals, size_of::<Clock>()),
        (Part::Living, size_of::<Living>()),
        (Part::Names, size_of::<NameRow>()),
        (Part::Cpus, size_of::<Cpu>()),
        (Part::TrackedThreads, size_of::<TrackedThreads>()),
        (Part::Preemptors, size_of::<PreemptorRow>()),
        (Part::Pairs, size_of::<PairRow>()),
        (Part::Summary, size_of::<Summary>()),
        (Part::Latencies, size_of::<LatencyCount>()),
        (Part::NoiseEvents, size_of::<NoiseRow>()),
        (Part::Functions, size_of::<FunctionRow>()),
        (Part::Counts, size_of::<CountRow>()),
        (Part::NoiseState, size_of::<NoiseState>()),
    ];
}

/// The name of a living thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NameRow {
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread, up to the first NUL.
    pub comm: [u8; 16],
}

/// A preemptor: an untracked thread that held CPUs for which tracked threads waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PreemptorRow {
    /// Thread id.
    pub tid: u64,
    /// The thread's name and process, and the waiting time that it caused.
    pub preemptor: Preemptor,
}

/// The wake-ups between a pair of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PairRow {
    /// Waker and woken thread.
    pub pair: Pair,
    /// Number of wake-ups, and the blocked time that they ended.
    pub sum: PairSum,
}

/// A noise event without addresses (`serve::noise`). Functions of the kernel have the numbers of [`FunctionRow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NoiseRow {
    /// The event.
    pub event: Event,
    /// The thread that the event names, if its kind has one ([`Event::is_named`]).
    pub named: Named,
}

/// The name of a function of the kernel. It comes not later than the first event with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct FunctionRow {
    /// Number of the function in this session, from 1. An event has 0 if the name is not known.
    pub number: u64,
    /// The name, up to the first NUL.
    pub name: [u8; 64],
}

/// What the eBPF programs have counted on one CPU. Counts that are 0 are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CountRow {
    /// The CPU.
    pub cpu: u32,
    /// What was counted (`wire::noise::count`).
    pub index: u32,
    /// The count.
    pub count: u64,
}

/// The state of the noise events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NoiseState {
    /// Number of events that did not fit into the ring.
    pub lost: u64,
    /// Tracepoints that are not attached, as in [`WantedNoise::without`].
    pub without: u64,
}

/// Returns the bits of tracepoints. Names that are none have no bit.
#[must_use]
pub fn bits_of(names: &[impl AsRef<str>]) -> u64 {
    let is_named = |tracepoint: &str| names.iter().any(|name| name.as_ref() == tracepoint);
    (0..).zip(TRACEPOINTS).fold(0, |bits, (at, tracepoint)| bits | u64::from(is_named(tracepoint)) << at)
}

/// Returns the tracepoints with these bits.
#[must_use]
pub fn tracepoints_of(bits: u64) -> Vec<&'static str> {
    (0..).zip(TRACEPOINTS).filter(|(at, _)| bits >> at & 1 != 0).map(|(_, tracepoint)| tracepoint).collect()
}

/// Figures of a record that are not arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Summary {
    /// Start of the observed time on CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    /// End of the observed time on CLOCK_MONOTONIC, nanoseconds.
    pub end_ns: u64,
    /// Sampling period, nanoseconds; 0 if no samples were taken.
    pub sample_period_ns: u64,
    /// Number of scheduler events.
    pub events: u64,
    /// Time in the switch handlers, nanoseconds; `u64::MAX` if it cannot be measured.
    pub kernel_cost_ns: u64,
    /// CPU time of the helper since the programs were attached, nanoseconds.
    pub cpu_ns: u64,
    /// Number of programs that have histograms of interval lengths.
    pub latencies_of_programs: u64,
    /// Losses.
    pub losses: Losses,
    /// Sum of the time accounts (clocks) of threads that ended while the ring buffer for such accounts was full.
    pub unlisted: Clock,
}

/// A message that cox-observe sends to cox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'b> {
    /// Data of the type that the `Part` names: an array of complete structs.
    Data(Part, &'b [u8]),
    /// The request is complete.
    Done,
    /// The request was refused, with the reason.
    Refused(Why, &'b str),
    /// A ring buffer fills, so cox should send a tick.
    Ready,
    /// Carries the descriptors of the maps of the table of thread snapshots.
    Maps,
    /// Carries the descriptors of a process's pages and doorbells. Later requests refer to the process by this number.
    Given(u32),
}

const HELLO: u16 = 1;
const OBSERVE: u16 = 2;
const LAUNCHED: u16 = 3;
const PROCESS: u16 = 4;
const THREADS: u16 = 5;
const TICK: u16 = 6;
const LIVING: u16 = 7;
const FINISH: u16 = 8;
const SNAPSHOTS: u16 = 9;
const SAMPLE: u16 = 10;
const DOORBELLS: u16 = 11;
const GIVE: u16 = 12;
const OVER: u16 = 13;
const GONE: u16 = 14;
const SNAPSHOT: u16 = 15;
const NOISE: u16 = 16;
const COUNTS: u16 = 17;
const DONE: u16 = 0x100;
const READY: u16 = 0x101;
const MAPS: u16 = 0x102;
const GIVEN: u16 = 0x103;
const REFUSED: u16 = 0x200;
const DATA: u16 = 0x300;

const CHILDREN: u32 = 1;
const SAMPLES: u32 = 2;
const TRACE: u32 = 4;
const LATENCIES: u32 = 8;
const FAULTS_OF_NAMED: u32 = 16;

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&(body.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the kind and the body of a message whose header is consistent.
fn parts(bytes: &[u8]) -> Result<(u16, &[u8]), Malformed> {
    let (head, body) = bytes.split_at_checked(HEAD).ok_or(Malformed)?;
    let [k0, k1, 0, 0, l0, l1, l2, l3] = *head else { return Err(Malformed) };
    let length = u32::from_ne_bytes([l0, l1, l2, l3]);
    if u32::try_from(body.len()) != Ok(length) {
        return Err(Malformed);
    }
    Ok((u16::from_ne_bytes([k0, k1]), body))
}

impl Request {
    /// Encodes the request as one message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, numbers) = match self {
            Request::Hello { version, layout } => (HELLO, vec![*version, *layout]),
            Request::Observe(Wanted { children, samples, trace_bytes, latencies }) => {
                let flag = |is: bool, flag: u32| if is { flag } else { 0 };
                let flags = flag(*children, CHILDREN)
                    | flag(*samples, SAMPLES)
                    | flag(trace_bytes.is_some(), TRACE)
                    | flag(latencies.threads, LATENCIES);
                (OBSERVE, vec![flags, trace_bytes.unwrap_or(0), latencies.programs])
            }
            Request::Launched(pid) => (LAUNCHED, vec![*pid]),
            Request::Process(pid) => (PROCESS, vec![*pid]),
            Request::Threads(tids) => (THREADS, tids.clone()),
            Request::Snapshots { children } => (SNAPSHOTS, vec![u32::from(*children)]),
            Request::Sample { mean_ns, cpus } => {
                let mean: [u32; 2] = bytemuck::cast(*mean_ns);
                (SAMPLE, [&mean, cpus.as_slice()].concat())
            }
            Request::Tick => (TICK, vec![]),
            Request::Living => (LIVING, vec![]),
            Request::Snapshot => (SNAPSHOT, vec![]),
            Request::Finish => (FINISH, vec![]),
            Request::Doorbells => (DOORBELLS, vec![]),
            Request::Give(pid) => (GIVE, vec![*pid]),
            Request::Over(process) => (OVER, vec![*process]),
            Request::Gone(process) => (GONE, vec![*process]),
            Request::Noise(WantedNoise { children, ring_bytes, fault_period, without }) => {
                let flags =
                    if *children { CHILDREN } else { 0 } | if fault_period.is_none() { FAULTS_OF_NAMED } else { 0 };
                let [low, high]: [u32; 2] = bytemuck::cast(*without);
                (NOISE, vec![flags, *ring_bytes, fault_period.unwrap_or(0), low, high])
            }
            Request::Counts => (COUNTS, vec![]),
        };
        message(kind, bytemuck::cast_slice(&numbers))
    }

    /// Decodes one message as a request.
    ///
    /// # Errors
    /// When the message is not a valid request.
    pub fn decode(bytes: &[u8]) -> Result<Request, Malformed> {
        if bytes.len() > MAX_REQUEST {
            return Err(Malformed);
        }
        let (kind, body) = parts(bytes)?;
        if body.len() % size_of::<u32>() != 0 {
            return Err(Malformed);
        }
        let numbers: Vec<u32> = rows(body).collect();
        Ok(match (kind, numbers.as_slice()) {
            (HELLO, &[version, layout]) => Request::Hello { version, layout },
            (OBSERVE, &[flags, bytes, programs]) => {
                let has_trace = flags & TRACE != 0;
                if flags & !(CHILDREN | SAMPLES | TRACE | LATENCIES) != 0 || (!has_trace && bytes != 0) {
                    return Err(Malformed);
                }
                Request::Observe(Wanted {
                    children: flags & CHILDREN != 0,
                    samples: flags & SAMPLES != 0,
                    trace_bytes: has_trace.then_some(bytes),
                    latencies: Scope { programs, threads: flags & LATENCIES != 0 },
                })
            }
            (LAUNCHED, &[pid]) => Request::Launched(pid),
            (PROCESS, &[pid]) => Request::Process(pid),
            (THREADS, tids) if tids.len() <= MAX_THREADS => Request::Threads(tids.to_vec()),
            (SNAPSHOTS, &[children @ (0 | 1)]) => Request::Snapshots { children: children == 1 },
            (SAMPLE, [first, second, cpus @ ..]) => {
                Request::Sample { mean_ns: bytemuck::cast([*first, *second]), cpus: cpus.to_vec() }
            }
            (TICK, []) => Request::Tick,
            (LIVING, []) => Request::Living,
            (SNAPSHOT, []) => Request::Snapshot,
            (FINISH, []) => Request::Finish,
            (DOORBELLS, []) => Request::Doorbells,
            (GIVE, &[pid]) => Request::Give(pid),
            (OVER, &[process]) => Request::Over(process),
            (GONE, &[process]) => Request::Gone(process),
            (NOISE, &[flags, ring_bytes, period, low, high]) => {
                let of_named = flags & FAULTS_OF_NAMED != 0;
                if flags & !(CHILDREN | FAULTS_OF_NAMED) != 0 || (of_named && period != 0) {
                    return Err(Malformed);
                }
                Request::Noise(WantedNoise {
                    children: flags & CHILDREN != 0,
                    ring_bytes,
                    fault_period: (!of_named).then_some(period),
                    without: bytemuck::cast([low, high]),
                })
            }
            (COUNTS, []) => Request::Counts,
            _ => return Err(Malformed),
        })
    }
}

impl Reply<'_> {
    /// Encodes the answer as one message. A text that is too long is truncated.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Reply::Data(part, bytes) => message(DATA | *part as u16, bytes),
            Reply::Done => message(DONE, &[]),
            Reply::Ready => message(READY, &[]),
            Reply::Maps => message(MAPS, &[]),
            Reply::Given(process) => message(GIVEN, &process.to_ne_bytes()),
            Reply::Refused(why, text) => {
                let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                message(REFUSED | *why as u16, &text.as_bytes()[..end])
            }
        }
    }
}

/// Decodes one message as an answer.
///
/// # Errors
/// When the message is not a valid answer.
pub fn decode_reply(bytes: &[u8]) -> Result<Reply<'_>, Malformed> {
    if bytes.len() > MAX_REPLY {
        return Err(Malformed);
    }
    let (kind, body) = parts(bytes)?;
    match (kind & 0xff00, kind & 0xff) {
        (DONE, 0) if body.is_empty() => Ok(Reply::Done),
        (DONE, 1) if body.is_empty() => Ok(Reply::Ready),
        (DONE, 2) if body.is_empty() => Ok(Reply::Maps),
        (DONE, 3) if body.len() == size_of::<u32>() => Ok(Reply::Given(bytemuck::pod_read_unaligned(body))),
        (REFUSED, why) if body.len() <= MAX_TEXT => {
            let known = [Why::Unavailable, Why::NoTarget, Why::Failed];
            let why = known.into_iter().find(|known| *known as u16 == why).ok_or(Malformed)?;
            std::str::from_utf8(body).map(|text| Reply::Refused(why, text)).map_err(|_| Malformed)
        }
        (DATA, part) => {
            let (part, size) = Part::SIZES.into_iter().find(|(known, _)| *known as u16 == part).ok_or(Malformed)?;
            if body.is_empty() || body.len() % size != 0 {
                return Err(Malformed);
            }
            Ok(Reply::Data(part, body))
        }
        _ => Err(Malformed),
    }
}

/// Encodes an array of structs as messages, each within the size limit.
pub fn data<'r, T: Pod>(part: Part, rows: &'r [T]) -> impl Iterator<Item = Vec<u8>> + 'r {
    debug_assert!(Part::SIZES.contains(&(part, size_of::<T>())));
    let per_message = MAX_DATA / size_of::<T>();
    rows.chunks(per_message).map(move |rows| Reply::Data(part, bytemuck::cast_slice(rows)).encode())
}

/// Decodes the structs in the data of an answer.
pub fn rows<T: Pod>(bytes: &[u8]) -> impl Iterator<Item = T> + '_ {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    fn requests() -> Vec<Request> {
        let observe = |trace_bytes: Option<u32>| {
            let latencies = Scope { programs: 3, threads: trace_bytes.is_some() };
            Request::Observe(Wanted { children: true, samples: false, trace_bytes, latencies })
        };
        vec![
            Request::Hello { version: VERSION, layout: LAYOUT },
            observe(None),
            observe(Some(32 << 20)),
            Request::Launched(7),
            Request::Process(u32::MAX),
            Request::Threads(Vec::new()),
            Request::Threads((0..MAX_THREADS as u32).collect()),
            Request::Snapshots { children: true },
            Request::Sample { mean_ns: 1_000_000, cpus: vec![0, 7] },
            Request::Sample { mean_ns: 0, cpus: Vec::new() },
            Request::Tick,
            Request::Living,
            Request::Snapshot,
            Request::Finish,
            Request::Doorbells,
            Request::Give(4711),
            Request::Over(127),
            Request::Gone(u32::MAX),
            Request::Noise(WantedNoise { children: true, ring_bytes: 32 << 20, fault_period: Some(11), without: 0 }),
            Request::Noise(WantedNoise { children: false, ring_bytes: 4096, fault_period: None, without: 1 << 40 | 5 }),
            Request::Counts,
        ]
    }

    fn replies() -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = vec![
            Reply::Done.encode(),
            Reply::Ready.encode(),
            Reply::Maps.encode(),
            Reply::Given(127).encode(),
            Reply::Refused(Why::NoTarget, "no such process").encode(),
            Reply::Refused(Why::Unavailable, &"é".repeat(MAX_TEXT)).encode(),
        ];
        for (part, size) in Part::SIZES {
            all.push(Reply::Data(part, &vec![3; 5 * size]).encode());
        }
        all
    }

    #[test]
    fn what_is_sent_is_what_arrives() {
        for request in requests() {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        for reply in replies() {
            assert_eq!(decode_reply(&reply).map(|read| read.encode()), Ok(reply));
        }
        let clocks = vec![Clock { tid: 5, ..Clock::default() }; 1000];
        let messages: Vec<Vec<u8>> = data(Part::Finals, &clocks).collect();
        let read = messages.iter().flat_map(|message| match decode_reply(message) {
            Ok(Reply::Data(Part::Finals, bytes)) => rows::<Clock>(bytes).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        });
        assert!(messages.len() > 1 && read.eq(clocks));
    }

    #[test]
    fn tracepoints_are_bits() {
        assert!(TRACEPOINTS.len() <= 64);
        let names = ["softirq_entry", "local_timer_entry", "no tracepoint"];
        assert_eq!(tracepoints_of(bits_of(&names)), ["local_timer_entry", "softirq_entry"]);
        assert_eq!(bits_of(&tracepoints_of(u64::MAX)).count_ones() as usize, TRACEPOINTS.len());
    }

    #[test]
    fn questions_and_answers_are_not_each_other() {
        for request in requests() {
            assert_eq!(decode_reply(&request.encode()), Err(Malformed), "{request:?}");
        }
        for reply in replies() {
            assert_eq!(Request::decode(&reply), Err(Malformed));
        }
        assert_eq!(Request::decode(&message(THREADS, &[0; 4 * MAX_THREADS + 4])), Err(Malformed));
    }

    /// Whatever is read is something that could have been sent.
    #[test]
    fn damaged_messages_are_refused_or_mean_something() {
        let requests: Vec<Vec<u8>> = requests().iter().map(Request::encode).collect();
        let replies = replies();
        let (times, seed) = (testkit::times(1_000_000), testkit::seed());
        let mut understood = 0;
        for number in seed..seed + times {
            let mut random = Random::new(number);
            // Half of them with a head that fits: what is behind it is to be reached.
            let pool = if random.one_in(2) { &requests } else { &replies };
            let mut bytes = pool[random.below(pool.len())].clone();
            testkit::bytes::change(&mut bytes, &mut random);
            if random.one_in(2) && bytes.len() >= HEAD {
                let length = (bytes.len() - HEAD) as u32;
                bytes[2..4].fill(0);
                bytes[4..HEAD].copy_from_slice(&length.to_ne_bytes());
            }
            if let Ok(request) = Request::decode(&bytes) {
                assert_eq!(request.encode(), bytes, "number {number}");
                understood += 1;
            }
            if let Ok(reply) = decode_reply(&bytes) {
                assert_eq!(reply.encode(), bytes, "number {number}");
                understood += 1;
            }
        }
        assert!(understood > times / 20, "{understood} of {times} were understood: the damage goes too far");
    }
}
