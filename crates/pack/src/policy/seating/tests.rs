//! Who sits where.

use super::*;

const TURN_NS: u64 = 500_000;
const MOVE_NS: u64 = 20_000;

/// Threads that do what a test says.
struct World {
    glances: Vec<Glance>,
}

impl Sense for World {
    fn glance(&self, member: Member) -> Glance {
        self.glances[member]
    }
}

impl World {
    /// A thread has run on a seat's CPU, and is in its queue now; it spins or works.
    fn ran(&mut self, member: Member, seat: Seat, ns: u64, spins: bool) {
        let glance = &mut self.glances[member];
        glance.run_ns += ns;
        glance.at = Some(seat);
        glance.spins = spins;
    }

    fn worked(&mut self, member: Member, seat: Seat, ns: u64) {
        self.ran(member, seat, ns, false);
    }

    fn spun(&mut self, member: Member, seat: Seat, ns: u64) {
        self.ran(member, seat, ns, true);
    }

    fn does(&mut self, member: Member, doing: Doing) {
        self.glances[member].doing = doing;
    }
}

fn queued() -> Glance {
    Glance { run_ns: 0, blocks: 0, doing: Doing::Queued, spins: false, at: None, out_ns: 0, phases: None }
}

fn rules() -> Rules {
    Rules { turn_ns: TURN_NS, move_ns: MOVE_NS, ..Rules::default() }
}

/// So many threads on seats of these capacities, rotation begun at 0.
fn pack_of(rules: Rules, capacities: &[u64], threads: usize) -> (Seating, World, Vec<Order>) {
    let world = World { glances: vec![queued(); threads] };
    let mut seating = Seating::new(rules, capacities.to_vec());
    for glance in &world.glances {
        seating.join(glance);
    }
    let mut orders = Vec::new();
    seating.begin(0, &world, &mut orders);
    (seating, world, orders)
}

/// Threads 0 and 1 sit on seats 0 and 1 of two equal CPUs; 2, 3 and so on wait behind the seats named, since
/// the time of their number.
fn two_seats(rules: Rules, behind: &[Seat]) -> (Seating, World) {
    let mut seating = Seating::new(rules, vec![FULL_CAPACITY; 2]);
    let world = World { glances: vec![queued(); 2 + behind.len()] };
    for glance in &world.glances {
        seating.join(glance);
    }
    let mut orders = Vec::new();
    for seat in 0..2 {
        seating.sit(seat, seat, Why::Start, &mut orders);
    }
    for (place, &seat) in behind.iter().enumerate() {
        let member = 2 + place;
        seating.wait(member, seat, member as u64, &mut orders);
    }
    (seating, world)
}

fn turn(seating: &mut Seating, seat: Seat, now_ns: u64, world: &World) -> Vec<Order> {
    let mut orders = Vec::new();
    seating.turn(seat, now_ns, world, &mut orders);
    orders
}

/// Gives threads progress as though each had worked for so long while it waited, on the seat's CPU.
fn serve(seating: &mut Seating, world: &mut World, seat: Seat, served: &[(Member, u64)]) {
    for &(member, ns) in served {
        world.worked(member, seat, ns);
        let glance = world.glance(member);
        seating.look(member, seat, &glance);
    }
}

#[test]
fn the_least_served_takes_the_seat() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0, 0]);
    serve(&mut seating, &mut world, 0, &[(2, 300), (3, 100), (4, 200)]);
    world.worked(0, 0, TURN_NS);
    let orders = turn(&mut seating, 0, TURN_NS, &world);
    let behind = Why::Behind(TURN_NS - 100);
    assert_eq!(orders, [Order::Sit { member: 3, seat: 0, why: behind }, Order::Wait { member: 0, behind: 0 }]);
    assert_eq!(seating.sitting(0), Some(3));
}

#[test]
fn who_is_less_served_than_all_that_wait_stays() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0]);
    serve(&mut seating, &mut world, 0, &[(2, TURN_NS), (3, 2 * TURN_NS)]);
    world.worked(0, 0, TURN_NS - 1);
    assert_eq!(turn(&mut seating, 0, TURN_NS, &world), []);
    assert_eq!(seating.sitting(0), Some(0));
}

#[test]
fn the_margin_is_a_part_of_the_turn() {
    let (mut seating, mut world) = two_seats(Rules { margin_percent: 50, ..rules() }, &[0]);
    world.worked(0, 0, TURN_NS / 2);
    assert_eq!(turn(&mut seating, 0, 1, &world), []);
    world.worked(0, 0, 1);
    assert_eq!(turn(&mut seating, 0, 2, &world).len(), 2);
}

#[test]
fn ties_go_to_who_has_waited_longest() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0, 0]);
    let mut orders = Vec::new();
    // Whoever has the lowest number has come last.
    for (member, since_ns) in [(2, 30), (3, 20), (4, 10)] {
        seating.wait(member, 0, since_ns, &mut orders);
    }
    let mut order = Vec::new();
    for round in 1..=5 {
        let sitting = seating.sitting(0).unwrap();
        world.worked(sitting, 0, TURN_NS);
        turn(&mut seating, 0, 100 * round, &world);
        order.push(seating.sitting(0).unwrap());
    }
    // All equal after three turns: 2 stays until it is ahead.
    assert_eq!(order, [4, 3, 2, 2, 0]);
}

#[test]
fn who_waits_elsewhere_must_be_further_behind_by_what_a_move_costs() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 1]);
    serve(&mut seating, &mut world, 0, &[(2, MOVE_NS - 1)]);
    world.worked(0, 0, TURN_NS);
    assert_eq!(turn(&mut seating, 0, 1, &world)[0], sits(2, 0, TURN_NS - (MOVE_NS - 1)), "the neighbour");

    let (mut seating, mut world) = two_seats(rules(), &[0, 1]);
    serve(&mut seating, &mut world, 0, &[(2, MOVE_NS + 1)]);
    world.worked(0, 0, TURN_NS);
    assert_eq!(turn(&mut seating, 0, 1, &world)[0], sits(3, 0, TURN_NS - MOVE_NS), "the other");
}

#[test]
fn without_locality_a_move_is_free() {
    let (mut seating, mut world) = two_seats(Rules { locality_aware: false, ..rules() }, &[0, 1]);
    serve(&mut seating, &mut world, 0, &[(2, 1)]);
    world.worked(0, 0, TURN_NS);
    assert_eq!(turn(&mut seating, 0, 1, &world)[0], sits(3, 0, TURN_NS));
}

fn sits(member: Member, seat: Seat, behind_ns: u64) -> Order {
    Order::Sit { member, seat, why: Why::Behind(behind_ns) }
}

/// Thread 1 has worked far; 0 has arrived and waits in a loop; 2 has had more CPU time than 0.
fn one_spins(rules: Rules) -> (Seating, World, Vec<Order>) {
    let (mut seating, mut world) = two_seats(rules, &[0]);
    world.worked(1, 1, 10 * TURN_NS);
    let glance = world.glance(1);
    seating.look(1, 1, &glance);
    serve(&mut seating, &mut world, 0, &[(2, 3 * TURN_NS)]);
    world.spun(0, 0, TURN_NS);
    let orders = turn(&mut seating, 0, 1, &world);
    (seating, world, orders)
}

#[test]
fn a_spinner_is_lifted_to_the_furthest_worker_and_replaced() {
    let (seating, _, orders) = one_spins(rules());
    assert_eq!(orders[0], Order::Sit { member: 2, seat: 0, why: Why::OtherSpins });
    // The first try again comes when the others have gone on by half a turn.
    assert_eq!(seating.threads[0].progress_ns, 10 * TURN_NS + TURN_NS / 2);
}

#[test]
fn without_progress_a_spinner_keeps_the_seat() {
    let (seating, _, orders) = one_spins(Rules { progress_aware: false, ..rules() });
    assert_eq!(orders, []);
    assert_eq!(seating.threads[0].progress_ns, TURN_NS);
}

#[test]
fn tries_of_a_spinner_become_rarer() {
    let (mut seating, mut world) = two_seats(rules(), &[0]);
    let mut lifts = Vec::new();
    for round in 0..7 {
        world.spun(0, 0, TURN_NS);
        let furthest = seating.furthest_ns();
        let glance = world.glance(0);
        // Whoever spins is asked while nobody else goes on.
        seating.threads[0].progress_ns = 0;
        seating.look(0, 0, &glance);
        lifts.push((seating.threads[0].progress_ns - furthest) * 2 / TURN_NS);
        assert_eq!(furthest, 0, "round {round}");
    }
    assert_eq!(lifts, [1, 2, 4, 8, 16, 16, 16]);
}

#[test]
fn half_of_a_stretch_that_ends_otherwise_than_it_began_was_work() {
    let (mut seating, mut world) = two_seats(rules(), &[]);
    for spins in [false, true, true, false] {
        world.ran(0, 0, 1000, spins);
        let glance = world.glance(0);
        seating.look(0, 0, &glance);
    }
    let seen = seating.take_seen();
    assert_eq!((seen.stretches_ns, seen.spun_ns), (4000, 500 + 1000 + 500));
    assert_eq!(seating.take_seen(), Seen::default(), "asked once");
}

#[test]
fn progress_is_scaled_by_capacity() {
    let (mut seating, mut world, _) = pack_of(rules(), &[1024, 512], 3);
    let slow = seating.sitting(1).unwrap();
    world.worked(slow, 1, 1000);
    let glance = world.glance(slow);
    seating.look(slow, 1, &glance);
    assert_eq!(seating.threads[slow].progress_ns, 500);
}

/// Whoever it is that all wait for, nobody may be kept from a seat by what it looks like.
#[test]
fn when_all_spin_they_still_alternate() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0, 1]);
    let mut last_turn = [0u64; 5];
    let mut longest = 0;
    for round in 1..=400u64 {
        for seat in 0..2 {
            let sitting = seating.sitting(seat).unwrap();
            last_turn[sitting] = round;
            world.spun(sitting, seat, TURN_NS);
            turn(&mut seating, seat, round * TURN_NS + seat as u64, &world);
        }
        longest = longest.max(last_turn.iter().map(|last| round - last).max().unwrap());
    }
    assert!(longest <= 5, "a thread had no turn for {longest} turns of the pack");
}

#[test]
fn a_blocked_sitter_gives_up_its_seat() {
    let (mut seating, mut world) = two_seats(rules(), &[0]);
    // Nobody else is less served than who sits: only its sleep makes room.
    serve(&mut seating, &mut world, 0, &[(2, 5 * TURN_NS)]);
    assert_eq!(turn(&mut seating, 0, 1, &world), []);
    world.does(0, Doing::Blocked);
    let orders = turn(&mut seating, 0, 2, &world);
    assert_eq!(orders, [Order::Sit { member: 2, seat: 0, why: Why::SeatFree }, Order::Wait { member: 0, behind: 0 }]);
}

#[test]
fn a_blocked_waiter_gets_no_seat() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0]);
    serve(&mut seating, &mut world, 0, &[(3, TURN_NS)]);
    world.does(2, Doing::Blocked);
    world.worked(0, 0, 2 * TURN_NS);
    assert_eq!(turn(&mut seating, 0, 1, &world)[0], sits(3, 0, TURN_NS));
    for member in [0, 2] {
        world.does(member, Doing::Ended);
    }
    world.worked(3, 0, TURN_NS);
    assert_eq!(turn(&mut seating, 0, 2, &world), [], "nobody can run");
}

#[test]
fn when_one_is_let_go_the_others_are_tried_as_well() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0, 0]);
    // 1 is the furthest worker; 2, 3 and 4 wait for it in loops, and were tried several times.
    world.worked(1, 1, 2 * TURN_NS);
    let glance = world.glance(1);
    seating.look(1, 1, &glance);
    for _ in 0..4 {
        for member in 2..5 {
            world.spun(member, 0, 1000);
            let glance = world.glance(member);
            seating.look(member, 0, &glance);
        }
    }
    for member in 2..5 {
        assert!(seating.threads[member].progress_ns > 2 * TURN_NS);
        assert_eq!(seating.threads[member].tries, 4);
    }
    world.worked(2, 0, 1000);
    turn(&mut seating, 0, 1, &world);
    for member in 3..5 {
        assert_eq!(seating.threads[member].progress_ns, 2 * TURN_NS, "{member}");
        assert_eq!(seating.threads[member].tries, 0);
    }
    assert_eq!(seating.threads[2].progress_ns, 2 * TURN_NS + 500);
    assert!(!seating.threads[2].spins);
}

#[test]
fn who_runs_without_sitting_is_served_where_it_runs() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 0]);
    world.worked(2, 0, 3 * TURN_NS);
    world.worked(0, 0, TURN_NS);
    assert_eq!(turn(&mut seating, 0, 1, &world)[0], sits(3, 0, TURN_NS));
    assert_eq!(seating.threads[2].progress_ns, 3 * TURN_NS);
}

#[test]
fn who_joins_begins_with_the_least_progress() {
    let (mut seating, mut world) = two_seats(rules(), &[0]);
    serve(&mut seating, &mut world, 0, &[(0, 700), (1, 500), (2, 900)]);
    let run_ns = 10_000;
    let member = seating.join(&Glance { run_ns, ..queued() });
    assert_eq!((member, seating.threads[3].progress_ns, seating.threads[3].run_ns), (3, 500, run_ns));
    // Who has ended counts no more.
    seating.leave(1);
    seating.leave(3);
    seating.join(&queued());
    assert_eq!(seating.threads[4].progress_ns, 700);
}

#[test]
fn who_leaves_frees_its_seat() {
    let (mut seating, mut world) = two_seats(rules(), &[1]);
    serve(&mut seating, &mut world, 1, &[(2, TURN_NS)]);
    seating.leave(0);
    assert_eq!(seating.sitting(0), None);
    assert_eq!(seating.members().collect::<Vec<_>>(), [1, 2]);
    let orders = turn(&mut seating, 0, 1, &world);
    assert_eq!(orders, [Order::Sit { member: 2, seat: 0, why: Why::SeatFree }]);
}

#[test]
fn who_left_while_waiting_gets_no_seat() {
    let (mut seating, mut world) = two_seats(rules(), &[0]);
    seating.leave(2);
    world.worked(0, 0, TURN_NS);
    assert_eq!(turn(&mut seating, 0, 1, &world), []);
    assert_eq!((seating.sitting(0), seating.sitting(1)), (Some(0), Some(1)));
}

#[test]
fn threads_begin_spread_by_capacity() {
    let (seating, _, orders) = pack_of(rules(), &[1024, 512, 512], 8);
    let start = |member, seat| Order::Sit { member, seat, why: Why::Start };
    let wait = |member, behind| Order::Wait { member, behind };
    let expected = [start(0, 0), wait(1, 0), wait(2, 0), wait(3, 0), start(4, 1), wait(5, 1), start(6, 2), wait(7, 2)];
    assert_eq!(orders, expected);
    assert_eq!((0..3).map(|seat| seating.sitting(seat)).collect::<Vec<_>>(), [Some(0), Some(4), Some(6)]);
}

#[test]
fn what_ran_before_rotation_is_nobodys_progress() {
    let mut world = World { glances: vec![queued(); 3] };
    let mut seating = Seating::new(rules(), vec![FULL_CAPACITY]);
    for glance in &world.glances {
        seating.join(glance);
    }
    world.worked(0, 0, 100 * TURN_NS);
    let mut orders = Vec::new();
    seating.begin(0, &world, &mut orders);
    world.worked(0, 0, 10);
    assert_eq!(turn(&mut seating, 0, 1, &world)[0], sits(1, 0, 10));
}

#[test]
fn at_the_end_the_kernel_places_all() {
    let (mut seating, _) = two_seats(rules(), &[0, 1]);
    seating.leave(3);
    let mut orders = Vec::new();
    seating.end(&mut orders);
    assert_eq!(orders, [0, 1, 2].map(|member| Order::Free { member }));
    assert_eq!((seating.sitting(0), seating.sitting(1)), (None, None));
    orders.clear();
    seating.end(&mut orders);
    assert_eq!(orders, [], "once");
}

#[test]
fn a_newcomer_takes_a_free_seat_else_the_shortest_queue() {
    let (mut seating, _) = two_seats(rules(), &[0]);
    let mut orders = Vec::new();
    let third = seating.join(&queued());
    seating.admit(third, 5, &mut orders);
    assert_eq!(orders.pop(), Some(Order::Wait { member: 3, behind: 1 }));
    seating.leave(1);
    let fourth = seating.join(&queued());
    seating.admit(fourth, 6, &mut orders);
    assert_eq!(orders.pop(), Some(Order::Sit { member: 4, seat: 1, why: Why::SeatFree }));
}

#[test]
fn exchanges_and_moves_are_counted() {
    let (mut seating, mut world) = two_seats(rules(), &[0, 1]);
    serve(&mut seating, &mut world, 1, &[(3, MOVE_NS + 1)]);
    for (now_ns, moves) in [(1, 0), (2, 1)] {
        // First the neighbour; then nobody waits behind this seat that is less served.
        let sitting = seating.sitting(0).unwrap();
        world.worked(sitting, 0, TURN_NS);
        turn(&mut seating, 0, now_ns, &world);
        let seen = seating.take_seen();
        assert_eq!((seen.exchanges, seen.moves), (1, moves), "at {now_ns}");
    }
    assert_eq!(seating.sitting(0), Some(3));
    assert_eq!(turn(&mut seating, 0, 3, &world), [], "nobody has run");
    assert_eq!(seating.take_seen().exchanges, 0);
}

#[test]
fn only_whom_the_tick_has_switched_out_is_a_sample() {
    let (mut seating, mut world) = two_seats(rules(), &[0]);
    for (member, out_ns, spins) in [(0, 1_000_000, true), (2, 900_000, false)] {
        let glance = &mut world.glances[member];
        (glance.at, glance.out_ns, glance.spins) = (Some(0), out_ns, spins);
    }
    turn(&mut seating, 0, 1_000_500, &world);
    let seen = seating.take_seen();
    assert_eq!((seen.samples, seen.spinning), (1, 1), "the last that ran here");
    turn(&mut seating, 0, 1_000_000 + JUST_NOW_NS, &world);
    assert_eq!(seating.take_seen().samples, 0, "it was out long before");
    world.does(0, Doing::Blocked);
    turn(&mut seating, 0, 1_000_500, &world);
    assert_eq!(seating.take_seen().samples, 0, "it slept already");
}

#[test]
fn stretches_tell_how_much_was_spun_unless_threads_sleep_often() {
    let seen = Seen { samples: 10, spinning: 5, stretches_ns: 1000, spun_ns: 100, ..Seen::default() };
    assert_eq!(seen.spinning_part(SELDOM_BLOCKS_NS + 1), 0.1);
    assert_eq!(seen.spinning_part(SELDOM_BLOCKS_NS), 0.5);
    assert_eq!(Seen::default().spinning_part(u64::MAX), 0.0);
    let sampled = Seen { stretches_ns: 0, ..seen };
    assert_eq!(sampled.spinning_part(u64::MAX), 0.5);
}
