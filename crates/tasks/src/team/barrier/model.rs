//! Two members of a team, in all orders in which they can meet.

use std::mem::ManuallyDrop;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::spawn;

use super::*;
use crate::worker::Worker;

/// A team, and for each member what it writes before it comes to the region's end. The others read it behind that.
struct Region {
    team: Team,
    written: [UnsafeCell<u32>; 2],
}

/// A member of the region.
struct Member<'r> {
    region: &'r Region,
    number: usize,
    /// Never dropped: there is no thread of this number.
    worker: ManuallyDrop<Worker>,
}

impl Member<'_> {
    fn writes(&self) {
        // SAFETY: the checker sees whoever else uses it.
        self.region.written[self.number].with_mut(|word| unsafe { *word = 1 });
    }

    fn reads_what_the_other_wrote(&self) {
        // SAFETY: as above.
        let word = self.region.written[1 - self.number].with(|word| unsafe { *word });
        assert_eq!(word, 1, "the other is not there yet");
    }

    fn seat(&self) -> &Seat {
        self.region.team.seat(self.number as u32)
    }
}

/// Plays what the two members do. Each has begun its share of the region.
fn check(members: [fn(&Member<'_>); 2]) {
    loom::model(move || {
        let region = Arc::new(Region { team: Team::new(2), written: [0, 0].map(UnsafeCell::new) });
        region.team.has_members(2);
        let play = move |region: &Region, number: usize| {
            let worker = ManuallyDrop::new(Worker::numbered(number as u32));
            // SAFETY: the region is there until both have come back, and nobody else has this seat.
            unsafe { worker.enter(&region.team, number as u32) };
            members[number](&Member { region, number, worker });
        };
        let theirs = region.clone();
        let other = spawn(move || play(&theirs, 1));
        play(&region, 0);
        other.join().unwrap();
    });
}

/// What a member writes before a barrier is there for the other behind it; nobody sleeps on.
fn meets(member: &Member<'_>) {
    member.writes();
    member.worker.barrier();
    member.reads_what_the_other_wrote();
}

#[test]
fn members_meet() {
    check([meets, meets]);
}

#[test]
#[should_panic = "Causality violation"]
fn one_that_does_not_wait_for_all_meets_nobody() {
    check([meets, |member| {
        member.writes();
        let team = &member.region.team;
        let (generation, _) = team.arrive(member.seat());
        team.pass(generation);
        member.reads_what_the_other_wrote();
    }]);
}

#[test]
#[should_panic = "deadlock"]
fn without_a_question_by_who_comes_last_both_sleep() {
    fn sleeps(member: &Member<'_>) {
        let team = &member.region.team;
        let (generation, _) = team.arrive(member.seat());
        while !team.has_passed(generation) {
            team.lie_down(member.seat(), None);
            if !team.has_passed(generation) {
                crate::park::bed(member.number as u32).sleep();
            }
            team.get_up(member.seat(), false);
        }
    }
    check([sleeps, sleeps]);
}

/// Cancels the region, and comes to its end.
fn cancels(member: &Member<'_>) {
    member.writes();
    member.region.team.cancel();
    member.worker.barrier();
    member.reads_what_the_other_wrote();
}

#[test]
fn who_waits_in_a_cancelled_region_is_let_go_and_meets_the_others_at_its_end() {
    check([cancels, |member| {
        assert!(member.worker.barrier_or_cancel(), "nobody else comes to this barrier");
        member.writes();
        member.worker.barrier();
        member.reads_what_the_other_wrote();
    }]);
}

/// Who was let go has come already. Counted once more, it stands for the one that has cancelled.
#[test]
#[should_panic = "Causality violation"]
fn who_was_let_go_is_not_counted_twice() {
    check([cancels, |member| {
        member.worker.barrier_or_cancel();
        member.writes();
        member.seat().own.came_to.store(0, Ordering::Relaxed);
        member.worker.barrier();
        member.reads_what_the_other_wrote();
    }]);
}

/// A task of member 1's makes another and ends; this one writes. Member 0 has run out of tasks and asks whether one is left.
fn check_sums(is_quiet: fn(&Team) -> bool) {
    loom::model(move || {
        let region = Arc::new(Region { team: Team::new(2), written: [0, 0].map(UnsafeCell::new) });
        region.team.note_task(|| ());
        region.team.seat(1).has_made();
        let theirs = region.clone();
        let other = spawn(move || {
            let seat = theirs.team.seat(1);
            seat.has_made();
            seat.has_ended();
            // SAFETY: the checker sees whoever else uses it.
            theirs.written[1].with_mut(|word| unsafe { *word = 1 });
            seat.has_ended();
        });
        if is_quiet(&region.team) {
            // SAFETY: as above.
            let word = region.written[1].with(|word| unsafe { *word });
            assert_eq!(word, 1, "a task is left");
        }
        other.join().unwrap();
    });
}

#[test]
fn no_task_is_left_when_the_sums_are_equal() {
    check_sums(Team::is_quiet);
}

#[test]
#[should_panic = "Causality violation"]
fn sums_of_tasks_made_first_may_be_equal_while_one_is_left() {
    check_sums(|team| {
        let made = team.seat(1).own.made.load(Ordering::Acquire);
        made == team.seat(1).own.ended.load(Ordering::Acquire)
    });
}
