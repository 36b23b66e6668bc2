//! The meaning of each colour of the page. A colour has the same meaning in all pictures, and every legend takes its words from here. The colours
//! themselves are in `page.css`; `docs/page.md` has the same legend.
//!
//! Each group of states has a range of hues: green for work, yellow to brown for waiting for other threads, red for waiting for a CPU, blue and
//! violet for blocks with a cause outside the program. Shades of grey-blue (`q1` to `q8`) are amounts; `t0` to `t6` are single threads. Time *on a
//! CPU* that may be work or spinning has a colour of its own.

use wire::Cause;

use crate::state::State;

/// CSS class and meaning of each thread state, in the order of bars and legends.
pub(super) const STATES: [(&str, &str); 18] = [
    ("s-work", "work"),
    (ON_A_CPU, "on a CPU (work or spinning)"),
    ("s-spin", "spinning"),
    ("s-sync", "in futex system calls"),
    ("s-yield", "after sched_yield"),
    ("s-futex", "asleep on a futex"),
    ("s-preempted", "preempted"),
    ("s-wake", "wake delay (after wake-up)"),
    ("s-disk", "blocked on disk"),
    ("s-network", "blocked on the network"),
    ("s-pipe", "blocked on pipes"),
    ("s-poll", "waited for events (poll)"),
    ("s-sleep", "slept"),
    ("s-child", "waited for children"),
    ("s-other", "blocked otherwise"),
    ("s-unseen", "blocked, cause not seen"),
    (OTHERS, "other programs and the kernel"),
    (UNKNOWN, "not known"),
];

/// CSS class for a thread that had a CPU, if work and spinning cannot be distinguished.
pub(super) const ON_A_CPU: &str = "s-run";
/// CSS class for a CPU that ran an untracked thread.
pub(super) const OTHERS: &str = "s-others";
pub(super) const UNKNOWN: &str = "s-unknown";

/// Returns the CSS class of a thread state.
pub(super) fn class(state: State) -> &'static str {
    match state {
        State::Work => "s-work",
        State::Run => ON_A_CPU,
        State::Spin => "s-spin",
        State::KernelSync => "s-sync",
        State::Yield => "s-yield",
        State::Preempted => "s-preempted",
        State::Wake => "s-wake",
        State::Unknown => UNKNOWN,
        State::Blocked(cause) => match cause {
            Cause::Futex => "s-futex",
            Cause::Disk => "s-disk",
            Cause::Network => "s-network",
            Cause::Pipe => "s-pipe",
            Cause::Poll => "s-poll",
            Cause::Sleep => "s-sleep",
            Cause::ChildWait => "s-child",
            Cause::Unspecified => "s-unseen",
            Cause::PageFault | Cause::Stopped | Cause::FileLock | Cause::Other => "s-other",
        },
    }
}

/// Returns the meaning of a CSS class of [`STATES`]. All legends use these words.
pub(super) fn meaning(class: &str) -> &'static str {
    STATES.iter().find(|(known, _)| *known == class).map_or("", |(_, meaning)| meaning)
}

/// Returns a legend's entries (CSS class and meaning) for the classes in `used`, in the order of [`STATES`].
pub(super) fn entries(used: &[&str]) -> Vec<(&'static str, &'static str)> {
    STATES.iter().filter(|(class, _)| used.contains(class)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_causes_have_their_classes() {
        let states = [
            State::Work,
            State::Run,
            State::Spin,
            State::KernelSync,
            State::Blocked(Cause::Futex),
            State::Preempted,
            State::Wake,
            State::Blocked(Cause::Disk),
            State::Blocked(Cause::ChildWait),
            State::Blocked(Cause::Unspecified),
            State::Unknown,
        ];
        let expected = [
            "s-work",
            "s-run",
            "s-spin",
            "s-sync",
            "s-futex",
            "s-preempted",
            "s-wake",
            "s-disk",
            "s-child",
            "s-unseen",
            "s-unknown",
        ];
        assert_eq!(states.map(class), expected);
        // A cause without a colour of its own.
        assert_eq!(class(State::Blocked(Cause::PageFault)), "s-other");
    }

    #[test]
    fn each_class_is_in_the_legend_and_means_what_text_says() {
        let states = [
            State::Work,
            State::Run,
            State::Spin,
            State::KernelSync,
            State::Yield,
            State::Preempted,
            State::Wake,
            State::Unknown,
        ];
        for state in states.into_iter().chain(Cause::ALL.map(State::Blocked)) {
            assert!(STATES.iter().any(|(known, _)| *known == class(state)), "{state:?}");
        }
        for cause in Cause::ALL.into_iter().filter(|cause| class(State::Blocked(*cause)) != "s-other") {
            assert_eq!(meaning(class(State::Blocked(cause))), ledger::causes::wording(cause).label, "{cause:?}");
        }
    }

    #[test]
    fn no_two_classes_mean_the_same() {
        for (at, (class, meaning)) in STATES.iter().enumerate() {
            assert!(STATES[..at].iter().all(|(other, same)| other != class && same != meaning), "{class}");
        }
    }
}
