//! The pictures of chunks and the table of names in docs/loops.md are made from the schedules. `COX_MAKE_DOCS=1 cargo test -p loops --test pictures`
//! writes them.
//!
//! A small team executes a small loop in simulated time. The loop's iterations take equal times. The thread that is free first asks first; if several
//! are, the one with the lowest number does. A picture has a letter for each iteration: the thread that executes it, as a capital letter if it is the
//! first one of a chunk. With `×10` behind a schedule, the loop is ten times as long, and a letter stands for ten iterations: the thread that executes
//! the first of them, as a capital letter if a chunk begins in them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ops::Range;
use std::path::Path;

use loops::adaptive::team::Team;
use loops::blocks::Blocks;
use loops::history::{self, History};
use loops::steal::Lane;
use loops::{Finished, Inputs, Kind, Need, Pace, Plan, Schedule, Statistics, Timing};

/// Letters of a picture.
const LETTERS: usize = 96;
const THREADS: usize = 4;
/// What the inputs say, too, nanoseconds.
const ITERATION_NS: f64 = 1000.0;
const REQUEST_NS: f64 = 100.0;
/// The deviation that the inputs name, nanoseconds. Simulated iterations have none.
const DEVIATION_NS: f64 = 500.0;
/// Speeds of the threads in pictures of schedules that react to them.
const ONE_IS_SLOW: [f64; THREADS] = [1.0, 1.0, 1.0, 0.5];

/// A thread of the simulated team.
struct Member {
    speed: f64,
    free_ns: f64,
    has_ended: bool,
    chunks: u64,
    lane: Lane,
    statistics: Option<Statistics>,
    pace: Pace,
    running: Option<(Finished, f64)>,
}

struct Published<'a>(&'a [Member], f64);

impl Team for Published<'_> {
    fn pace(&self, thread: usize) -> Pace {
        self.0[thread].pace
    }

    fn running(&self, thread: usize) -> (u64, f64) {
        self.0[thread].running.map_or((0, 0.0), |(chunk, began_ns)| (chunk.iterations, self.1 - began_ns))
    }
}

/// Returns the thread's next chunk. `counter`: what the team shares.
fn request(plan: &Plan, team: &mut [Member], thread: usize, counter: &mut u64) -> Option<Range<u64>> {
    let mut count = || {
        *counter += 1;
        *counter - 1
    };
    let chunks = team[thread].chunks;
    match plan {
        Plan::Blocks(blocks) => Some(blocks.of(thread)).filter(|_| chunks == 0),
        Plan::Cyclic(cyclic) => cyclic.chunk(thread, chunks),
        Plan::Fixed(fixed) => fixed.chunk(count()),
        Plan::Table(table) => table.chunk(count()),
        Plan::Hybrid(hybrid) if chunks == 0 => Some(hybrid.block(thread)),
        Plan::Hybrid(hybrid) => hybrid.chunk(count()),
        Plan::Steal(steal) => {
            if team[thread].lane.is_empty() {
                let robbed = steal.victims(thread).find_map(|victim| Some((victim, team[victim].lane.steal()?)));
                let (victim, (rest, stolen)) = robbed?;
                (team[victim].lane, team[thread].lane) = (rest, stolen);
            }
            let (chunk, rest) = team[thread].lane.take()?;
            team[thread].lane = rest;
            steal.iterations(chunk)
        }
        Plan::Adaptive(adaptive) => {
            let request = adaptive.request(thread, &Published(team, team[thread].free_ns));
            let size = adaptive.size(&request, *counter);
            *counter += size;
            Some(*counter - size..*counter).filter(|chunk| !chunk.is_empty())
        }
    }
}

/// Executes an instance, and returns its chunks with their threads.
fn instance(plan: &Plan, speeds: [f64; THREADS], histories: &mut [History]) -> Vec<(Range<u64>, usize)> {
    let member = |(thread, speed)| Member {
        speed,
        free_ns: 0.0,
        has_ended: false,
        chunks: 0,
        lane: if let Plan::Steal(steal) = plan { steal.lane(thread) } else { Lane::default() },
        statistics: if let Plan::Adaptive(it) = plan { Some(it.statistics(Timing::Wall)) } else { None },
        pace: Pace::default(),
        running: None,
    };
    let mut team: Vec<Member> = speeds.into_iter().enumerate().map(member).collect();
    let (mut counter, mut chunks) = (0, Vec::new());
    let next = |team: &[Member]| {
        let asking = (0..team.len()).filter(|thread| !team[*thread].has_ended);
        asking.min_by(|one, other| team[*one].free_ns.total_cmp(&team[*other].free_ns))
    };
    while let Some(thread) = next(&team) {
        let member = &mut team[thread];
        if let (Some((chunk, _)), Some(statistics)) = (member.running.take(), &mut member.statistics) {
            member.pace = statistics.finish(&chunk);
        }
        let Some(chunk) = request(plan, &mut team, thread, &mut counter) else {
            team[thread].has_ended = true;
            continue;
        };
        let member = &mut team[thread];
        let iterations = chunk.end - chunk.start;
        let wall_ns = iterations as f64 * ITERATION_NS / member.speed;
        let finished = Finished { iterations, wall_ns, cpu_ns: wall_ns, dispatch_ns: REQUEST_NS };
        histories[thread].add(&finished);
        member.running = Some((finished, member.free_ns + REQUEST_NS));
        member.free_ns += REQUEST_NS + wall_ns;
        member.chunks += 1;
        chunks.push((chunk, thread));
    }
    histories.iter_mut().for_each(History::end_instance);
    chunks
}

/// Returns whether a picture shows a slow thread: the schedule reacts to it with the sizes of chunks, or with another thread's chunks.
fn has_slow_thread(kind: Kind) -> bool {
    let schedule = Schedule::new(kind);
    kind == Kind::StaticSteal || kind == Kind::Wf || schedule.is_timed() && kind != Kind::Profile
}

/// Returns the picture of a schedule. Of `awf` and `static_weighted`, it is the second instance.
fn picture(text: &str) -> String {
    let (text, each) = text.strip_suffix("×10").map_or((text, 1), |text| (text, 10));
    let trips = LETTERS * each;
    let schedule: Schedule = text.parse().unwrap();
    let speeds = if has_slow_thread(schedule.kind) { ONE_IS_SLOW } else { [1.0; THREADS] };
    let weights = schedule.needs().contains(&Need::Weights).then(|| speeds.to_vec());
    let inputs = Inputs {
        mean_ns: Some(ITERATION_NS),
        deviation_ns: Some(DEVIATION_NS),
        overhead_ns: Some(REQUEST_NS),
        weights,
    };
    let mut plan = schedule.plan(trips as u64, THREADS, &inputs).unwrap();
    let mut histories = vec![History::new(Timing::Wall); THREADS];
    let mut chunks = instance(&plan, speeds, &mut histories);
    match &mut plan {
        Plan::Adaptive(adaptive) if schedule.kind == Kind::Awf => {
            adaptive.set_weights(&history::weights(&histories)).unwrap();
            chunks = instance(&plan, speeds, &mut histories);
        }
        Plan::Blocks(blocks) if schedule.kind == Kind::StaticWeighted => {
            let speeds_so_far: Vec<_> = histories.iter().map(History::speed).collect();
            *blocks = Blocks::by_speeds(trips as u64, 1, &speeds_so_far);
            chunks = instance(&plan, speeds, &mut histories);
        }
        _ => {}
    }
    // The thread of each iteration, and whether it begins a chunk.
    let mut executed = vec![None; trips];
    for (chunk, thread) in &chunks {
        for at in chunk.clone() {
            let before = executed[at as usize].replace((*thread, at == chunk.start));
            assert_eq!(before, None, "{text}: {at} is executed twice");
        }
    }
    let executed: Vec<(usize, bool)> = executed.into_iter().map(|one| one.expect("is executed")).collect();
    let letter = |iterations: &[(usize, bool)]| {
        let capital = char::from(b'A' + iterations[0].0 as u8);
        let begins = iterations.iter().any(|(_, begins)| *begins);
        if begins { capital } else { capital.to_ascii_lowercase() }
    };
    executed.chunks(each).map(letter).collect()
}

/// Returns the lines of several pictures.
fn pictures(schedules: &str) -> String {
    let line = |schedule: &str| format!("{schedule:<16}{}\n", picture(schedule));
    format!("```\n{}```\n", schedules.split_whitespace().map(line).collect::<String>())
}

/// Returns the table of names, parameters, inputs and sources.
fn names() -> String {
    let code = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let input = |need: &Need| match need {
        Need::Mean => "mean_ns",
        Need::Deviation => "deviation_ns",
        Need::Overhead => "overhead_ns",
        Need::Weights => "weights",
    };
    let row = |kind: Kind| {
        let needs: Vec<&str> = Schedule::new(kind).needs().iter().map(input).collect();
        let cells = [code(&[kind.name()]), code(kind.aliases()), code(kind.parameters()), code(&needs)];
        format!("| {} | {} |\n", cells.join(" | "), kind.source())
    };
    let heading = "| schedule | other names | parameters | needs | source |\n|---|---|---|---|---|\n";
    heading.to_owned() + &Kind::all().map(row).collect::<String>()
}

#[test]
fn pictures_and_names_are_made_from_the_schedules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/loops.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- schedules: ", "<!-- end -->\n");
    let mut parts = page.split(begin);
    let mut by_hand = parts.next().unwrap().to_owned();
    let mut new = by_hand.clone();
    let mut shown: Vec<Kind> = Vec::new();
    for part in parts {
        let (of, rest) = part.split_once(" -->\n").expect("a block says what it shows");
        let (_, after) = rest.split_once(end).expect("a block has an end");
        let made = if of == "names" {
            names()
        } else {
            shown.extend(
                of.split_whitespace().map(|text| text.trim_end_matches("×10").parse::<Schedule>().unwrap().kind),
            );
            pictures(of)
        };
        new += &format!("{begin}{of} -->\n{made}{end}{after}");
        by_hand += after;
    }
    let rows: Vec<&str> = by_hand.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    for kind in Kind::all() {
        assert!(shown.contains(&kind), "there is no picture of {}", kind.name());
        let name = format!("`{}`", kind.name());
        assert!(rows.iter().any(|first| first.split(", ").any(|one| one == name)), "no table says when to use {name}");
    }
    if std::env::var_os("COX_MAKE_DOCS").is_some() {
        std::fs::write(&path, &new).unwrap();
    }
    let now = std::fs::read_to_string(&path).unwrap();
    assert!(now == new, "docs/loops.md is not what the schedules do: set COX_MAKE_DOCS=1 and run this test again");
}

/// Known chunks, so that a mistake of the simulated team is seen, too.
#[test]
fn pictures_show_what_is_known() {
    // The picture of chunks that threads A, B, C, D, A, … get in turn.
    let in_turn = |sizes: &[usize]| {
        let chunk = |(at, size): (usize, &usize)| {
            let capital = char::from(b'A' + (at % THREADS) as u8);
            format!("{capital}{}", capital.to_ascii_lowercase().to_string().repeat(size - 1))
        };
        sizes.iter().enumerate().map(chunk).collect::<String>()
    };
    assert_eq!(picture("static"), in_turn(&[24; 4]));
    assert_eq!(picture("static,8"), in_turn(&[8; 12]));
    assert_eq!(picture("ss"), in_turn(&[1; 96]));
    let fac2 = [[12; 4], [6; 4], [3; 4], [2; 4], [1; 4]].concat();
    assert_eq!(picture("fac2"), in_turn(&fac2));
    // ⌈96/4⌉, ⌈72/4⌉, ⌈54/4⌉, ⌈40/4⌉.
    assert!(picture("gss").starts_with(&in_turn(&[24, 18, 14, 10])));
    // Half the speed has half the weight.
    assert!(picture("wf").starts_with(&in_turn(&[14, 14, 14, 7])), "{}", picture("wf"));
    assert_eq!(
        picture("static_weighted"),
        "A".to_owned() + &"a".repeat(26) + "B" + &"b".repeat(27) + "C" + &"c".repeat(26) + "D" + &"d".repeat(13)
    );
    // Two faster threads execute the end of the slow thread's block.
    let slow_block = picture("static_steal,4").split_off(72);
    assert!(slow_block.starts_with("DdddDddd") && slow_block.ends_with("BbbbAaaa"), "{slow_block}");
}
