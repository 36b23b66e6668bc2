//! Compares the packed time integrals of `cells.h` with a naive integral over a list of arrivals and departures, and with the readers in user space.

use proptest::prelude::*;
use testkit::native;
use wire::cells::{self, Levels};

/// What a cell's sum is kept modulo: 2^44 ns.
const MODULUS: u128 = 1 << 44;

/// Steps of +1 and -1 at ascending times, and a reading after each.
#[derive(Clone, Debug)]
struct Story {
    start_ns: u64,
    steps: Vec<(u64, bool)>,
}

fn story() -> impl Strategy<Value = Story> {
    let gap = prop_oneof![Just(0), 0u64..100, 0u64..10_000_000_000];
    (0u64..1 << 52, prop::collection::vec((gap, any::<bool>()), 1..60)).prop_map(|(start_ns, gaps)| {
        let mut t_ns = start_ns;
        let steps = gaps
            .into_iter()
            .map(|(gap_ns, arrives)| {
                t_ns += gap_ns;
                (t_ns, arrives)
            })
            .collect();
        Story { start_ns, steps }
    })
}

/// Thread-time and presence from the definition: n, and whether n > 0, integrated over time.
#[derive(Clone, Copy, Default)]
struct Naive {
    count: u128,
    thread_time_ns: u128,
    presence_ns: u128,
    at_ns: u64,
}

impl Naive {
    fn until(&mut self, t_ns: u64) {
        let gap_ns = u128::from(t_ns - self.at_ns);
        self.thread_time_ns += self.count * gap_ns;
        self.presence_ns += if self.count > 0 { gap_ns } else { 0 };
        self.at_ns = t_ns;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn both_cells_integrate_what_they_count(story in story()) {
        let mut naive = Naive { at_ns: story.start_ns, ..Naive::default() };
        let (mut thread_time, mut presence) = (0u64, 0u64);
        for (t_ns, arrives) in story.steps {
            naive.until(t_ns);
            if arrives {
                thread_time = thread_time.wrapping_add(native::cell_arrival(t_ns));
                presence = native::cell_step(presence, 1, t_ns);
                naive.count += 1;
            } else {
                presence = native::cell_step(presence, -1, t_ns);
                if naive.count > 0 {
                    thread_time = thread_time.wrapping_sub(native::cell_arrival(t_ns));
                    naive.count -= 1;
                }
            }
            let later_ns = t_ns + 12_345;
            let mut later = naive;
            later.until(later_ns);

            prop_assert_eq!(u128::from(cells::count(thread_time)), naive.count);
            prop_assert_eq!(u128::from(cells::count(presence)), naive.count);
            prop_assert_eq!(u128::from(native::cell_thread_time(thread_time, later_ns)), later.thread_time_ns % MODULUS);
            prop_assert_eq!(u128::from(native::cell_presence(presence, later_ns)), later.presence_ns % MODULUS);
            prop_assert_eq!(cells::thread_time_ns(thread_time, later_ns), native::cell_thread_time(thread_time, later_ns));
            prop_assert_eq!(cells::presence_ns(presence, later_ns), native::cell_presence(presence, later_ns));
        }
    }

    /// Additions from several CPUs reach the word in any order.
    #[test]
    fn thread_time_does_not_hang_on_the_order_of_additions(story in story(), seed in any::<u64>()) {
        let add = |cell: u64, &(t_ns, arrives): &(u64, bool)| {
            let arrival = native::cell_arrival(t_ns);
            if arrives { cell.wrapping_add(arrival) } else { cell.wrapping_sub(arrival) }
        };
        let in_order = story.steps.iter().fold(0, add);
        let mut shuffled = story.steps.clone();
        shuffled.sort_by_key(|(t_ns, arrives)| (t_ns ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(*arrives));
        prop_assert_eq!(shuffled.iter().fold(0, add), in_order);
    }

    #[test]
    fn readers_agree_on_any_word(cell in any::<u64>(), t_ns in any::<u64>()) {
        prop_assert_eq!(cells::thread_time_ns(cell, t_ns), native::cell_thread_time(cell, t_ns));
        prop_assert_eq!(cells::presence_ns(cell, t_ns), native::cell_presence(cell, t_ns));
    }

    #[test]
    fn a_difference_of_readings_survives_the_overflow(earlier in 0u64..1 << 44, gap_ns in 0u64..1 << 43) {
        let later = (earlier + gap_ns) % (1 << 44);
        prop_assert_eq!(cells::since_ns(later, earlier), gap_ns);
    }

    #[test]
    fn a_reading_behind_another_is_no_time(earlier in 0u64..1 << 44, behind_ns in 1u64..1 << 43) {
        let later = earlier.wrapping_sub(behind_ns) % (1 << 44);
        prop_assert_eq!(cells::since_ns(later, earlier), 0);
    }

    #[test]
    fn levels_that_were_read_in_the_middle_of_a_change_show(
        stints in prop::collection::vec((0u64..1_000_000_000, 0u64..1_000_000_000), 1..20), which in any::<prop::sample::Index>()
    ) {
        // The time since boot is more than what a level may be off by.
        let (start_ns, end_ns) = (1_000_000_000, 3_000_000_000);
        let mut edges: Vec<(u64, bool)> = stints.iter().flat_map(|(from, ns)| [(*from, true), (from + ns, false)]).collect();
        edges.sort_by_key(|(t_ns, comes)| (*t_ns, !comes));
        let mut levels = Levels::default();
        let mut steps = Vec::new();
        for (t_ns, comes) in edges {
            let before = levels.clone();
            let step = if comes { Levels::come } else { Levels::leave };
            step(&mut levels, start_ns + t_ns);
            // The count has changed, the level has not.
            steps.push(Levels { busy: levels.busy, ..before });
        }
        let whole = levels.more_than_ns(start_ns, end_ns).expect("possible times");
        prop_assert_eq!(whole.iter().sum::<u64>(), stints.iter().map(|(_, ns)| ns).sum::<u64>());
        prop_assert!(whole.is_sorted_by(|more, less| more >= less), "{whole:?}");
        let torn = which.get(&steps);
        let counted = torn.busy.min(torn.words.len());
        // A level that no word is there for yet is no torn one.
        prop_assume!(counted == torn.busy);
        prop_assert_eq!(torn.more_than_ns(start_ns, end_ns), None);
    }

    #[test]
    fn differences_agree_with_the_kernels(later in any::<u64>(), earlier in any::<u64>()) {
        prop_assert_eq!(cells::since_ns(later, earlier), native::cell_since(later, earlier));
    }
}
