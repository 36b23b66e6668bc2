//! What a runtime did in a run, beside how long it took: from a trace of the scheduler's, in a run that is not timed.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use super::super::trace::runnable::Usage;
use super::super::way::Way;

/// A traced run.
#[derive(Debug, Serialize)]
pub struct Detail {
    #[serde(serialize_with = "super::table::named")]
    pub way: Way,
    #[serde(flatten)]
    pub usage: Usage,
    /// Share of the CPUs' time.
    pub oversubscribed: f64,
    /// CPU time of timed runs beyond the work, for each block of this one, us.
    pub cost_us: f64,
    /// From a doorbell to its first task, median and 99th percentile, us; ours only.
    pub delay_us: Option<(f64, f64)>,
}

impl Detail {
    /// `spent_s`: CPU seconds of timed runs; `work_s`: of the work in them; `report`: cox's of the traced run.
    pub fn new(way: Way, usage: Usage, cpus: u32, spent_s: f64, work_s: f64, report: Option<&Value>) -> Detail {
        let delay = report.map(|report| &report["overlap"]["delay_us"]);
        Detail {
            way,
            oversubscribed: usage.oversubscribed(cpus),
            cost_us: (spent_s - work_s) * 1e6 / usage.blocks.max(1) as f64,
            delay_us: delay.and_then(|delay| Some((delay[0].as_f64()?, delay[1].as_f64()?))),
            usage,
        }
    }

    /// As printed below the point.
    pub fn line(&self) -> String {
        let second = |count: u64| count as f64 * 1e9 / self.usage.elapsed_ns.max(1) as f64;
        let mut text = format!(
            "    {:13} oversubscribed {:5.2} %, {:7.0} switches/s, {:7.0} blocks/s of {:6.1} us CPU",
            self.way.name(),
            100.0 * self.oversubscribed,
            second(self.usage.switches),
            second(self.usage.blocks),
            self.cost_us
        );
        if let Some((median, late)) = self.delay_us {
            write!(text, ", first task after {median:.0} us (p99 {late:.0} us)").unwrap_or_default();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_by_second_by_block_and_by_cpu() {
        let usage = Usage { elapsed_ns: 2_000_000_000, crowded_ns: 80_000_000, switches: 3000, blocks: 1000 };
        let report = serde_json::json!({"overlap": {"delay_us": [29.4, 470.0]}});
        let text = Detail::new(Way::Bpf, usage, 2, 4.05, 4.0, Some(&report)).line();
        for part in ["2.00 %", "1500 switches/s", "500 blocks/s", "50.0 us CPU", "after 29 us (p99 470 us)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let none = serde_json::json!({"overlap": {"delay_us": null}});
        assert_eq!(Detail::new(Way::Bpf, usage, 2, 4.0, 4.0, Some(&none)).delay_us, None);
    }
}
