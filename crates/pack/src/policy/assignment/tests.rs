//! Who is where.

use super::*;

const PERIOD_NS: u64 = 500_000;
const MOVE_NS: u64 = 20_000;

/// Threads that do what a test says.
struct World {
    observations: Vec<Observation>,
}

impl Sense for World {
    fn observation(&self, member: Member) -> Observation {
        self.observations[member]
    }
}

impl World {
    /// A thread has run on a slot's CPU, and is in its queue now; it spins or works.
    fn ran(&mut self, member: Member, slot: Slot, ns: u64, spins: bool) {
        let observation = &mut self.observations[member];
        observation.run_ns += ns;
        observation.at = Some(slot);
        observation.spins = spins;
    }

    fn worked(&mut self, member: Member, slot: Slot, ns: u64) {
        self.ran(member, slot, ns, false);
    }

    fn spun(&mut self, member: Member, slot: Slot, ns: u64) {
        self.ran(member, slot, ns, true);
    }

    fn does(&mut self, member: Member, doing: Doing) {
        self.observations[member].doing = doing;
    }
}

fn queued() -> Observation {
    Observation::default()
}

/// So many threads on slots of these capacities, rotation begun at 0.
fn pack_of(capacities: &[u64], threads: usize) -> (Assignment, World, Vec<Order>) {
    let world = World { observations: vec![queued(); threads] };
    let rules = Rules { period_ns: PERIOD_NS, move_ns: MOVE_NS, stop_ns: 0 };
    let mut assignment = Assignment::new(rules, capacities.to_vec());
    for observation in &world.observations {
        assignment.join(observation);
    }
    let mut orders = Vec::new();
    assignment.begin(0, &world, &mut orders);
    (assignment, world, orders)
}

/// Three threads on two equal CPUs: 0 and 1 on the first, 2 on the second.
fn three_on_two() -> (Assignment, World) {
    let (assignment, world, _) = pack_of(&[FULL_CAPACITY; 2], 3);
    assert_eq!(assignment.slots, [vec![0, 1], vec![2]]);
    (assignment, world)
}

fn end_period(assignment: &mut Assignment, slot: Slot, now_ns: u64, world: &World) -> Vec<Order> {
    let mut orders = Vec::new();
    assignment.end_period(slot, now_ns, world, &mut orders);
    orders
}

fn moved(member: Member, slot: Slot, why: Why) -> Order {
    Order { member, to: Some((slot, why)) }
}

fn moves(orders: &[Order]) -> Vec<(Member, Option<Slot>)> {
    orders.iter().map(|order| (order.member, order.place())).collect()
}

#[test]
fn equal_progress_needs_few_moves() {
    assert_eq!([(16, 15), (3, 2), (4, 2), (1, 2)].map(|(n, c)| moves_per_slice(n, c)), [4, 2, 0, 0]);
}

#[test]
fn threads_begin_spread_by_capacity() {
    let (_, _, orders) = pack_of(&[1024, 512, 512], 8);
    let start = |member, slot| moved(member, slot, Why::Start);
    assert_eq!(orders, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2), (7, 2)].map(|(m, s)| start(m, s)));
}

#[test]
fn the_least_served_gets_a_cpu_to_itself() {
    let (mut assignment, mut world) = three_on_two();
    world.worked(0, 0, 100_000);
    world.worked(1, 0, 400_000);
    world.worked(2, 1, PERIOD_NS);
    // 0 stays, alone: that is one move, and as good as its coming here.
    let why = Why::Behind(400_000);
    assert_eq!(end_period(&mut assignment, 1, PERIOD_NS, &world), [moved(1, 1, why)]);
    assert_eq!(end_period(&mut assignment, 1, PERIOD_NS + 1, &world), [], "nobody has run meanwhile");
}

#[test]
fn of_equally_served_threads_nobody_moves() {
    let (mut assignment, mut world) = three_on_two();
    for (member, slot) in [(0, 0), (1, 0), (2, 1)] {
        world.worked(member, slot, PERIOD_NS);
    }
    for slot in 0..2 {
        assert_eq!(end_period(&mut assignment, slot, PERIOD_NS, &world), [], "slot {slot}");
    }
}

/// What the kernel does with a CPU: everybody gets the same.
fn run_a_period(assignment: &Assignment, world: &mut World, spinning: &[Member]) {
    for (slot, members) in assignment.slots.iter().enumerate() {
        let runnable: Vec<Member> =
            members.iter().copied().filter(|&member| world.observations[member].doing == Doing::Queued).collect();
        for &member in &runnable {
            world.ran(member, slot, PERIOD_NS / runnable.len() as u64, spinning.contains(&member));
        }
    }
}

#[test]
fn progress_stays_equal_in_the_long_run() {
    for (capacities, threads) in
        [(vec![1024; 2], 3), (vec![1024; 2], 5), (vec![1024; 3], 4), (vec![1024, 600], 2), (vec![1024, 1024, 400], 7)]
    {
        let (mut assignment, mut world, _) = pack_of(&capacities, threads);
        for round in 1..=1000u64 {
            run_a_period(&assignment, &mut world, &[]);
            for slot in 0..capacities.len() {
                end_period(&mut assignment, slot, round * PERIOD_NS, &world);
            }
            let progress = || assignment.threads.iter().map(|thread| thread.progress_ns);
            let apart = progress().max().unwrap() - progress().min().unwrap();
            assert!(apart <= 3 * PERIOD_NS, "{capacities:?} {threads}: {apart} apart in round {round}");
        }
    }
}

#[test]
fn who_spins_makes_room_for_who_works() {
    let (mut assignment, mut world) = three_on_two();
    world.worked(0, 0, 100_000);
    world.worked(1, 0, 100_000);
    world.spun(2, 1, PERIOD_NS);
    let orders = end_period(&mut assignment, 1, PERIOD_NS, &world);
    assert_eq!(orders, [moved(0, 1, Why::Spins)]);
    // Half of its stretch was work, as far as anybody knows.
    assert_eq!(assignment.threads[2].progress_ns, PERIOD_NS / 2);
    assert!(assignment.threads[2].spins);
}

#[test]
fn a_spinner_is_lifted_to_the_furthest_worker() {
    let (mut assignment, mut world) = three_on_two();
    world.worked(2, 1, 10 * PERIOD_NS);
    world.spun(0, 0, 1000);
    end_period(&mut assignment, 1, 1, &world);
    end_period(&mut assignment, 0, 2, &world);
    assert_eq!(assignment.threads[0].progress_ns, 10 * PERIOD_NS);
}

#[test]
fn when_one_is_let_go_the_others_count_as_working_again() {
    let (mut assignment, mut world, _) = pack_of(&[FULL_CAPACITY; 2], 4);
    for member in [0, 1, 2] {
        world.spun(member, usize::from(member == 2), 1000);
    }
    world.worked(3, 1, PERIOD_NS);
    for slot in 0..2 {
        end_period(&mut assignment, slot, 1, &world);
    }
    assert_eq!(assignment.threads.iter().map(|thread| thread.spins).collect::<Vec<_>>(), [true, true, true, false]);
    world.worked(3, 1, PERIOD_NS);
    // Whoever it is that runs first after the meeting.
    let slot = assignment.threads[1].slot().unwrap();
    world.worked(1, slot, 1000);
    end_period(&mut assignment, slot, 2, &world);
    assert!(assignment.threads.iter().all(|thread| !thread.spins));
    for waited in [0, 2] {
        assert_eq!(assignment.threads[waited].progress_ns, assignment.threads[3].progress_ns, "{waited} had arrived");
    }
    assert_eq!(assignment.threads[1].progress_ns, assignment.threads[3].progress_ns + 500);
}

#[test]
fn half_of_a_stretch_that_ends_otherwise_than_it_began_was_work() {
    let (mut assignment, mut world) = three_on_two();
    for spins in [false, true, true, false] {
        world.ran(0, 0, 1000, spins);
        let observation = world.observation(0);
        assignment.look(0, 0, &observation, 0);
    }
    let seen = std::mem::take(assignment.seen());
    assert_eq!((seen.stretches_ns, seen.spun_ns), (4000, 500 + 1000 + 500));
    assert_eq!(std::mem::take(assignment.seen()), Seen::default(), "asked once");
}

#[test]
fn progress_is_scaled_by_capacity() {
    let (mut assignment, mut world, _) = pack_of(&[1024, 512], 3);
    assert_eq!(assignment.slots, [vec![0, 1], vec![2]]);
    world.worked(2, 1, 1000);
    end_period(&mut assignment, 1, 1, &world);
    assert_eq!(assignment.threads[2].progress_ns, 500);
}

#[test]
fn a_slow_cpu_is_everybodys_in_turn() {
    let (mut assignment, mut world, _) = pack_of(&[1024, 600], 2);
    world.worked(0, 0, PERIOD_NS);
    world.worked(1, 1, PERIOD_NS);
    assert_eq!(moves(&end_period(&mut assignment, 0, 1, &world)), [(0, Some(1)), (1, Some(0))]);
}

#[test]
fn who_sleeps_leaves_its_cpu_to_others() {
    let (mut assignment, mut world) = three_on_two();
    world.does(2, Doing::Blocked);
    let orders = end_period(&mut assignment, 1, 1, &world);
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].place(), Some(1));
    assert!(matches!(orders[0].to, Some((_, Why::SlotFree))));
    for member in [0, 1] {
        world.does(member, Doing::Ended);
    }
    assert_eq!(end_period(&mut assignment, 0, 2, &world), [], "nobody can run");
}

#[test]
fn who_yields_counts_as_working() {
    let (mut assignment, mut world) = three_on_two();
    world.observations[2].yields = true;
    world.spun(2, 1, 3000);
    end_period(&mut assignment, 1, 1, &world);
    assert!(!assignment.threads[2].spins);
    assert_eq!(assignment.threads[2].progress_ns, 3000, "what it has had counts");
}

/// A thread that is moved before its own CPU's tick would never be seen to run.
#[test]
fn the_other_slots_threads_are_looked_at_too() {
    let (mut assignment, mut world) = three_on_two();
    world.worked(0, 0, 3000);
    world.spun(1, 0, 1000);
    world.does(1, Doing::Runs);
    end_period(&mut assignment, 1, 1, &world);
    assert_eq!(assignment.threads[0].progress_ns, 3000);
    assert!(assignment.threads[1].spins, "so it did when it was seen last");
}

#[test]
fn the_partner_is_where_the_least_served_could_be_served_better() {
    let (mut assignment, mut world, _) = pack_of(&[1024, 1024, 512], 5);
    assert_eq!(assignment.slots, [vec![0, 1], vec![2, 3], vec![4]]);
    for (member, slot, ns) in [(0, 0, 9000), (1, 0, 9000), (2, 1, 5000), (3, 1, 6000), (4, 2, 8000)] {
        world.worked(member, slot, ns);
        let observation = world.observation(member);
        assignment.look(member, slot, &observation, observation.out_ns);
    }
    assert_eq!(assignment.partner(0), Some(2), "the slow CPU has come half as far");
    assert_eq!(assignment.partner(2), Some(1));
    assignment.leave(2);
    assert_eq!(assignment.partner(2), Some(0), "3 is alone now: it could not be served better");
    assignment.leave(1);
    assert_eq!(assignment.partner(2), None);
}

#[test]
fn who_joins_begins_with_the_least_progress() {
    let (mut assignment, mut world) = three_on_two();
    for (member, slot, ns) in [(0, 0, 700), (1, 0, 500), (2, 1, 900)] {
        world.worked(member, slot, ns);
        let observation = world.observation(member);
        assignment.look(member, slot, &observation, observation.out_ns);
    }
    let run_ns = 10_000;
    let member = assignment.join(&Observation { run_ns, ..queued() });
    assert_eq!((member, assignment.threads[3].progress_ns, assignment.threads[3].run_ns), (3, 500, run_ns));
    // Who has ended counts no more.
    assignment.leave(1);
    assignment.leave(3);
    assignment.join(&queued());
    assert_eq!(assignment.threads[4].progress_ns, 700);
    assert_eq!(assignment.members().collect::<Vec<_>>(), [0, 2, 4]);
}

#[test]
fn what_ran_before_rotation_is_nobodys_progress() {
    let mut world = World { observations: vec![queued(); 3] };
    let mut assignment = Assignment::new(Rules::default(), vec![FULL_CAPACITY]);
    for observation in &world.observations {
        assignment.join(observation);
    }
    world.worked(0, 0, 100 * PERIOD_NS);
    assignment.begin(0, &world, &mut Vec::new());
    world.worked(0, 0, 10);
    end_period(&mut assignment, 0, 1, &world);
    assert_eq!(assignment.threads[0].progress_ns, 10);
}

#[test]
fn at_the_end_threads_are_spread_evenly_and_left_to_the_kernel() {
    let (mut assignment, mut world, _) = pack_of(&[FULL_CAPACITY; 2], 4);
    for member in 0..3 {
        world.spun(member, usize::from(member == 2), 1000);
    }
    for slot in 0..2 {
        end_period(&mut assignment, slot, 1, &world);
    }
    assert_eq!(assignment.slots.iter().map(Vec::len).max(), Some(3), "spinners are together");
    let mut orders = Vec::new();
    assignment.end(2, &mut orders);
    let (places, freed) = orders.split_at(1);
    assert!(matches!(places[0].to, Some((_, Why::End))));
    assert_eq!(freed, [0, 1, 2, 3].map(|member| Order { member, to: None }));
    orders.clear();
    assignment.end(3, &mut orders);
    assert_eq!(orders, [], "once");
}

#[test]
fn a_newcomer_goes_where_it_gets_most() {
    let (mut assignment, _, _) = pack_of(&[1024, 600], 2);
    let mut orders = Vec::new();
    for slot in [0, 0, 1] {
        let member = assignment.join(&queued());
        assignment.admit(member, 5, &mut orders);
        assert_eq!(orders.pop(), Some(moved(member, slot, Why::Joined)), "{member}");
    }
}

#[test]
fn exchanges_and_moves_are_counted() {
    let (mut assignment, mut world, _) = pack_of(&[1024, 600], 2);
    world.worked(0, 0, PERIOD_NS);
    end_period(&mut assignment, 0, 1, &world);
    let seen = std::mem::take(assignment.seen());
    assert_eq!((seen.exchanges, seen.moves), (1, 2));
    end_period(&mut assignment, 0, 2, &world);
    assert_eq!(std::mem::take(assignment.seen()).exchanges, 0);
}

/// Out before the meeting was seen: what it was doing then says nothing about now.
#[test]
fn who_was_seen_waiting_before_the_others_were_let_go_waits_no_more() {
    let (mut assignment, mut world) = three_on_two();
    world.spun(2, 1, 1000);
    end_period(&mut assignment, 1, 1, &world);
    world.ran(0, 0, 700, true);
    world.worked(2, 1, 1000);
    (world.observations[0].out_ns, world.observations[2].out_ns) = (50, 100);
    end_period(&mut assignment, 1, 104, &world);
    assert!(!assignment.threads[2].spins && !assignment.threads[0].spins);
    world.ran(0, 0, 700, true);
    world.observations[0].out_ns = 99;
    end_period(&mut assignment, 0, 110, &world);
    assert!(!assignment.threads[0].spins, "that was before");
    world.ran(0, 0, 700, true);
    world.observations[0].out_ns = 102;
    end_period(&mut assignment, 0, 120, &world);
    assert!(assignment.threads[0].spins, "it has arrived again, before the others were looked at");
}

/// One phase of 12 ms after the other: a thread waits, and goes on at the next meeting.
fn after_phases(waits: impl Fn(&mut Observation, bool)) -> Assignment {
    const PHASE_NS: u64 = 12_000_000;
    let (mut assignment, mut world) = three_on_two();
    for phase in 1..=6 {
        for (at_ns, is_waiting) in [(phase * PHASE_NS - 1_000_000, true), (phase * PHASE_NS, false)] {
            let slot = assignment.threads[2].slot().unwrap();
            world.worked(2, slot, 1000);
            world.observations[2].out_ns = at_ns;
            waits(&mut world.observations[2], is_waiting);
            end_period(&mut assignment, slot, at_ns, &world);
        }
    }
    assignment
}

#[test]
fn whoever_goes_on_after_waiting_begins_a_phase() {
    let yields = |observation: &mut Observation, waits| (observation.spins, observation.yields) = (waits, waits);
    let sleeps = |observation: &mut Observation, waits| {
        observation.doing = if waits { Doing::Blocked } else { Doing::Queued };
        observation.blocks += u32::from(waits);
    };
    // A place with another on one of two CPUs, for three threads in turn.
    assert_eq!(after_phases(|observation, waits| observation.spins = waits).calm_ns(72_000_000), 2_400_000);
    assert_eq!(after_phases(yields).calm_ns(72_000_000), 2_400_000);
    assert_eq!(after_phases(sleeps).calm_ns(72_000_000), 2_400_000);
    assert_eq!(after_phases(|_, _| {}).calm_ns(72_000_000), 0, "nobody waits");
}

#[test]
fn a_long_period_counts_as_many_samples() {
    let (mut assignment, mut world) = three_on_two();
    world.spun(2, 1, 1000);
    world.observations[2].out_ns = 8 * PERIOD_NS;
    end_period(&mut assignment, 1, 8 * PERIOD_NS, &world);
    world.observations[2].out_ns = 9 * PERIOD_NS;
    end_period(&mut assignment, 1, 9 * PERIOD_NS, &world);
    let seen = std::mem::take(assignment.seen());
    assert_eq!((seen.samples, seen.spinning), (9, 9));
}

/// What was seen before a rest is another time.
#[test]
fn rotation_begins_without_memories() {
    let mut assignment = after_phases(|observation, waits| observation.spins = waits);
    let mut orders = Vec::new();
    assignment.end(80_000_000, &mut orders);
    let mut world = World { observations: vec![Observation { blocks: 7, ..queued() }; 3] };
    assignment.begin(2_000_000_000, &world, &mut orders);
    assert_eq!(assignment.calm_ns(2_000_000_000), 0);
    for phase in 0..2 {
        let slot = assignment.threads[1].slot().unwrap();
        world.observations[1].run_ns += 50_000_000;
        end_period(&mut assignment, slot, 2_000_000_000 + phase * 12_000_000, &world);
    }
    assert_eq!(assignment.phases, Phases::default(), "blocks of the rest begin no phase");
}
