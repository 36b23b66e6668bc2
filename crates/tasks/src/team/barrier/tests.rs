//! Loom models of barriers: two members of a team, in each order of their steps.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread::spawn;

use super::*;
use crate::park::bed;
use crate::sync::explore;
use crate::worker::Worker;

/// A team, and a word for each member. A member writes its word before it comes to a barrier, and reads the other member's word after the
/// barrier.
struct Region {
    team: Team,
    words: [UnsafeCell<u32>; 2],
}

impl Region {
    fn new() -> Arc<Region> {
        let region = Region { team: Team::new(2), words: [0, 0].map(UnsafeCell::new) };
        region.team.has_members(2);
        Arc::new(region)
    }

    fn write(&self, member: usize) {
        // SAFETY: loom fails if another thread uses the word at the same time.
        self.words[member].with_mut(|word| unsafe { *word += 1 });
    }

    fn read(&self, member: usize) -> u32 {
        // SAFETY: loom fails if another thread uses the word at the same time.
        self.words[member].with(|word| unsafe { *word })
    }
}

/// A member of the region.
struct Member {
    region: Arc<Region>,
    number: usize,
    /// Never dropped: a failing model must not take locks while it unwinds.
    worker: ManuallyDrop<Worker>,
}

impl Member {
    fn new(region: &Arc<Region>, number: usize) -> Member {
        let worker = ManuallyDrop::new(Worker::new().unwrap());
        // SAFETY: the region outlives its members, and each has a slot of its own.
        unsafe { worker.enter(&region.team, number as u32) };
        Member { region: region.clone(), number, worker }
    }

    fn team(&self) -> &Team {
        &self.region.team
    }

    fn slot(&self) -> &Slot {
        self.team().slot(self.number as u32)
    }

    fn write(&self) {
        self.region.write(self.number);
    }

    /// Checks that the other member has written its word. Loom fails if no happens-before orders that write before this read.
    fn expect_others_word(&self) {
        assert_eq!(self.region.read(1 - self.number), 1, "the other member has not arrived");
    }
}

/// Runs the shares of two members, each in a thread of its own. `begin` prepares the team, and `behind` runs when both threads have ended.
///
/// Each member is the first thread once, because loom overlooks some orders (its issues 166 and 392): when a second thread loads a word, loom
/// forgets that the first thread has loaded it, and does not try to put the second thread's next store before that load.
fn check_region(
    begin: impl Fn(&Team) + Copy + Send + Sync + 'static,
    shares: [impl Fn(&Member) + Copy + Send + Sync + 'static; 2],
    behind: fn(&Team),
) {
    for first in [0, 1] {
        explore(move || {
            let region = Region::new();
            begin(&region.team);
            let [one, other] = [first, 1 - first].map(|number| Member::new(&region, number));
            let other = spawn(move || shares[1 - first](&other));
            shares[first](&one);
            other.join().unwrap();
            behind(&region.team);
        });
    }
}

fn check(shares: [fn(&Member); 2]) {
    check_region(|team| team.begin(false), shares, |_| ());
}

fn meets(member: &Member) {
    member.write();
    member.worker.barrier();
    member.expect_others_word();
}

#[test]
fn members_meet_at_a_barrier() {
    check([meets, meets]);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn members_do_not_meet_if_one_passes_without_the_other() {
    check([meets, |member| {
        member.write();
        let (generation, _) = member.team().arrive(member.slot());
        member.team().pass(generation);
        member.expect_others_word();
    }]);
}

/// Sleeps at a barrier until another thread ends it.
fn sleeps_at(member: &Member, generation: u32) {
    while !member.team().has_passed(generation) {
        member.team().lie_down(member.slot(), None);
        if !member.team().has_passed(generation) {
            bed(member.worker.thread).sleep();
        }
        member.team().get_up(member.slot(), false);
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn members_sleep_for_ever_if_the_last_does_not_end_the_barrier() {
    fn sleeps(member: &Member) {
        let (generation, _) = member.team().arrive(member.slot());
        sleeps_at(member, generation);
    }
    check([sleeps, sleeps]);
}

/// Comes to two barriers, one directly after the other. `pass` ends a barrier.
fn meets_twice(member: &Member, pass: fn(&Team, u32)) {
    for _ in 0..2 {
        let (generation, last) = member.team().arrive(member.slot());
        if last {
            pass(member.team(), generation);
        }
        sleeps_at(member, generation);
    }
}

#[test]
fn members_meet_at_the_next_barrier() {
    fn meets(member: &Member) {
        meets_twice(member, Team::pass);
    }
    check([meets, meets]);
}

/// The count of the next barrier loses a member that arrives there before the count is reset.
#[test]
#[should_panic(expected = "deadlock")]
fn members_miss_the_next_barrier_if_the_count_is_reset_too_late() {
    fn pass(team: &Team, generation: u32) {
        team.generation.0.store(generation + 1, Ordering::Release);
        team.meeting.0.arrived.store(0, Ordering::Relaxed);
        fence::light();
        team.wake_all();
    }
    fn meets(member: &Member) {
        meets_twice(member, pass);
    }
    check([meets, meets]);
}

/// Cancels the region, and comes to its end.
fn cancels(member: &Member) {
    cancels_by(Team::cancel, member);
}

fn cancels_by(cancel: fn(&Team), member: &Member) {
    member.write();
    cancel(member.team());
    member.worker.end_region();
}

/// Comes to a barrier of a region that the other member cancels, and then to the region's end.
fn is_released(member: &Member) {
    assert!(member.worker.barrier_or_cancel(), "the other member does not come to this barrier");
    member.expect_others_word();
    member.worker.end_region();
}

/// Checks that no member counts as arrived when the next region begins.
fn next_region_begins(team: &Team) {
    team.begin(false);
    assert!(!team.arrive(team.slot(0)).1, "a member of the last region still counts as arrived");
    assert!(team.arrive(team.slot(1)).1);
}

/// Checks both kinds of region ends: with a barrier (`lets_go` is false) and without.
#[test]
fn a_cancelled_region_releases_members() {
    for lets_go in [false, true] {
        check_region(move |team| team.begin(lets_go), [cancels as fn(&Member), is_released], next_region_begins);
    }
}

/// If the region's end is a barrier, the member that cancels the region also ends the other member's sleep, when it passes that barrier.
#[test]
#[should_panic(expected = "deadlock")]
fn a_cancelled_region_does_not_release_a_member_without_a_wake_up() {
    fn cancels(member: &Member) {
        cancels_by(|team| team.cancelled.store(u64::from(team.generation()) + 1, Ordering::Release), member);
    }
    check_region(|team| team.begin(true), [cancels as fn(&Member), is_released], |_| ());
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_cancelled_region_does_not_release_a_member_without_a_fence() {
    fn cancel(team: &Team) {
        team.cancelled.store(u64::from(team.generation()) + 1, Ordering::Release);
        team.wake_all();
    }
    check_region(|team| team.begin(true), [|member: &Member| cancels_by(cancel, member), is_released], |_| ());
}

/// If a released member were counted twice, its second count would be taken for the other member's arrival, and the other member would then
/// wait at the next barrier.
#[test]
#[should_panic(expected = "deadlock")]
fn a_released_member_must_not_be_counted_twice() {
    fn is_counted_twice(member: &Member) {
        member.worker.barrier_or_cancel();
        member.slot().own.came_to.store(0, Ordering::Relaxed);
        member.worker.end_region();
    }
    check([cancels, is_counted_twice]);
}

#[test]
#[should_panic(expected = "still counts as arrived")]
fn a_released_member_still_counts_as_arrived_if_the_next_region_does_not_reset_the_count() {
    check_region(
        |team| team.begin(true),
        [cancels as fn(&Member), is_released],
        |team| {
            team.cancelled.store(0, Ordering::Relaxed);
            next_region_begins(team);
        },
    );
}

/// Member 0 waits until the other thread, which is no member of this region, has run the last task. It waits at a barrier or, if the team
/// `lets_go`, at a region's end that is no barrier. The other thread finds no other task and calls `ask`.
fn check_last_task(lets_go: bool, ask: fn(&Team)) {
    let begin = move |team: &Team| {
        team.has_members(1);
        team.begin(lets_go);
        team.note_task(|| ());
        team.slot(0).has_made();
    };
    let share = move |member: &Member| {
        if member.number == 0 {
            member.worker.end_region();
            member.expect_others_word();
        } else {
            member.write();
            member.slot().has_ended();
            ask(member.team());
        }
    };
    check_region(begin, [share, share], |_| ());
}

fn asks(team: &Team) {
    team.try_to_pass(team.generation());
}

#[test]
fn the_thread_that_runs_the_last_task_ends_the_wait() {
    for lets_go in [false, true] {
        check_last_task(lets_go, asks);
    }
}

/// [`Team::try_to_pass`] without its fence.
fn asks_without_fence(team: &Team) {
    if team.meeting.0.arrived.load(Ordering::Acquire) != team.size() {
        if team.meeting.0.staying.load(Ordering::Relaxed) > 0 && team.is_quiet() {
            team.wake_all();
        }
    } else if team.is_quiet() {
        team.pass(team.generation());
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_wait_at_a_barrier_does_not_end_without_a_fence() {
    check_last_task(false, asks_without_fence);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_wait_at_a_regions_end_does_not_end_without_a_fence() {
    check_last_task(true, asks_without_fence);
}

/// A task of member 1 makes another task and ends. That task writes member 1's word and ends. Meanwhile member 0 asks whether a task is left.
fn check_sums(is_quiet: fn(&Team) -> bool) {
    let begin = |team: &Team| {
        team.begin(false);
        team.note_task(|| ());
        team.slot(1).has_made();
    };
    let share = move |member: &Member| {
        if member.number == 1 {
            member.slot().has_made();
            member.slot().has_ended();
            member.write();
            member.slot().has_ended();
        } else if is_quiet(member.team()) {
            member.expect_others_word();
        }
    };
    check_region(begin, [share, share], |_| ());
}

#[test]
fn no_task_is_left_if_the_sums_are_equal() {
    check_sums(Team::is_quiet);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_task_may_be_left_if_the_made_tasks_are_added_up_first() {
    check_sums(|team| {
        let made = team.slot(1).own.made.load(Ordering::Acquire);
        made == team.slot(1).own.ended.load(Ordering::Acquire)
    });
}
