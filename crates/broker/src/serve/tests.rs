//! The conversation without a kernel: each request gets the answer that the protocol requires, and no message can crash
//! either side.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use testkit::Random;
use watch::noise::{Counts, Interruption, NoiseEvents};
use watch::snapshots::{self, Others};
use watch::umt::Given;
use wire::latency::{LONGEST, Scope};
use wire::noise::{Event, Named, count, edge, kind};
use wire::umt::BELLS;
use wire::{Backend, LatencyCount, Record, Sample};

use super::*;
use crate::client::{Answer, Progress};
use crate::protocol::MAX_THREADS;

/// Intervals of the second program, and of a thread.
const LATENCIES: [LatencyCount; 2] = [
    LatencyCount { of: 1, interval: 2, bucket: LONGEST, count: 1 << 40 },
    LatencyCount { of: LatencyCount::of_place(1487), interval: 3, bucket: 5, count: 6 },
];

/// An observer that saw a little.
struct Seen;

impl Observer for Seen {
    fn backend(&self) -> Backend {
        Backend::Bpf
    }

    fn enrol(&mut self, _pid: u32) -> Result<(), WatchError> {
        Ok(())
    }

    fn enrol_threads(&mut self, _tids: &[u32]) -> Result<bool, WatchError> {
        Ok(true)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError> {
        intake.samples.push(Sample { tid: 7, ..Sample::default() });
        Ok(())
    }

    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError> {
        Ok(vec![(7, 8, "a name that is too long".into())])
    }

    fn snapshot(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        self.finish(intake)
    }

    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        self.tick(intake)?;
        let clocks = vec![Clock { tid: 9, ..Clock::default() }];
        let (latencies, latencies_of_programs) = (LATENCIES.to_vec(), 2);
        let record = Record::new(Backend::Bpf, 1, 2);
        Ok(Record { clocks, kernel_cost_ns: Some(3), latencies, latencies_of_programs, ..record })
    }
}

impl Source for Seen {
    fn take_finals(&mut self) -> Vec<Clock> {
        vec![Clock { tid: 5, ..Clock::default() }]
    }
}

/// Snapshots of no thread.
struct Kept(File);

impl ThreadSnapshots for Kept {
    fn enrol(&mut self, _pid: u32) -> Result<(), WatchError> {
        Ok(())
    }

    fn sample_on(&mut self, _cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        assert!(mean_ns >= LEAST_SAMPLING_NS);
        Ok(())
    }

    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        Ok(vec![Sample::default(); 3])
    }

    fn table(&self) -> Arc<dyn snapshots::Table> {
        unreachable!("its maps are sent")
    }

    fn others(&self) -> Others {
        unreachable!("cox asks itself")
    }
}

impl Table for Kept {
    fn maps(&self) -> [BorrowedFd<'_>; 2] {
        [self.0.as_fd(), self.0.as_fd()]
    }
}

/// Bells that nobody rings, for two processes.
#[derive(Default)]
struct Rung([bool; 2]);

impl Doorbells for Rung {
    fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        let free = self.0.iter().position(|taken| !taken);
        let process = free.ok_or(WatchError::NoTarget { pid, why: "too many".into() })?;
        self.0[process] = true;
        let nothing = || File::open("/dev/null").unwrap().into();
        let bells = std::iter::repeat_with(nothing).take(BELLS).collect();
        Ok(Given { process: process as u32, program_page: nothing(), kernel_page: nothing(), bells })
    }

    fn prepare(&mut self) -> Result<(), WatchError> {
        Ok(())
    }

    fn over(&mut self, process: u32) {
        assert!(self.0[process as usize], "nobody has it");
    }

    fn gone(&mut self, process: u32) {
        assert!(std::mem::take(&mut self.0[process as usize]), "nobody has it");
    }

    fn end(&mut self) {}
}

/// Addresses in the kernel, as events have them.
const ADDRESS: u64 = 0xffff_ffff_8123_4560;
const REQUEST: u64 = 0xffff_8880_1234_5600;

/// Two events of each kind, which have an address wherever the kernel may write one.
fn events_with_addresses() -> Vec<Interruption> {
    let event = |kind: u8, edge: u8, at: u64| {
        let (a, b) = match kind {
            kind::SENT_MASK => (ADDRESS + at, 3),
            kind::NMI => (ADDRESS + at, 400),
            kind::FAULT => (1000 + at, 5),
            kind::CALL | kind::QUEUED => (ADDRESS + at, REQUEST),
            _ => (ADDRESS + at, ADDRESS),
        };
        let event = Event { t_ns: 7, a, b, tid: 5, cpu: 1, kind, edge };
        (event, event.is_named().then(|| Named { call: 9, ..Named::default() }))
    };
    let all = (0..=u8::MAX).flat_map(|kind| [edge::POINT, edge::BEGIN, edge::END].map(|edge| (kind, edge)));
    all.flat_map(|(kind, edge)| [event(kind, edge, 0), event(kind, edge, 4)]).collect()
}

/// Noise events that the ring has, and threads that are followed.
#[derive(Default)]
struct Interrupts {
    ring: Vec<Interruption>,
    followed: Vec<u32>,
}

impl NoiseEvents for Interrupts {
    fn follow(&mut self, pid: u32) -> Result<(), WatchError> {
        self.followed.push(pid);
        Ok(())
    }

    fn follow_threads(&mut self, tids: &[u32]) -> Result<(), WatchError> {
        self.followed.extend(tids);
        Ok(())
    }

    fn drain(&mut self) -> Result<Vec<Interruption>, WatchError> {
        unreachable!("it takes some at a time")
    }

    fn lost(&self) -> u64 {
        3
    }

    fn without(&self) -> Vec<&'static str> {
        vec!["tlb_flush"]
    }

    fn counts(&mut self) -> Result<Counts, WatchError> {
        Ok(vec![(0..count::ALL as u64).map(|index| index + 1).collect(); 2])
    }

    /// One function has a name, and is long enough for two addresses.
    fn function(&mut self, number: u64) -> Option<String> {
        (number & !7 == ADDRESS).then(|| "tick_nohz_handler".to_owned())
    }

    fn end(&mut self) {}
}

impl Ring for Interrupts {
    fn take(&mut self, most: usize) -> Result<Vec<Interruption>, WatchError> {
        Ok(self.ring.drain(..most.min(self.ring.len())).collect())
    }
}

/// A world in which process 1 is another user's.
struct Pretended;

impl World for Pretended {
    fn observe(&mut self, _wanted: &Wanted) -> Result<Box<dyn Source>, WatchError> {
        Ok(Box::new(Seen))
    }

    fn keep_snapshots(&mut self, _children: bool) -> Result<Box<dyn Table>, WatchError> {
        Ok(Box::new(Kept(File::open("/dev/null").unwrap())))
    }

    fn ring(&mut self) -> Result<Box<dyn Doorbells>, WatchError> {
        Ok(Box::new(Rung::default()))
    }

    fn interrupt(&mut self, _wanted: &WantedNoise) -> Result<Box<dyn Ring>, WatchError> {
        Ok(Box::new(Interrupts { ring: events_with_addresses(), ..Interrupts::default() }))
    }

    fn may_read_counters(&self) -> bool {
        true
    }

    fn may_observe(&self, pid: u32) -> Result<(), String> {
        if pid == 1 { Err("another user's".into()) } else { Ok(()) }
    }

    fn hold(&self, pid: u32) -> Result<Pidfd, String> {
        self.may_observe(pid).and_then(|()| Pidfd::open(pid).map_err(crate::caller::not_opened))
    }
}

const HELLO: Request = Request::Hello { version: VERSION, layout: LAYOUT };
const OBSERVE: Request = Request::Observe(Wanted {
    children: true,
    samples: true,
    trace_bytes: None,
    latencies: Scope { programs: 1, threads: false },
});

const NOISE: Request =
    Request::Noise(WantedNoise { children: true, ring_bytes: 1 << 20, fault_period: Some(11), without: 0 });

/// All that is answered to one question.
fn ask(dialogue: &mut Dialogue, message: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut sent = Vec::new();
    dialogue.answer(message, &mut Pretended, &mut |bytes, _| {
        sent.push(bytes.to_vec());
        Ok(())
    })?;
    Ok(sent)
}

/// The answer as cox has it.
fn answer(dialogue: &mut Dialogue, request: &Request) -> (Progress, Answer) {
    let mut answer = Answer::default();
    let mut progress = Progress::More;
    for message in ask(dialogue, &request.encode()).unwrap() {
        assert_eq!(progress, Progress::More);
        progress = answer.take(&message).unwrap();
    }
    (progress, answer)
}

#[test]
fn a_session_goes_from_hello_to_finish() {
    let mut dialogue = Dialogue::New;
    assert_eq!(answer(&mut dialogue, &HELLO).0, Progress::Whole);
    for request in [OBSERVE, Request::Launched(2), Request::Process(2), Request::Threads(vec![2, 3]), Request::Tick] {
        assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
    }
    let refused = answer(&mut dialogue, &Request::Process(1)).0;
    assert_eq!(refused, Progress::Refused(Why::NoTarget, "another user's".into()));
    // A snapshot is as whole as what comes at the end.
    for request in [Request::Snapshot, Request::Snapshot, Request::Finish] {
        let (progress, finished) = answer(&mut dialogue, &request);
        assert_eq!(progress, Progress::Whole);
        let record = finished.into_record().unwrap();
        assert_eq!((record.start_ns, record.end_ns, record.kernel_cost_ns), (1, 2, Some(3)));
        assert_eq!((record.latencies.as_slice(), record.latencies_of_programs), (LATENCIES.as_slice(), 2));
    }
    assert!(ask(&mut dialogue, &Request::Tick.encode()).is_err(), "it is over");
}

#[test]
fn behind_an_observation_doorbells_can_be_tried_and_nothing_else() {
    let finished = || {
        let mut dialogue = Dialogue::New;
        for request in [HELLO, OBSERVE, Request::Finish] {
            assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
        }
        dialogue
    };
    assert_eq!(answer(&mut finished(), &Request::Doorbells).0, Progress::Whole);
    for request in [HELLO, OBSERVE, Request::Snapshots { children: true }, Request::Give(2), Request::Finish] {
        assert!(ask(&mut finished(), &request.encode()).is_err(), "{request:?}");
    }
}

#[test]
fn snapshots_have_questions_of_their_own() {
    let mut dialogue = Dialogue::New;
    assert_eq!(answer(&mut dialogue, &HELLO).0, Progress::Whole);
    for request in [
        Request::Snapshots { children: true },
        Request::Process(2),
        Request::Sample { mean_ns: 0, cpus: vec![0, 1] },
        Request::Tick,
    ] {
        assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
    }
    assert!(matches!(answer(&mut dialogue, &Request::Process(1)).0, Progress::Refused(Why::NoTarget, _)));
    assert!(ask(&mut dialogue, &Request::Finish.encode()).is_err(), "there is no record");
}

#[test]
fn noise_events_have_questions_of_their_own() {
    let mut dialogue = Dialogue::New;
    let session = [
        HELLO,
        NOISE,
        Request::Process(2),
        Request::Threads(vec![2, 3]),
        Request::Tick,
        Request::Counts,
        Request::Finish,
    ];
    for request in session {
        assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
    }
    assert_eq!(answer(&mut dialogue, &Request::Tick).0, Progress::Whole, "the ring can still be read");
    for request in
        [NOISE, OBSERVE, Request::Launched(2), Request::Living, Request::Sample { mean_ns: 0, cpus: vec![0] }]
    {
        let mut dialogue = Dialogue::New;
        for request in [HELLO, NOISE] {
            assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
        }
        assert!(ask(&mut dialogue, &request.encode()).is_err(), "{request:?}");
    }
}

/// Neither as a process nor as one of many threads.
#[test]
fn noise_of_another_users_threads_is_refused() {
    let mut dialogue = Dialogue::New;
    for request in [HELLO, NOISE] {
        assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
    }
    for request in [Request::Process(1), Request::Threads(vec![2, 3, 1, 4])] {
        let refused = answer(&mut dialogue, &request).0;
        assert_eq!(refused, Progress::Refused(Why::NoTarget, "another user's".into()), "{request:?}");
    }
    let many = Request::Threads((2..2 + MAX_THREADS as u32).collect());
    let answers: Vec<Progress> = (0..3).map(|_| answer(&mut dialogue, &many).0).collect();
    assert_eq!(answers[0], Progress::Whole);
    assert!(
        matches!(&answers[2], Progress::Refused(Why::NoTarget, why) if why.contains("1024 single threads")),
        "{answers:?}"
    );
}

/// Whether the number looks like an address in the kernel. (A thread's id and the call −1 together are below the kernel's code.)
fn is_address(number: u64) -> bool {
    (0xffff_8000_0000_0000..0xffff_ffff_0000_0000).contains(&number) || number >= 0xffff_ffff_8000_0000
}

/// Whatever the kind and wherever the kernel wrote it. What is sent instead still says which functions and requests are the same.
#[test]
fn no_address_of_the_kernel_is_sent() {
    let mut dialogue = Dialogue::New;
    for request in [HELLO, NOISE] {
        assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
    }
    let sent = ask(&mut dialogue, &Request::Tick.encode()).unwrap();
    for message in &sent {
        for at in 0..message.len().saturating_sub(7) {
            let number = u64::from_ne_bytes(message[at..at + 8].try_into().unwrap());
            assert!(number != ADDRESS && number != REQUEST && number != ADDRESS + 4, "{number:#x}");
            assert!(at % 8 != 0 || !is_address(number), "{number:#x}");
        }
    }
    let mut whole = Answer::default();
    sent.iter().for_each(|message| drop(whole.take(message)));
    let (events, functions) = whole.noise_events();
    assert_eq!(functions, [(1, "tick_nohz_handler".to_owned())]);
    let of = |kind: u8, edge: u8| -> Vec<(u64, u64)> {
        let is_it = |(event, _): &&Interruption| event.kind == kind && event.edge == edge;
        events.iter().filter(is_it).map(|(event, _)| (event.a, event.b)).collect()
    };
    assert_eq!(of(kind::HRTIMER, edge::BEGIN), [(1, 0); 2], "both addresses are in one function");
    assert_eq!(of(kind::NMI, edge::POINT), [(1, 400); 2]);
    assert_eq!(of(kind::SENT, edge::POINT), [(1, 1); 2]);
    assert_eq!(of(kind::SENT_MASK, edge::POINT), [(1, 3); 2]);
    assert_eq!(of(kind::FAULT, edge::POINT), [(1000, 5), (1004, 5)]);
    let (calls, queued) = (of(kind::CALL, edge::BEGIN), of(kind::QUEUED, edge::POINT));
    assert!(calls[0].1 != 0 && calls == queued, "a request is found by its number: {calls:?} {queued:?}");
    let known: Vec<u8> = (kind::VECTOR..=kind::MOVED).collect();
    assert!(events.iter().all(|(event, _)| known.contains(&event.kind)), "others may have addresses anywhere");
    assert_eq!(events.len(), 2 * 3 * known.len());
    assert!(events.iter().all(|(event, named)| named.map(|named| named.call) == event.is_named().then_some(9)));
}

/// The switches of a CPU are in no file that all users can read.
#[test]
fn counts_are_those_that_the_caller_can_read_or_its_own_threads() {
    struct Hidden(bool);
    impl Hidden {
        fn indexes(self) -> Vec<u32> {
            let mut counts = Vec::new();
            let mut noise = Noise::new(Box::new(Interrupts::default()), 4096);
            let world = Changing { may_read_counters: self.0, are_anothers: Arc::default() };
            let sent = noise.send_counts(&world, &mut |bytes, _| {
                counts.push(bytes.to_vec());
                Ok(())
            });
            assert!(sent.is_ok());
            let mut answer = Answer::default();
            counts.iter().for_each(|message| drop(answer.take(message)));
            let rows = answer.counts();
            assert!(rows.iter().all(|row| row.count == u64::from(row.index) + 1));
            rows.iter().filter(|row| row.cpu == 1).map(|row| row.index).collect()
        }
    }
    let all = Hidden(true).indexes();
    assert_eq!(all.len(), count::ALL - (count::IRQS - count::SWITCHES) + 5);
    assert!(!all.contains(&(count::SWITCHES as u32)));
    let own = [count::USER_FAULTS, count::KERNEL_FAULTS, count::SWITCHES_OUT].map(|index| index as u32);
    assert_eq!(Hidden(false).indexes(), own);
}

/// A ring that never gets empty does not make an answer endless, and only so many functions have numbers.
#[test]
fn an_answer_with_noise_events_ends() {
    struct Endless(u64);
    impl NoiseEvents for Endless {
        fn follow(&mut self, _pid: u32) -> Result<(), WatchError> {
            Ok(())
        }
        fn follow_threads(&mut self, _tids: &[u32]) -> Result<(), WatchError> {
            Ok(())
        }
        fn drain(&mut self) -> Result<Vec<Interruption>, WatchError> {
            unreachable!("it has no end")
        }
        fn lost(&self) -> u64 {
            0
        }
        fn without(&self) -> Vec<&'static str> {
            Vec::new()
        }
        fn counts(&mut self) -> Result<Counts, WatchError> {
            Ok(Vec::new())
        }
        fn function(&mut self, number: u64) -> Option<String> {
            Some(format!("function_{number}"))
        }
        fn end(&mut self) {}
    }
    impl Ring for Endless {
        fn take(&mut self, most: usize) -> Result<Vec<Interruption>, WatchError> {
            let event = |number| Event { a: number, kind: kind::WORK, ..Event::default() };
            let first = self.0;
            self.0 += most as u64;
            Ok((first..self.0).map(|number| (event(number), None)).collect())
        }
    }
    let mut noise = Noise::new(Box::new(Endless(1)), 1 << 20);
    let mut answer = Answer::default();
    let sent = noise.send_events(&mut |bytes, _| {
        assert_eq!(answer.take(bytes).unwrap(), Progress::More);
        Ok(())
    });
    assert!(sent.is_ok());
    let (events, functions) = answer.noise_events();
    assert_eq!((events.len(), functions.len()), ((1 << 20) / 40, 4096));
    assert_eq!(functions.last(), Some(&(4096, "function_4096".to_owned())));
    assert_eq!(events.last().map(|(event, _)| event.a), Some(0), "the last ones have no name");
}

#[test]
fn a_process_number_is_its_own_until_it_has_ended() {
    let mut children: [std::process::Child; 2] =
        std::array::from_fn(|_| std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap());
    let pids = [children[0].id(), children[1].id()];
    let mut dialogue = Dialogue::New;
    for request in [HELLO, Request::Doorbells] {
        assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
    }
    let refusal = |(progress, _): (Progress, Answer)| match progress {
        Progress::Refused(Why::NoTarget, why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(answer(&mut dialogue, &Request::Give(1))), "another user's");
    for (number, pid) in pids.iter().enumerate() {
        let (progress, given) = answer(&mut dialogue, &Request::Give(*pid));
        assert_eq!((progress, given.given()), (Progress::Whole, Some(number as u32)));
    }
    assert_eq!(refusal(answer(&mut dialogue, &Request::Give(pids[0]))), "too many");
    assert_eq!(answer(&mut dialogue, &Request::Over(0)).0, Progress::Whole);
    assert_eq!(refusal(answer(&mut dialogue, &Request::Gone(0))), "the process has not ended");
    drop(children[0].stdin.take());
    children[0].wait().unwrap();
    assert_eq!(answer(&mut dialogue, &Request::Gone(0)).0, Progress::Whole);
    assert!(refusal(answer(&mut dialogue, &Request::Give(pids[0]))).contains("no such process"));
    assert_eq!(answer(&mut dialogue, &Request::Give(pids[1])).1.given(), Some(0), "its number is free");
    assert_eq!(answer(&mut dialogue, &Request::Finish).0, Progress::Whole);
    assert!(ask(&mut dialogue, &Request::Give(pids[1]).encode()).is_err(), "it is over");
    drop(children[1].stdin.take());
    children[1].wait().unwrap();
    // Numbers that nobody was given are no question of cox's.
    for request in [Request::Over(1), Request::Gone(1), Request::Gone(u32::MAX), Request::Tick, Request::Process(2)] {
        let mut dialogue = Dialogue::New;
        for request in [HELLO, Request::Doorbells, Request::Give(std::process::id())] {
            assert_eq!(answer(&mut dialogue, &request).0, Progress::Whole, "{request:?}");
        }
        assert!(ask(&mut dialogue, &request.encode()).is_err(), "{request:?}");
    }
}

/// Bells that have another thing happen during the walk.
struct Meanwhile {
    bells: Rung,
    happens: Box<dyn FnMut() + std::marker::Send>,
    over: Arc<Mutex<Vec<u32>>>,
    gone: Arc<Mutex<Vec<u32>>>,
}

impl Doorbells for Meanwhile {
    fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        let given = self.bells.give(pid)?;
        (self.happens)();
        Ok(given)
    }

    fn prepare(&mut self) -> Result<(), WatchError> {
        Ok(())
    }

    fn over(&mut self, process: u32) {
        self.over.lock().unwrap().push(process);
    }

    fn gone(&mut self, process: u32) {
        self.gone.lock().unwrap().push(process);
    }

    fn end(&mut self) {}
}

/// A world in which the kernel's counters of interrupts can be read or not, and all processes become another user's at some time.
struct Changing {
    may_read_counters: bool,
    are_anothers: Arc<AtomicBool>,
}

impl World for Changing {
    fn observe(&mut self, wanted: &Wanted) -> Result<Box<dyn Source>, WatchError> {
        Pretended.observe(wanted)
    }

    fn keep_snapshots(&mut self, children: bool) -> Result<Box<dyn Table>, WatchError> {
        Pretended.keep_snapshots(children)
    }

    fn ring(&mut self) -> Result<Box<dyn Doorbells>, WatchError> {
        Pretended.ring()
    }

    fn interrupt(&mut self, wanted: &WantedNoise) -> Result<Box<dyn Ring>, WatchError> {
        Pretended.interrupt(wanted)
    }

    fn may_read_counters(&self) -> bool {
        self.may_read_counters
    }

    fn may_observe(&self, _pid: u32) -> Result<(), String> {
        if self.are_anothers.load(Ordering::Relaxed) { Err("another user's by now".into()) } else { Ok(()) }
    }

    fn hold(&self, pid: u32) -> Result<Pidfd, String> {
        self.may_observe(pid).and_then(|()| Pidfd::open(pid).map_err(crate::caller::not_opened))
    }
}

/// A process that has executed a program with more rights during the walk, or has ended, gets no pages, and nobody is counted by its number.
#[test]
fn a_process_is_asked_again_behind_the_walk() {
    for (ends, refusal) in
        [(None, None), (Some(false), Some("another user's by now")), (Some(true), Some("no such process"))]
    {
        let child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let child = Arc::new(Mutex::new(child));
        let end = move || {
            let mut child = child.lock().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
        };
        let (changed, over) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let gone = Arc::new(Mutex::new(Vec::new()));
        let (change, end_early) = (Arc::clone(&changed), end.clone());
        let happens = move || match ends {
            None => {}
            Some(false) => change.store(true, Ordering::Relaxed),
            Some(true) => end_early(),
        };
        let bells = Meanwhile {
            bells: Rung::default(),
            happens: Box::new(happens),
            over: Arc::clone(&over),
            gone: Arc::clone(&gone),
        };
        let mut ringing = Ringing::new(Box::new(bells));
        let mut descriptors = Vec::new();
        let world = Changing { may_read_counters: true, are_anothers: changed };
        let outcome = ringing.give(pid, &world, &mut |_, sent| {
            descriptors.push(sent.len());
            Ok(())
        });
        match (outcome, refusal) {
            (Ok(()), None) => {
                assert_eq!((descriptors, over.lock().unwrap().len()), (vec![2 + BELLS], 0));
                assert!(matches!(ringing.over(0), Ok(())));
            }
            (Err(Failure::Refused(WatchError::NoTarget { pid: of, why })), Some(refusal))
                if of == pid && why.contains(refusal) =>
            {
                assert_eq!(descriptors, [0; 0], "nobody gets its pages");
                assert_eq!(*over.lock().unwrap(), [0], "none of its standbys is rung");
                assert!(matches!(ringing.over(0), Err(Failure::Ended(_))), "cox does not know its number");
                let mut next = || {
                    let outcome = ringing.give(std::process::id(), &world, &mut |_, _| Ok(()));
                    assert!(!matches!(outcome, Err(Failure::Ended(_))), "{outcome:?}");
                };
                if ends == Some(false) {
                    next();
                    assert_eq!(*gone.lock().unwrap(), [0; 0], "its threads carry the number while it lives");
                }
                end();
                next();
                assert_eq!(*gone.lock().unwrap(), [0], "it has ended: its number is free");
            }
            (outcome, _) => panic!("{ends:?}: {outcome:?}"),
        }
    }
}

#[test]
fn questions_out_of_turn_end_it() {
    for request in [OBSERVE, Request::Process(2), Request::Tick, Request::Finish] {
        assert!(ask(&mut Dialogue::New, &request.encode()).is_err(), "{request:?}");
    }
    let mut dialogue = Dialogue::New;
    let other = Request::Hello { version: VERSION + 1, layout: LAYOUT };
    assert!(matches!(answer(&mut dialogue, &other).0, Progress::Refused(Why::Unavailable, _)));
    assert!(ask(&mut dialogue, &OBSERVE.encode()).is_err(), "it was not greeted");
    assert_eq!(answer(&mut dialogue, &HELLO).0, Progress::Whole);
    assert_eq!(answer(&mut dialogue, &OBSERVE).0, Progress::Whole);
    assert!(ask(&mut dialogue, &OBSERVE.encode()).is_err(), "one observation for each process");
}

/// Neither side panics, and neither keeps more than the messages hold.
#[test]
fn damaged_conversations_end_or_go_on() {
    let observation = vec![
        HELLO,
        OBSERVE,
        Request::Threads((0..MAX_THREADS as u32).collect()),
        Request::Tick,
        Request::Living,
        Request::Finish,
    ];
    let snapshots = vec![
        HELLO,
        Request::Snapshots { children: false },
        Request::Process(7),
        Request::Sample { mean_ns: 1_000_000, cpus: vec![0, 1, 2] },
        Request::Tick,
    ];
    let own = std::process::id();
    let bells = vec![
        HELLO,
        Request::Doorbells,
        Request::Give(own),
        Request::Give(own),
        Request::Over(1),
        Request::Gone(0),
        Request::Finish,
    ];
    let noise = vec![
        HELLO,
        NOISE,
        Request::Process(7),
        Request::Threads(vec![7, 8]),
        Request::Tick,
        Request::Counts,
        Request::Finish,
    ];
    let sessions = [observation, snapshots, bells, noise];
    let (times, seed) = (testkit::times(1_000_000), testkit::seed());
    let (mut messages, mut number, mut broken) = (0, seed, 0);
    while messages < times {
        let mut random = Random::new(number);
        number += 1;
        let mut dialogue = Dialogue::New;
        let session = &sessions[random.below(sessions.len())];
        let first_damaged = random.below(session.len());
        for (at, request) in session.iter().enumerate() {
            let mut message = request.encode();
            if at >= first_damaged {
                messages += 1;
                testkit::bytes::change(&mut message, &mut random);
            }
            let Ok(sent) = ask(&mut dialogue, &message) else {
                broken += 1;
                break;
            };
            let mut answer = Answer::default();
            for mut message in sent {
                messages += 1;
                testkit::bytes::change(&mut message, &mut random);
                if !matches!(answer.take(&message), Ok(Progress::More)) {
                    break;
                }
            }
            let _ = answer.into_record();
        }
    }
    assert!(broken > 1000, "{broken} conversations were broken off");
}
