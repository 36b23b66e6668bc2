//! The three percentages of the study, and those of cox from the same recording, as `cox report --kuhn2022` prints them.

use serde::{Deserialize, Serialize};

/// Percent of the execution time, summed over threads and CPUs: more than 100 is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentages {
    /// The study's rules.
    pub study: Three,
    /// The rules of cox: here, `switches` is the time that threads waited for a CPU.
    pub cox: Three,
    /// Time asleep, which the study's `switches` contains, and which is no cost of the scheduler.
    pub blocked: f64,
}

/// The percentages of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Three {
    /// Thread migration.
    pub migration: f64,
    /// Context switches.
    pub switches: f64,
    /// Idle CPUs.
    pub idle: f64,
}

/// Reads the percentages from the text of `cox report --kuhn2022`: two blocks of lines such as `  idle  95.8 %  run time of …`. `None` if one is missing.
pub fn parse(text: &str) -> Option<Percentages> {
    let (study, cox) = text.split_once("\ncox:\n")?;
    Some(Percentages {
        study: Three {
            migration: percent(study, "migration")?,
            switches: percent(study, "context switch")?,
            idle: percent(study, "idle")?,
        },
        cox: Three {
            migration: percent(cox, "migration")?,
            switches: percent(cox, "waiting for CPU")?,
            idle: percent(cox, "idle")?,
        },
        blocked: percent(cox, "blocked")?,
    })
}

fn percent(block: &str, name: &str) -> Option<f64> {
    let of = |line: &str| {
        let (number, _) = line.trim_start().strip_prefix(name)?.split_once('%')?;
        number.trim().parse().ok()
    };
    block.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The recording covers 1.034 s, from the first context switch to the last. Of this time:

Kuhn 2022, computed from perf sched timehist:
  migration             12.5 %  wait time + sch delay of lines with a migration during the wait
  context switch       310.0 %  wait time + sch delay of all lines except idle ones
  idle                   7.25 %  run time of the idle tasks

cox:
  migration              0.5 %  waits for a CPU during which the thread migrated
  waiting for CPU        1.5 %  wake delay + preempt wait: the time that the scheduler cost threads
  blocked              290.0 %  asleep: included in Kuhn's context switch, but not a cost of the scheduler
  idle                   9.0 %  idle CPUs, including time for which perf lost the switch from idle

Wait time contains sch delay, so Kuhn's context switch counts 0.0 % twice (rule perf-6.1).
";

    #[test]
    fn both_blocks_are_read() {
        let percentages = parse(TEXT).unwrap();
        assert_eq!(percentages.study, Three { migration: 12.5, switches: 310.0, idle: 7.25 });
        assert_eq!(percentages.cox, Three { migration: 0.5, switches: 1.5, idle: 9.0 });
        assert_eq!(percentages.blocked, 290.0);
        assert_eq!(parse(&TEXT.replace("blocked", "asleep")), None);
        assert_eq!(parse("nothing"), None);
    }
}
