//! The run queue of one CPU, after the kernel's EEVDF (kernel/sched/fair.c, Linux 6.12 to 6.18): of the threads that
//! are owed time, the one with the earliest deadline runs.
//!
//! This is modelled because it affects packing: a thread keeps the time it is owed when it moves, and after each tick
//! of the controller the kernel chooses a thread anew. All threads have nice value 0, so virtual time equals CPU time.

/// The slice that a thread requests, ns: base_slice_ns of a machine with two to three CPUs, as measured there.
pub const SLICE_NS: i128 = 2_800_000;

/// The scheduling state of a thread, as in the kernel's `sched_entity`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entity {
    /// Virtual run time.
    pub vruntime: i128,
    /// Virtual deadline.
    pub deadline: i128,
    /// The time that the thread was owed when it last left a queue.
    pub lag: i128,
}

/// The runnable threads of a CPU, the running thread included.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    members: Vec<usize>,
    /// The queue's virtual time when it became empty.
    idle_at: i128,
}

impl Queue {
    /// Returns the threads in the queue.
    #[must_use]
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Returns the virtual time of the queue: the mean of its threads' virtual run times.
    fn virtual_time(&self, entities: &[Entity]) -> i128 {
        match self.members.len() {
            0 => self.idle_at,
            members => self.members.iter().map(|&member| entities[member].vruntime).sum::<i128>() / members as i128,
        }
    }

    /// Adds a thread. Its position follows from the time that it was owed when it left its last queue.
    pub fn enter(&mut self, member: usize, entities: &mut [Entity]) {
        let now = self.virtual_time(entities);
        let load = self.members.len() as i128;
        let entity = &mut entities[member];
        // Adding the thread moves the mean virtual time. The lag is scaled up so that the thread is still owed the same
        // time afterwards.
        let lag = if load == 0 { 0 } else { entity.lag * (load + 1) / load };
        entity.vruntime = now - lag;
        entity.deadline = entity.vruntime + SLICE_NS;
        self.members.push(member);
    }

    /// Removes a thread, and stores the time that it is owed.
    pub fn leave(&mut self, member: usize, entities: &mut [Entity]) {
        let now = self.virtual_time(entities);
        let entity = &mut entities[member];
        entity.lag = (now - entity.vruntime).clamp(-2 * SLICE_NS, 2 * SLICE_NS);
        self.members.retain(|&other| other != member);
        if self.members.is_empty() {
            self.idle_at = now;
        }
    }

    /// Returns the thread that should run: of those that are owed time, the one with the earliest deadline.
    #[must_use]
    pub fn pick(&self, entities: &[Entity]) -> Option<usize> {
        let now = self.virtual_time(entities);
        let owed = self.members.iter().copied().filter(|&member| entities[member].vruntime <= now);
        // The first choice is the earliest deadline among the threads that are owed time. Because of rounding, there
        // may be no such thread. Then the thread with the least virtual run time is chosen.
        owed.min_by_key(|&member| (entities[member].deadline, member))
            .or_else(|| self.members.iter().copied().min_by_key(|&member| (entities[member].vruntime, member)))
    }

    /// Adds `ns` of run time to a thread. Returns true if its slice is used up.
    pub fn ran(member: usize, ns: i128, entities: &mut [Entity]) -> bool {
        let entity = &mut entities[member];
        entity.vruntime += ns;
        if entity.vruntime < entity.deadline {
            return false;
        }
        entity.deadline = entity.vruntime + SLICE_NS;
        true
    }

    /// Gives up the rest of the slice, as sched_yield(2) does.
    pub fn yields(member: usize, entities: &mut [Entity]) {
        let entity = &mut entities[member];
        entity.vruntime = entity.vruntime.max(entity.deadline);
        entity.deadline = entity.vruntime + SLICE_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_take_turns_by_slices() {
        let mut entities = vec![Entity::default(); 2];
        let mut queue = Queue::default();
        queue.enter(0, &mut entities);
        queue.enter(1, &mut entities);
        let mut ran = [0; 2];
        for _ in 0..1000 {
            let who = queue.pick(&entities).unwrap();
            Queue::ran(who, 1_000_000, &mut entities);
            ran[who] += 1;
        }
        assert!((490..=510).contains(&ran[0]), "{ran:?}");
    }

    #[test]
    fn what_is_owed_is_kept_over_a_move() {
        let mut entities = vec![Entity::default(); 3];
        let (mut one, mut two) = (Queue::default(), Queue::default());
        one.enter(0, &mut entities);
        one.enter(1, &mut entities);
        two.enter(2, &mut entities);
        Queue::ran(0, 2_000_000, &mut entities);
        one.leave(1, &mut entities);
        assert_eq!(entities[1].lag, 1_000_000);
        two.enter(1, &mut entities);
        assert_eq!(two.pick(&entities), Some(1));
        two.leave(1, &mut entities);
        assert_eq!(entities[1].lag, 1_000_000);
    }
}
