//! Whether a scheduling can be put back. The kernel lets everybody make his threads lesser ones, but not
//! greater ones again (sched(7), "Privileges and resource limits").

use machine::Root;
use machine::process::Task;

use crate::knob::Scheduling;

/// capabilities(7): may set any scheduling of any thread.
const CAP_SYS_NICE: u32 = 23;

/// Whether this process needs no limit.
pub(super) fn may_set_all(root: &Root) -> bool {
    Task::own(root).status().is_ok_and(|status| status.effective.has(CAP_SYS_NICE))
}

/// The limit of (RLIMIT_NICE, RLIMIT_RTPRIO) that forbids to go `from` one scheduling `to` another.
pub(super) fn missing(from: &Scheduling, to: &Scheduling, (nice, real_time): (u64, u64)) -> Option<&'static str> {
    let is_real_time = |scheduling: &Scheduling| scheduling.priority > 0;
    if is_real_time(to) && !(is_real_time(from) && to.priority <= from.priority) {
        return (real_time < u64::from(to.priority)).then_some("rtprio");
    }
    // Leaving SCHED_IDLE is allowed to whom the nice value would be.
    let leaves_idle = from.policy == Scheduling::IDLE && to.policy != Scheduling::IDLE;
    // RLIMIT_NICE is 20 less the lowest nice value.
    let needed = u64::try_from(20 - to.nice).unwrap_or(0);
    ((leaves_idle || to.nice < from.nice) && nice < needed).then_some("nice")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Scheduling = Scheduling { policy: 0, flags: 0, nice: 0, priority: 0, slice_ns: 0 };

    #[test]
    fn from_idle_there_is_no_way_back_without_a_limit() {
        assert_eq!(missing(&OTHER.idle(), &OTHER, (0, 0)), Some("nice"));
        assert_eq!(missing(&OTHER.idle(), &OTHER, (20, 0)), None);
        assert_eq!(missing(&OTHER.idle(), &OTHER.idle(), (0, 0)), None);
    }

    #[test]
    fn nobody_becomes_less_nice() {
        let nicer = Scheduling { nice: 5, ..OTHER };
        assert_eq!((missing(&nicer, &OTHER, (15, 0)), missing(&OTHER, &nicer, (0, 0))), (Some("nice"), None));
    }

    #[test]
    fn real_time_is_left_for_good() {
        let fifo = |priority| Scheduling { policy: 1, priority, ..OTHER };
        assert_eq!(missing(&OTHER, &fifo(10), (40, 9)), Some("rtprio"));
        assert_eq!((missing(&OTHER, &fifo(10), (0, 10)), missing(&fifo(20), &fifo(10), (0, 0))), (None, None));
    }
}
