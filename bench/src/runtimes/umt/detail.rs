//! What a runtime did in a run, from a scheduler trace. The traced run is a separate one, which is not timed.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use super::super::series::{Sample, sparkline};
use super::super::trace::runnable::Usage;
use super::super::way::{Way, serialize_name};

/// Width of a bar chart over time, in columns of text.
const SPARKS: usize = 80;
/// Heading of the CSV rows.
pub const ROWS: &str = "app,blocking,ratio,way,at_s,cpu,disk_bytes_per_s,network_bytes_per_s\n";

/// The results of a traced run.
#[derive(Debug, Serialize)]
pub struct Detail {
    #[serde(serialize_with = "serialize_name")]
    pub way: Way,
    #[serde(flatten)]
    pub usage: Usage,
    /// Share of time in which more than one thread of the program was runnable (running or queued) on the same CPU; mean over the CPUs.
    pub oversubscribed: f64,
    /// CPU time that a block costs, us: (CPU time of the timed runs − CPU time of their work) ÷ number of blocks in the traced run.
    pub cost_us: f64,
    /// Time from the wake-up of a standby thread to the start of its first task, us: median and 99th percentile. With `perf` and `leader`, the time
    /// begins earlier: when the thread blocks for which the standby thread stands in. `None` without a report of cox.
    pub delay_us: Option<(f64, f64)>,
    /// Use of CPUs, disk and network over time.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl Detail {
    /// Combines the CPU seconds `spent_s` of the timed runs, the CPU seconds `work_s` of their work, and cox's `report` of the traced run.
    pub fn new(way: Way, usage: Usage, cpus: u32, spent_s: f64, work_s: f64, report: Option<&Value>) -> Detail {
        let delay = report.map(|report| &report["overlap"]["delay_us"]);
        Detail {
            way,
            oversubscribed: usage.oversubscribed(cpus),
            cost_us: (spent_s - work_s) * 1e6 / usage.blocks.max(1) as f64,
            delay_us: delay.and_then(|delay| Some((delay[0].as_f64()?, delay[1].as_f64()?))),
            usage,
            samples: Vec::new(),
        }
    }

    /// Returns one bar chart over time for each resource, scaled to its maximum speed.
    pub fn series(&self, disk_speed: Option<f64>, network_speed: Option<f64>) -> Vec<String> {
        let line = |name: &str, highest: f64, of: fn(&Sample) -> f64| {
            let values: Vec<f64> = self.samples.iter().map(of).collect();
            format!("      {name:8}▏{}▏", sparkline(&values, highest, SPARKS))
        };
        let disk = disk_speed.map(|speed| line("disk", speed, |sample| sample.disk));
        // A sample adds up both directions, so its maximum is twice the network's speed.
        let network = network_speed.map(|speed| line("network", 2.0 * speed, |sample| sample.network));
        [line("CPU", 1.0, |sample| sample.cpu)].into_iter().chain(disk).chain(network).collect()
    }

    /// Returns the samples as CSV rows that begin with `name`.
    pub fn rows(&self, name: &str) -> String {
        let row = |sample: &Sample| {
            let Sample { at_s, cpu, disk, network } = sample;
            format!("{name},{},{at_s:.3},{cpu:.3},{disk:.0},{network:.0}\n", self.way.name())
        };
        self.samples.iter().map(row).collect()
    }

    /// Returns the line about this runtime that is printed below the table line of the application.
    pub fn line(&self) -> String {
        let second = |count: u64| count as f64 * 1e9 / self.usage.elapsed_ns.max(1) as f64;
        let mut text = format!(
            "    {:13} oversubscribed {:5.2} % of the time, {:7.0} switches/s, {:7.0} blocks/s that cost {:6.1} us of CPU time each",
            self.way.name(),
            100.0 * self.oversubscribed,
            second(self.usage.switches),
            second(self.usage.blocks),
            self.cost_us
        );
        if let Some((median, late)) = self.delay_us {
            write!(text, ", a standby thread starts its first task after {median:.0} us (p99 {late:.0} us)")
                .unwrap_or_default();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_by_second_by_block_and_by_cpu() {
        let usage = Usage { elapsed_ns: 2_000_000_000, oversubscribed_ns: 80_000_000, switches: 3000, blocks: 1000 };
        let report = serde_json::json!({"overlap": {"delay_us": [29.4, 470.0]}});
        let text = Detail::new(Way::Bpf, usage, 2, 4.05, 4.0, Some(&report)).line();
        for part in
            ["2.00 %", "1500 switches/s", "500 blocks/s", "50.0 us of CPU time each", "after 29 us (p99 470 us)"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let none = serde_json::json!({"overlap": {"delay_us": null}});
        assert_eq!(Detail::new(Way::Bpf, usage, 2, 4.0, 4.0, Some(&none)).delay_us, None);
    }

    #[test]
    fn each_thing_over_time_is_by_the_most_there_can_be() {
        let mut detail = Detail::new(Way::Bpf, Usage::default(), 2, 0.0, 0.0, None);
        detail.samples = vec![Sample { at_s: 0.05, cpu: 0.5, disk: 1e8, network: 5e6 }];
        let lines = detail.series(Some(1e8), Some(1e7));
        assert_eq!(lines, ["      CPU     ▏▄▏", "      disk    ▏█▏", "      network ▏▂▏"]);
        assert_eq!(detail.rows("heat,disk,1:1"), "heat,disk,1:1,bpf,0.050,0.500,100000000,5000000\n");
        assert_eq!(detail.series(None, None).len(), 1);
    }
}
