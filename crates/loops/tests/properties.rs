//! What holds for every schedule, with random loops: each iteration is executed exactly once, in the order that is
//! promised, no size is below the smallest one but for the last, and all threads reach the end in any interleaving.
//!
//! Each schedule has 10^6 cases. Most loops are small, because mistakes show at ends and boundaries. Some are large, up
//! to 2^64 − 1 iterations and thousands of threads.

use std::ops::Range;

use loops::adaptive::team::Team;
use loops::blocks::Blocks;
use loops::steal::{Lane, Steal};
use loops::{Adaptive, Inputs, Kind, Pace, Plan, Schedule};
use random::Random;

const CASES: u64 = 1_000_000;

/// Bits of a random number, drawn a few at a time: the generator is compiled without optimisation in tests.
struct Bits(Random, u64, u32);

impl Bits {
    fn new(seed: u64) -> Bits {
        Bits(Random::new(seed), 0, 0)
    }

    fn bits(&mut self, count: u32) -> u64 {
        if self.2 < count {
            (self.1, self.2) = (self.0.number(), 64);
        }
        let bits = self.1 & ((1 << count) - 1);
        self.1 >>= count;
        self.2 -= count;
        bits
    }
}

/// A loop and its team.
#[derive(Clone, Copy, Debug)]
struct Case {
    trips: u64,
    threads: usize,
    minimum: u64,
    /// At most 32 iterations: every iteration is looked at.
    is_small: bool,
}

fn case(at: u64, bits: &mut Bits) -> Case {
    if at % 4096 == 1 {
        return Case { trips: bits.bits(13), threads: 1 + bits.bits(6) as usize, minimum: 1, is_small: false };
    }
    if !at.is_multiple_of(16384) {
        let minimum = if bits.bits(2) == 0 { 1 + bits.bits(3) } else { 1 };
        return Case { trips: bits.bits(5), threads: 1 + bits.bits(2) as usize, minimum, is_small: true };
    }
    // Up to 64 bits, and so many iterations per chunk that there are at most some thousand chunks.
    let trips = (bits.bits(32) << 32 | bits.bits(32)) >> bits.bits(6).min(63);
    let trips = if at.is_multiple_of(16384 * 5) { u64::MAX - bits.bits(2) } else { trips };
    let threads = (1 + bits.bits(12) as usize) >> bits.bits(4).min(12);
    Case { trips, threads: threads.max(1), minimum: trips / (500 + bits.bits(11)) + 1, is_small: false }
}

fn inputs(threads: usize, bits: &mut Bits) -> Inputs {
    let pick = |bits: &mut Bits| [1e-3, 1.0, 3.0, 1e6][bits.bits(2) as usize];
    let (mean_ns, deviation_ns, overhead_ns) = (Some(pick(bits)), Some(pick(bits) - 1e-3), Some(pick(bits)));
    let weights = Some((0..threads).map(|_| pick(bits)).collect());
    Inputs { mean_ns, deviation_ns, overhead_ns, weights }
}

fn schedule(kind: Kind, minimum: u64) -> Schedule {
    // `static` with a chunk is another plan.
    if kind == Kind::Static { Schedule::new(kind) } else { Schedule::new(kind).at_least(minimum) }
}

/// Checks a kind with all its cases. `check` gets the plan and returns what is wrong.
fn all_cases(kind: Kind, check: impl Fn(&Plan, Case, &mut Bits) -> Result<(), String>) {
    let mut bits = Bits::new(kind as u64);
    let needs_inputs = !Schedule::new(kind).needs().is_empty();
    let none = Inputs::default();
    for at in 0..CASES {
        let case = case(at, &mut bits);
        let inputs = if needs_inputs { &inputs(case.threads, &mut bits) } else { &none };
        let plan = schedule(kind, case.minimum).plan(case.trips, case.threads, inputs);
        let plan = plan.unwrap_or_else(|invalid| panic!("{kind:?} {case:?}: {invalid}"));
        if let Err(wrong) = check(&plan, case, &mut bits) {
            panic!("{kind:?} {case:?} {inputs:?}: {wrong}");
        }
    }
}

/// Checks chunks that are numbered by one counter: in order, without gaps, to the end. The counter gives each number to
/// one thread, so the interleaving of threads does not matter.
fn in_order(case: Case, start: u64, chunk: impl Fn(u64) -> Option<Range<u64>>) -> Result<(), String> {
    let mut at = start;
    let mut k = 0;
    while let Some(range) = chunk(k) {
        if range.start != at || range.end <= at || range.end > case.trips {
            return Err(format!("chunk {k} is {range:?} after {at}"));
        }
        if range.end - range.start < case.minimum && range.end < case.trips {
            return Err(format!("chunk {k} is too small: {range:?}"));
        }
        (at, k) = (range.end, k + 1);
    }
    let is_end = [k + 1, k + case.threads as u64, u64::MAX].iter().all(|k| chunk(*k).is_none());
    if at == case.trips && is_end { Ok(()) } else { Err(format!("the end is at {at}, chunk {k}")) }
}

fn numbered(plan: &Plan, case: Case, _: &mut Bits) -> Result<(), String> {
    match plan {
        Plan::Fixed(fixed) => in_order(case, 0, |k| fixed.chunk(k)),
        Plan::Table(table) => in_order(case, 0, |k| table.chunk(k)),
        plan => Err(format!("unexpected {plan:?}")),
    }
}

macro_rules! numbered {
    ($($name:ident $kind:ident)*) => { $(#[test] fn $name() { all_cases(Kind::$kind, numbered); })* };
}

numbered! {
    ss Ss fsc Fsc mfsc Mfsc gss Gss gss_llvm GssLlvm tss Tss tfss Tfss fac Fac fac2 Fac2 tap Tap fiss Fiss viss Viss
    rnd Rnd pls Pls profile Profile
}

#[test]
fn blocks() {
    all_cases(Kind::Static, |plan, case, _| {
        let Plan::Blocks(blocks) = plan else { return Err("no blocks".to_owned()) };
        blocks_to(case.threads, case.trips, |thread| blocks.of(thread))
    });
}

fn blocks_to(threads: usize, end: u64, block: impl Fn(usize) -> Range<u64>) -> Result<(), String> {
    let mut at = 0;
    for thread in 0..threads {
        let range = block(thread);
        if range.start != at || range.end < at {
            return Err(format!("block {thread} is {range:?} after {at}"));
        }
        at = range.end;
    }
    if at == end { Ok(()) } else { Err(format!("the end is at {at}")) }
}

#[test]
fn blocks_by_speed() {
    all_cases(Kind::StaticWeighted, |_, case, bits| {
        let speed = |bits: &mut Bits| [None, Some(1e-9), Some(1.0), Some(1e300)][bits.bits(2) as usize];
        let speeds: Vec<_> = (0..case.threads).map(|_| speed(bits)).collect();
        let blocks = Blocks::by_speeds(case.trips, case.minimum, &speeds);
        let whole =
            |block: Range<u64>| block.end == case.trips || (block.end - block.start).is_multiple_of(case.minimum);
        if !(0..case.threads).all(|thread| whole(blocks.of(thread))) {
            return Err(format!("{blocks:?}"));
        }
        blocks_to(case.threads, case.trips, |thread| blocks.of(thread))
    });
}

#[test]
fn weighted_blocks() {
    let mut bits = Bits::new(98);
    for at in 0..CASES / 10 {
        let case = case(at, &mut bits);
        let inputs = inputs(case.threads, &mut bits);
        let plan = Schedule::new(Kind::Static).plan(case.trips, case.threads, &inputs);
        let Ok(Plan::Blocks(blocks)) = plan else { panic!("{plan:?}") };
        blocks_to(case.threads, case.trips, |thread| blocks.of(thread))
            .unwrap_or_else(|wrong| panic!("{case:?}: {wrong}"));
    }
}

#[test]
fn cyclic() {
    let mut bits = Bits::new(99);
    for at in 0..CASES {
        let case = case(at, &mut bits);
        let plan =
            Schedule::new(Kind::Static).at_least(case.minimum).plan(case.trips, case.threads, &Inputs::default());
        let Ok(Plan::Cyclic(cyclic)) = plan else { panic!("{plan:?}") };
        let threads = case.threads as u64;
        in_order(case, 0, |k| cyclic.chunk((k % threads) as usize, k / threads))
            .unwrap_or_else(|wrong| panic!("{case:?}: {wrong}"));
    }
}

#[test]
fn hybrid() {
    all_cases(Kind::Hybrid, |plan, case, _| {
        let Plan::Hybrid(hybrid) = plan else { return Err("not hybrid".to_owned()) };
        let start = hybrid.block(case.threads - 1).end;
        blocks_to(case.threads, start, |thread| hybrid.block(thread))?;
        in_order(case, start, |k| hybrid.chunk(k))
    });
}

/// Values that a thread may have published, or that a torn or early read may give.
const PACES: [(f64, f64); 16] = [
    (0.0, f64::NAN),
    (1.0, 0.0),
    (2.0, 0.5),
    (1.0, 100.0),
    (1e-300, 1.0),
    (1e300, 1e300),
    (f64::NAN, 1.0),
    (f64::INFINITY, f64::INFINITY),
    (3.0, f64::NAN),
    (-1.0, -1.0),
    (5.0, 1e-9),
    (10.0, 9.0),
    (1e9, 1e18),
    (1.0, f64::INFINITY),
    (f64::MIN_POSITIVE, f64::MAX),
    (0.25, 0.01),
];

/// What threads publish: a window into [`PACES`] that moves.
struct Published(usize);

impl Team for Published {
    fn pace(&self, thread: usize) -> Pace {
        let (mean_ns, variance_ns2) = PACES[(self.0 + thread * 7) % PACES.len()];
        Pace { mean_ns, variance_ns2 }
    }

    fn running(&self, thread: usize) -> (u64, f64) {
        let (elapsed_ns, _) = PACES[(self.0 + thread * 3) % PACES.len()];
        ([0, 1, 5, u64::MAX][(self.0 + thread) % 4], elapsed_ns)
    }
}

/// Threads ask in a random order. Between a thread's request and its compare-and-swap, others may get chunks: then it
/// fails, and the thread computes a size again, with its old request and the new number of iterations given out.
fn interleaved(adaptive: &Adaptive, case: Case, bits: &mut Bits) -> Result<(), String> {
    let mut given_out = 0;
    let mut waiting = None;
    let mut requests = 0;
    loop {
        let coins = bits.bits(2);
        let request = if coins & 1 == 0 { waiting.take() } else { None };
        let request = request.unwrap_or_else(|| {
            let thread = if case.is_small { bits.bits(2) as usize } else { requests };
            requests += 1;
            adaptive.request(thread % case.threads, &Published(bits.bits(4) as usize))
        });
        if coins == 3 && waiting.is_none() && case.is_small {
            waiting = Some(request);
            continue;
        }
        let size = adaptive.size(&request, given_out);
        let remaining = case.trips - given_out;
        if size > remaining || size < case.minimum.min(remaining) {
            return Err(format!("size {size} after {given_out}"));
        }
        given_out += size;
        if size == 0 && waiting.is_none() {
            break;
        }
        if requests > 200_000 {
            return Err(format!("no end after {given_out}"));
        }
    }
    let late = adaptive.request(0, &Published(3));
    let is_end = given_out == case.trips && [case.trips, u64::MAX].iter().all(|at| adaptive.size(&late, *at) == 0);
    if is_end { Ok(()) } else { Err(format!("the end is at {given_out}")) }
}

fn adaptive(plan: &Plan, case: Case, bits: &mut Bits) -> Result<(), String> {
    match plan {
        Plan::Adaptive(adaptive) => interleaved(adaptive, case, bits),
        plan => Err(format!("unexpected {plan:?}")),
    }
}

macro_rules! adaptive {
    ($($name:ident $kind:ident)*) => { $(#[test] fn $name() { all_cases(Kind::$kind, adaptive); })* };
}

adaptive! { wf Wf awf Awf awf_b AwfB awf_c AwfC awf_d AwfD awf_e AwfE af Af maf Maf bold Bold }

/// Threads take and steal chunks in a random order. Each of them may have read a lane before others changed it.
#[test]
fn stealing() {
    all_cases(Kind::StaticSteal, |plan, case, bits| {
        let Plan::Steal(steal) = plan else { return Err("no stealing".to_owned()) };
        if case.is_small { steal_all(steal, case, bits) } else { lanes_are_the_loop(steal, case) }
    });
}

fn steal_all(steal: &Steal, case: Case, bits: &mut Bits) -> Result<(), String> {
    let mut words = [0; 4];
    for (thread, word) in words.iter_mut().enumerate().take(case.threads) {
        *word = steal.lane(thread).word();
    }
    let mut executed = 0u64;
    // A thief that has changed its victim's lane and not yet its own.
    let mut stolen: Option<(usize, Lane)> = None;
    let mut read = words;
    loop {
        let thread = bits.bits(2) as usize % case.threads;
        if let Some((thief, lane)) = stolen
            && (thief == thread || bits.bits(1) == 0)
        {
            words[thief] = lane.word();
            stolen = None;
            continue;
        }
        // A value that may be old.
        let old = if bits.bits(2) == 0 { read } else { words };
        read = words;
        if let Some((chunk, rest)) = Lane::from_word(old[thread]).take() {
            if words[thread] == old[thread] {
                words[thread] = rest.word();
                let iterations = steal.iterations(chunk).ok_or("no iterations")?;
                if iterations.end - iterations.start < case.minimum && iterations.end < case.trips {
                    return Err(format!("chunk {chunk} is too small"));
                }
                for iteration in iterations {
                    if executed & 1 << iteration != 0 {
                        return Err(format!("iteration {iteration} twice"));
                    }
                    executed |= 1 << iteration;
                }
            }
        } else if stolen.is_none() && Lane::from_word(words[thread]).is_empty() {
            for victim in steal.victims(thread) {
                if let Some((rest, lane)) = Lane::from_word(old[victim]).steal()
                    && words[victim] == old[victim]
                {
                    words[victim] = rest.word();
                    stolen = Some((thread, lane));
                    break;
                }
            }
            if stolen.is_none() && words.iter().all(|word| Lane::from_word(*word).is_empty()) {
                break;
            }
        }
    }
    if executed == (1 << case.trips) - 1 { Ok(()) } else { Err(format!("executed: {executed:b}")) }
}

fn lanes_are_the_loop(steal: &Steal, case: Case) -> Result<(), String> {
    let mut taken = Vec::new();
    for thread in 0..case.threads {
        let mut lane = steal.lane(thread);
        while let Some((chunk, rest)) = lane.take() {
            taken.extend(steal.iterations(chunk));
            lane = rest;
        }
    }
    in_order(case, 0, |k| usize::try_from(k).ok().and_then(|k| taken.get(k).cloned()))
}
