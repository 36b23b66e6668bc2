//! Chooses the size of a run (how much it computes, and how much it reads, writes and sends), and computes the lower bound of its time.

use anyhow::{Result, ensure};
use serde::Serialize;

use super::apps::{App, Blocking};
use super::size::Size;

/// Lower bound of a run's time, s. The size of a run is chosen so that its slowest resource (CPUs, disk or network) alone needs this time.
pub const LENGTH_S: f64 = 2.0;

/// The CPU time that a run of an application needs, in CPU seconds per CPU (CPU seconds ÷ number of CPUs).
#[derive(Clone, Debug)]
pub struct Cost {
    /// Measurements of runs without snapshots: how many times the application repeats its arithmetic for each value, and the CPU seconds per CPU.
    /// They are in rising order, from 0 repeats. The CPU time is not proportional to the repeats: with more repeats, each one takes longer, because
    /// the processor then executes the arithmetic of fewer values in parallel.
    by_work: Vec<(u64, f64)>,
    /// CPU seconds per CPU that one snapshot costs, in the program and in the kernel. For a snapshot, the application writes its data to the disk.
    pub snapshot_s: f64,
}

impl Cost {
    /// Makes a cost table from measurements. A measurement that took longer than one with more work was disturbed, and is left out.
    ///
    /// # Errors
    /// When fewer than two measurements are left.
    pub fn new(mut by_work: Vec<(u64, f64)>, snapshot_s: f64) -> Result<Cost> {
        let measured = by_work.clone();
        by_work.retain(|(work, cost_s)| measured.iter().all(|(more, more_s)| more <= work || more_s > cost_s));
        ensure!(
            by_work.len() > 1,
            "the CPU time does not rise with the number of repeats of the arithmetic; measured (repeats, s): {measured:?}"
        );
        Ok(Cost { by_work, snapshot_s })
    }

    /// Returns how many times the application must repeat its arithmetic, so that a run needs `work_s` CPU seconds per CPU (including work that does
    /// not depend on the repeats). Interpolates (or extrapolates) linearly between the measurements.
    fn repeats(&self, work_s: f64) -> u64 {
        let last = self.by_work.len() - 2;
        let at = self.by_work[1..=last].iter().take_while(|(_, cost_s)| *cost_s < work_s).count();
        let ((less, less_s), (more, more_s)) = (self.by_work[at], self.by_work[at + 1]);
        let repeats = less as f64 + (work_s - less_s) * (more - less) as f64 / (more_s - less_s);
        repeats.round().max(0.0) as u64
    }
}

impl Size {
    /// Chooses the size of a run. Its work alone takes `ratio` times as long as its transfers alone (on the disk, on the network, or on each of
    /// them, as `blocking` says). The longer one of these times is [`LENGTH_S`].
    pub fn new(app: &App, cost: &Cost, ratio: f64, blocking: Blocking) -> Size {
        let (work_s, blocked_s) = (LENGTH_S * ratio.min(1.0), LENGTH_S / ratio.max(1.0));
        let mut size = Size::of_work(0);
        let mut snapshots_s = 0.0;
        if blocking.has_disk() {
            let each = app.every.1 * app.copies();
            let snapshots = ((blocked_s * app.disk_speed / each).round() as u32).clamp(1, app.steps);
            // The interval between snapshots is a whole number of steps; the disk's speed is set to make up for the rounding.
            size.every = app.steps / snapshots;
            let snapshots = size.snapshots(app);
            size.disk_speed = Some(snapshots * each / blocked_s);
            snapshots_s = snapshots * cost.snapshot_s;
        }
        if blocking.has_network() {
            size.network_speed = Some(app.sent / blocked_s);
        }
        size.work = cost.repeats(work_s - snapshots_s);
        size
    }

    /// Returns how many snapshots the application writes to the disk in a run.
    pub fn snapshots(&self, app: &App) -> f64 {
        app.steps.checked_div(self.every).map_or(0.0, f64::from)
    }
}

/// Lower bounds of a run's time, for each resource alone.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bound {
    /// The bound by the CPUs: CPU seconds per CPU, including the kernel's CPU time for transfers and messages.
    pub work_s: f64,
    /// The bound by the disk: bytes read and written ÷ the disk's speed.
    pub disk_s: f64,
    /// The bound by the network: bytes of frames ÷ the network's speed, in the direction with more bytes.
    pub network_s: f64,
}

impl Bound {
    /// Returns the lower bound of the run's time, s: the longest of the bounds by CPUs, disk and network.
    pub fn seconds(&self) -> f64 {
        self.work_s.max(self.disk_s).max(self.network_s)
    }
}

#[cfg(test)]
mod tests {
    use super::super::apps::APPS;
    use super::*;

    fn cost() -> Cost {
        Cost::new(vec![(0, 0.1), (10, 0.6), (20, 1.2), (40, 2.6)], 0.001).unwrap()
    }

    fn app(name: &str) -> &'static App {
        APPS.iter().find(|app| app.name == name).unwrap()
    }

    #[test]
    fn work_and_waiting_have_the_ratio_and_the_longer_one_the_length() {
        for (ratio, work_s, disk_s) in [(0.25, 0.5, 2.0), (1.0, 2.0, 2.0), (4.0, 2.0, 0.5)] {
            for app in APPS.iter().filter(|app| app.blockings().contains(&Blocking::Disk)) {
                let size = Size::new(app, &cost(), ratio, Blocking::Disk);
                let snapshots = size.snapshots(app);
                let repeats = if ratio < 1.0 { (work_s - 0.1) / 0.05 } else { 20.0 + (work_s - 1.2) / 0.07 };
                let those_of_snapshots = snapshots * 0.001 / if ratio < 1.0 { 0.05 } else { 0.07 };
                assert!((repeats - those_of_snapshots - size.work as f64).abs() < 0.51, "{} {size:?}", app.name);
                let bytes = snapshots * app.every.1 * app.copies();
                assert!((bytes / size.disk_speed.unwrap() - disk_s).abs() < 1e-9, "{} {size:?}", app.name);
                let speed = size.disk_speed.unwrap() / app.disk_speed;
                assert!((0.5..2.1).contains(&speed), "{} at {ratio}: {speed} times its disk", app.name);
                assert_eq!(size.network_speed, None);
            }
        }
    }

    #[test]
    fn only_what_blocks_has_a_speed() {
        let size = Size::new(app("fwi-2"), &cost(), 0.5, Blocking::Network);
        assert_eq!((size.every, size.disk_speed), (0, None));
        assert_eq!(size.network_speed.unwrap() * LENGTH_S, app("fwi-2").sent);
        let both = Size::new(app("heat-2"), &cost(), 2.0, Blocking::Both);
        assert!(both.every > 0 && both.disk_speed.is_some());
        assert_eq!(both.network_speed.unwrap() * LENGTH_S / 2.0, app("heat-2").sent);
    }

    #[test]
    fn a_run_that_cannot_be_so_short_has_no_extra_work() {
        let heavy = Cost::new(vec![(0, 3.0), (10, 4.0)], 0.0).unwrap();
        assert_eq!(Size::new(app("heat"), &heavy, 0.25, Blocking::Disk).work, 0);
    }

    #[test]
    fn work_beyond_what_was_measured_costs_as_the_last_of_it() {
        assert_eq!(cost().repeats(4.0), 60);
        let disturbed = Cost::new(vec![(0, 0.1), (10, 2.0), (20, 1.1)], 0.0).unwrap();
        assert_eq!(disturbed.repeats(0.6), 10);
        assert!(Cost::new(vec![(0, 0.5), (10, 0.4)], 0.0).is_err(), "a cost that falls");
    }

    #[test]
    fn the_bound_is_the_longest() {
        let bound = Bound { work_s: 1.0, disk_s: 0.5, network_s: 2.0 };
        assert_eq!(bound.seconds(), 2.0);
        assert_eq!(Bound { network_s: 0.0, ..bound }.seconds(), 1.0);
    }
}
