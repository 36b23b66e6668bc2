//! One CPU's run queue, after the kernel's EEVDF (kernel/sched/fair.c, Linux 6.12 to 6.18): who is owed
//! something may run, and of those the one with the earliest deadline does.
//!
//! Modelled because packing meets it: lags are kept over moves, a class change rescales them, and the choice
//! is made anew whenever something else has had the CPU.

/// Weight of nice 0.
pub const NORMAL: i128 = 1024;
/// Weight of SCHED_IDLE.
pub const IDLE: i128 = 3;

/// What a thread asks for at a time: base_slice_ns of a machine with two to three CPUs, as measured there.
pub const SLICE_NS: i128 = 2_800_000;

/// A thread's standing in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Entity {
    /// [`NORMAL`] or [`IDLE`].
    pub weight: i128,
    /// Virtual run time.
    pub vruntime: i128,
    /// Virtual deadline.
    pub deadline: i128,
    /// What it was owed when it left a queue.
    pub lag: i128,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity { weight: NORMAL, vruntime: 0, deadline: 0, lag: 0 }
    }
}

impl Entity {
    /// A time in this thread's virtual time.
    #[must_use]
    pub fn virtual_ns(&self, ns: i128) -> i128 {
        ns * NORMAL / self.weight
    }
}

/// Runnable threads of a CPU, whoever runs included.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    members: Vec<usize>,
    /// Where virtual time stood when the queue became empty.
    idle_at: i128,
}

impl Queue {
    /// Who is in it.
    #[must_use]
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Virtual time of the queue: the weighted mean of its members'.
    fn virtual_time(&self, entities: &[Entity]) -> i128 {
        let (mut sum, mut weight) = (0, 0);
        for &member in &self.members {
            sum += entities[member].vruntime * entities[member].weight;
            weight += entities[member].weight;
        }
        if weight == 0 { self.idle_at } else { sum / weight }
    }

    fn weight(&self, entities: &[Entity]) -> i128 {
        self.members.iter().map(|&member| entities[member].weight).sum()
    }

    /// A thread comes: it is placed by what it was owed where it came from.
    pub fn enter(&mut self, member: usize, entities: &mut [Entity]) {
        let now = self.virtual_time(entities);
        let load = self.weight(entities);
        let entity = &mut entities[member];
        // Its own coming moves the mean: the lag is inflated so that it has it afterwards.
        let lag = if load == 0 { 0 } else { entity.lag * (load + entity.weight) / load };
        entity.vruntime = now - lag;
        entity.deadline = entity.vruntime + entity.virtual_ns(SLICE_NS);
        self.members.push(member);
    }

    /// A thread leaves, and remembers what it is owed.
    pub fn leave(&mut self, member: usize, entities: &mut [Entity]) {
        let now = self.virtual_time(entities);
        let entity = &mut entities[member];
        let limit = entity.virtual_ns(2 * SLICE_NS);
        entity.lag = (now - entity.vruntime).clamp(-limit, limit);
        self.members.retain(|&other| other != member);
        if self.members.is_empty() {
            self.idle_at = now;
        }
    }

    /// A thread in the queue changes class: what it is owed stays the same in real time.
    pub fn reweigh(&mut self, member: usize, weight: i128, entities: &mut [Entity]) {
        self.leave(member, entities);
        let entity = &mut entities[member];
        entity.lag = entity.lag * entity.weight / weight;
        entity.weight = weight;
        self.enter(member, entities);
    }

    /// Who should run: of those who are owed something, the one with the earliest deadline.
    #[must_use]
    pub fn pick(&self, entities: &[Entity]) -> Option<usize> {
        let now = self.virtual_time(entities);
        let owed = self.members.iter().copied().filter(|&member| entities[member].vruntime <= now);
        // Rounding may leave nobody owed: then whoever has had least.
        owed.min_by_key(|&member| (entities[member].deadline, member))
            .or_else(|| self.members.iter().copied().min_by_key(|&member| (entities[member].vruntime, member)))
    }

    /// A thread has run for so long. True when it has had its slice.
    pub fn ran(member: usize, ns: i128, entities: &mut [Entity]) -> bool {
        let entity = &mut entities[member];
        entity.vruntime += entity.virtual_ns(ns);
        if entity.vruntime < entity.deadline {
            return false;
        }
        entity.deadline = entity.vruntime + entity.virtual_ns(SLICE_NS);
        true
    }

    /// sched_yield(2): gives up the rest of the slice.
    pub fn yields(member: usize, entities: &mut [Entity]) {
        let entity = &mut entities[member];
        entity.vruntime = entity.vruntime.max(entity.deadline);
        entity.deadline = entity.vruntime + entity.virtual_ns(SLICE_NS);
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
    fn who_waits_in_sched_idle_gets_three_of_1027() {
        let mut entities = vec![Entity::default(); 2];
        entities[1].weight = IDLE;
        let mut queue = Queue::default();
        queue.enter(0, &mut entities);
        queue.enter(1, &mut entities);
        let mut ran = [0u64; 2];
        for _ in 0..100_000 {
            let who = queue.pick(&entities).unwrap();
            Queue::ran(who, 100_000, &mut entities);
            ran[who] += 1;
        }
        assert!((280..=310).contains(&ran[1]), "{ran:?}");
    }

    /// What traces of Linux 6.18 show, and `live::ticker` works around.
    #[test]
    fn a_thread_that_becomes_idle_class_is_still_owed_one_turn() {
        let mut entities = vec![Entity::default(); 2];
        let mut queue = Queue::default();
        queue.enter(0, &mut entities);
        Queue::ran(0, 500_000, &mut entities);
        queue.enter(1, &mut entities);
        queue.reweigh(0, IDLE, &mut entities);
        let mut runs = Vec::new();
        for _ in 0..5 {
            let who = queue.pick(&entities).unwrap();
            Queue::ran(who, 500_000, &mut entities);
            runs.push(who);
        }
        assert_eq!(runs.iter().filter(|&&who| who == 0).count(), 1, "{runs:?}");
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
