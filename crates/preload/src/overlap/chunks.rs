//! How the iterations of a taskloop are divided among tasks (OpenMP 5.2, section 12.6).

/// How the iterations of a taskloop are divided among tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// A number of tasks (`num_tasks`), whose sizes differ by at most one iteration.
    Tasks(u64),
    /// A least number of iterations per task; each task has less than twice as many (`grainsize`).
    Grain(u64),
    /// An exact number of iterations per task, except for the last one (`grainsize(strict: …)`).
    StrictGrain(u64),
}

/// Divides a loop of `n` iterations. Returns `(number of tasks, iterations in each)` for the first tasks and for the remaining ones.
pub fn divide(n: u64, division: Division) -> [(u64, u64); 2] {
    if n == 0 {
        return [(0, 0); 2];
    }
    let tasks = match division {
        Division::StrictGrain(grain) => {
            let grain = grain.clamp(1, n);
            let rest = n % grain;
            return [(n / grain, grain), (rest.min(1), rest)];
        }
        Division::Grain(grain) => n / grain.clamp(1, n),
        Division::Tasks(tasks) => tasks.clamp(1, n),
    };
    let (each, longer) = (n / tasks, n % tasks);
    [(longer, each + 1), (tasks - longer, each)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(n: u64, division: Division) -> Vec<u64> {
        divide(n, division).iter().flat_map(|(tasks, each)| vec![*each; *tasks as usize]).collect()
    }

    #[test]
    fn tasks_are_nearly_equal() {
        assert_eq!(sizes(10, Division::Tasks(4)), [3, 3, 2, 2]);
        assert_eq!(sizes(3, Division::Tasks(8)), [1, 1, 1]);
        assert_eq!(sizes(0, Division::Tasks(8)), [0u64; 0]);
    }

    #[test]
    fn a_grain_is_the_least() {
        assert_eq!(sizes(10, Division::Grain(4)), [5, 5]);
        assert_eq!(sizes(3, Division::Grain(4)), [3]);
        assert_eq!(sizes(10, Division::StrictGrain(4)), [4, 4, 2]);
        assert_eq!(sizes(3, Division::StrictGrain(4)), [3]);
        assert_eq!(sizes(8, Division::StrictGrain(4)), [4, 4]);
        for (n, grain) in (1..60u64).flat_map(|n| (1..12u64).map(move |grain| (n, grain))) {
            let sizes = sizes(n, Division::Grain(grain));
            assert_eq!(sizes.iter().sum::<u64>(), n);
            assert!(sizes.len() == 1 || sizes.iter().all(|size| (grain..2 * grain).contains(size)), "{n} {grain}");
        }
    }
}
