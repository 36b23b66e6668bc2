//! What each colour of the page means. One colour has one meaning in all pictures, and every legend takes its words from here; `page.css` has the
//! colours themselves, `docs/page.md` the same legend.
//!
//! Hues are those of a family: green for work, yellow to brown for waiting for other threads, red for waiting for a CPU, blue and violet for blocks
//! by something outside. Shades of grey-blue (`q1` to `q8`) are amounts, `t0` to `t6` are single threads. What is *on a CPU* without being known to
//! be work or spinning has a colour of its own.

/// Classes of thread states with what they mean, in the order of bars and legends.
pub(super) const STATES: [(&str, &str); 17] = [
    ("s-work", "work"),
    (ON_A_CPU, "on a CPU (work or spinning)"),
    ("s-spin", "spinning"),
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

/// A thread that had a CPU, where work and spinning are not told apart.
pub(super) const ON_A_CPU: &str = "s-run";
/// A CPU that somebody else had.
pub(super) const OTHERS: &str = "s-others";
pub(super) const UNKNOWN: &str = "s-unknown";

/// The class of a state, or of a cause of blocking, by its name in figures.
pub(super) fn class(state: &str) -> &'static str {
    match state {
        "child_wait" => "s-child",
        "unspecified" => "s-unseen",
        state => STATES
            .iter()
            .map(|(class, _)| *class)
            .find(|class| class.strip_prefix("s-") == Some(state) && *class != OTHERS)
            .unwrap_or("s-other"),
    }
}

/// What a class means, in all legends.
pub(super) fn meaning(class: &str) -> &'static str {
    STATES.iter().find(|(known, _)| *known == class).map_or("", |(_, meaning)| meaning)
}

/// A legend's entries: the classes that are in use, in the order of [`STATES`].
pub(super) fn entries(used: &[&str]) -> Vec<(&'static str, &'static str)> {
    STATES.iter().filter(|(class, _)| used.contains(class)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_causes_have_their_classes() {
        let states =
            ["work", "run", "spin", "futex", "preempted", "wake", "disk", "child_wait", "unspecified", "unknown"];
        let classes = states.map(class);
        let expected = [
            "s-work",
            "s-run",
            "s-spin",
            "s-futex",
            "s-preempted",
            "s-wake",
            "s-disk",
            "s-child",
            "s-unseen",
            "s-unknown",
        ];
        assert_eq!(classes, expected);
        // A cause that is new, and one that is called like something else.
        assert_eq!(["page_fault", "others", "<b>"].map(class), ["s-other"; 3]);
    }

    #[test]
    fn no_two_classes_mean_the_same() {
        for (at, (class, meaning)) in STATES.iter().enumerate() {
            assert!(STATES[..at].iter().all(|(other, same)| other != class && same != meaning), "{class}");
        }
    }
}
