//! Checks whether a thread's scheduling could be restored. The kernel lets every user lower the priority of a thread.
//! To raise it again, the user needs a privilege, or a resource limit that allows it (sched(7), "Privileges and
//! resource limits").

use machine::Root;
use machine::process::Task;

use crate::value::Scheduling;

/// The capability to set any scheduling of any thread, see capabilities(7).
const CAP_SYS_NICE: u32 = 23;

/// Returns whether this process has CAP_SYS_NICE, so that the limits do not apply to it.
pub(super) fn may_set_all(root: &Root) -> bool {
    Task::own(root).status().is_ok_and(|status| status.effective.has(CAP_SYS_NICE))
}

/// Returns which resource limit (RLIMIT_NICE or RLIMIT_RTPRIO) forbids a change of a thread's scheduling, given the two
/// limits; `None` if neither does.
pub(super) fn missing(from: &Scheduling, to: &Scheduling, (nice, real_time): (u64, u64)) -> Option<&'static str> {
    let is_real_time = |scheduling: &Scheduling| scheduling.priority > 0;
    if is_real_time(to) && !(is_real_time(from) && to.priority <= from.priority) {
        return (real_time < u64::from(to.priority)).then_some("rtprio");
    }
    // A thread may leave SCHED_IDLE if it may set its nice value.
    let leaves_idle = from.policy == Scheduling::IDLE && to.policy != Scheduling::IDLE;
    // RLIMIT_NICE is 20 minus the lowest allowed nice value.
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
