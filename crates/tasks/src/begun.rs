//! Tasks that use data which each member sets up when it begins a construct. Only a thread that has begun the construct may run them.
//!
//! Problem: in a construct with `reduction(task, …)` each member of the team has a copy of the variable, which it sets to the initial value
//! when it begins the construct. Tasks of the construct add to the copy of the thread that runs them. But they may run before all members
//! have begun:
//!
//! - on a helper, which has no copy of its own: it would use a member's copy, and that member may be about to set it;
//! - on a late member: it looks for tasks at a barrier. Meanwhile the others pass that barrier, begin the construct and make a task, which
//!   the late member finds.
//!
//! In both cases the member sets its copy to the initial value only afterwards, and overwrites the task's contribution. At the beginning of
//! a region there is no late member, because the thread that begins a region has waited until all threads have left the previous one.
//!
//! Rule: such tasks belong to groups that are [for members](crate::group::Group::is_for_members). Only members run them. A member that
//! waits at a barrier may run them as long as no thread has passed this barrier. Until then, it has begun the constructs of all such tasks:
//! each construct ends with a barrier, and no thread is in the next construct yet. If a thread has taken a task that it must not run, it
//! puts the task into the members' queue.

use crate::sync::{AtomicU32, Ordering};

/// The role of a thread that has taken a task from a queue.
#[derive(Clone, Copy)]
pub(crate) enum Taker {
    Helper,
    /// A member of the team, with the number of the barrier at which it waited when it took the task; `None` if it waited at no barrier.
    Member(Option<u32>),
}

impl Taker {
    /// Returns whether this thread has begun the construct to which the task belongs. `generation`: the number of the barrier at which
    /// members wait, or will wait next.
    #[inline]
    pub fn has_begun(self, generation: &AtomicU32) -> bool {
        match self {
            Taker::Helper => false,
            // This load is Acquire, and comes after the task was taken. So if the creator passed the barrier before it made the task,
            // the load returns the number of the next barrier.
            Taker::Member(barrier) => barrier.is_none_or(|barrier| generation.load(Ordering::Acquire) == barrier),
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    use super::*;
    use crate::deque::{Deque, Stolen};

    /// Loom model of a `reduction(task, …)` construct, which two members begin after the barrier with the number 0. Each member sets its own copy
    /// of the variable to 1 when it begins the construct. The construct's only task doubles one member's copy. If that member begins the
    /// construct only afterwards, it overwrites the result.
    struct Construct {
        generation: AtomicU32,
        copies: [UnsafeCell<u32>; 2],
        deque: Deque<(), 2>,
        /// Number of tasks that a thread took from the deque but was not allowed to run. Member 0 runs them at the end.
        put_back: AtomicU32,
    }

    impl Construct {
        fn begin(&self, member: usize) {
            // SAFETY: the model checker reports any concurrent access.
            self.copies[member].with_mut(|copy| unsafe { *copy = 1 });
        }

        fn run(&self, member: usize) {
            // SAFETY: the model checker reports any concurrent access.
            self.copies[member].with_mut(|copy| unsafe { *copy *= 2 });
        }

        /// Models a thread (`taker`) that looks for a task. If the construct's task is in the deque, the thread takes it and runs it, which
        /// doubles the copy of `member`. Exception: if `rule` is true and the thread has not begun the construct, it does not run the task, and
        /// increments `put_back`.
        fn look(&self, taker: Taker, member: usize, rule: bool) {
            if let Stolen::Task(_) = self.deque.steal_if(|_| true) {
                if !rule || taker.has_begun(&self.generation) {
                    self.run(member);
                } else {
                    self.put_back.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// Member 0 passes the barrier, begins the construct and makes a task, while another thread executes `other`. Checks that no member
    /// overwrites the copy that the task has doubled: at the end one copy is 1 and the other one 2, so their product is 2.
    fn check(other: impl Fn(&Construct) + Copy + Send + Sync + 'static) {
        loom::model(move || {
            let construct = Arc::new(Construct {
                generation: AtomicU32::new(0),
                copies: [0, 0].map(UnsafeCell::new),
                deque: Deque::default(),
                put_back: AtomicU32::new(0),
            });
            let theirs = construct.clone();
            let second = loom::thread::spawn(move || other(&theirs));
            construct.generation.store(1, Ordering::Release);
            construct.begin(0);
            construct.deque.push(std::ptr::without_provenance_mut(16)).unwrap();
            if construct.deque.pop().is_some() {
                construct.run(0);
            }
            second.join().unwrap();
            (0..construct.put_back.load(Ordering::Acquire)).for_each(|_| construct.run(0));
            // SAFETY: the other thread has ended.
            let product: u32 = construct.copies.iter().map(|copy| copy.with(|copy| unsafe { *copy })).product();
            assert_eq!(product, 2, "the contribution is lost");
        });
    }

    fn late_member(construct: &Construct, rule: bool) {
        construct.look(Taker::Member(Some(0)), 1, rule);
        construct.begin(1);
        construct.look(Taker::Member(None), 1, true);
    }

    /// A helper looks for a task, and would run it with the copy of member 1. Only then does member 1 begin the construct and set its copy.
    fn helper(construct: &Construct, rule: bool) {
        construct.look(Taker::Helper, 1, rule);
        construct.begin(1);
    }

    #[test]
    fn who_is_late_takes_no_contribution_with_it() {
        check(|construct| late_member(construct, true));
    }

    #[test]
    #[should_panic = "the contribution is lost"]
    fn without_the_rule_a_late_member_does() {
        check(|construct| late_member(construct, false));
    }

    #[test]
    fn a_helper_takes_no_contribution_with_it() {
        check(|construct| helper(construct, true));
    }

    #[test]
    #[should_panic = "the contribution is lost"]
    fn without_the_rule_a_helper_does() {
        check(|construct| helper(construct, false));
    }
}
