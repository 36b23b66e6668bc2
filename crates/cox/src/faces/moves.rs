//! Output of `cox pack --log-moves`: the reason for each move of a thread.

use pack::live::{Placed, Summary};
use pack::policy::Why;

/// Returns one line per move: time, thread, CPU and reason.
pub fn moves(summary: &Summary) -> String {
    let start_ns = summary.log.first().map_or(0, |placed| placed.at_ns);
    let line = |placed: &Placed| {
        let told = match placed.to {
            Some((cpu, why)) => {
                let why = match why {
                    Why::Behind(ns) => {
                        format!("the threads on its old and new CPU differ in progress by {:.3} ms", ns as f64 / 1e6)
                    }
                    Why::Spins => "a thread on its old or new CPU waits in a loop".to_owned(),
                    Why::SlotFree => "its old or new CPU had no thread to run".to_owned(),
                    Why::Joined => "the thread is new".to_owned(),
                    Why::Start => "rotation begins".to_owned(),
                    Why::End => "rotation ends".to_owned(),
                    Why::Rules => "cox has assigned all threads anew".to_owned(),
                };
                format!("thread {} to CPU {cpu}: {why}", placed.tid)
            }
            None => format!("thread {} is placed by the kernel from now on", placed.tid),
        };
        format!("{:12.6} s  {told}\n", (placed.at_ns - start_ns) as f64 / 1e9)
    };
    summary.log.iter().map(line).collect()
}
