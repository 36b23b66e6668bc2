//! How large a run is to be, and what no runtime can beat.

use serde::Serialize;

use super::apps::{App, Blocking};

/// The longest of all that a run has to wait for takes so long, s.
pub const LENGTH_S: f64 = 2.0;

/// CPU seconds of a run for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Without extra work and snapshots.
    pub none_s: f64,
    /// Each repeat of the arithmetic.
    pub each_s: f64,
    /// Each snapshot: what the program and the kernel do for it.
    pub snapshot_s: f64,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Repeats of the arithmetic.
    pub work: u64,
    /// Steps from one snapshot to the next; 0: none.
    pub every: u32,
    /// Bytes/s; none: as fast as it is.
    pub disk_speed: Option<f64>,
    pub network_speed: Option<f64>,
}

impl Size {
    /// Nothing that blocks.
    pub fn of_work(work: u64) -> Size {
        Size { work, every: 0, disk_speed: None, network_speed: None }
    }

    /// Work takes `ratio` times as long as each thing that blocks, and the longer of them takes [`LENGTH_S`].
    pub fn new(app: &App, cost: Cost, ratio: f64, blocking: Blocking) -> Size {
        let (work_s, blocked_s) = (LENGTH_S * ratio.min(1.0), LENGTH_S / ratio.max(1.0));
        let mut size = Size::of_work(0);
        let mut else_s = cost.none_s;
        if blocking.has_disk() {
            let each = app.every.1 * app.copies();
            let snapshots = ((blocked_s * app.disk_speed / each).round() as u32).clamp(1, app.steps);
            // As many as divide the steps; the disk's speed makes up for the rest.
            size.every = app.steps / snapshots;
            let snapshots = f64::from(app.steps / size.every);
            size.disk_speed = Some(snapshots * each / blocked_s);
            else_s += snapshots * cost.snapshot_s;
        }
        if blocking.has_network() {
            size.network_speed = Some(app.sent / blocked_s);
        }
        size.work = ((work_s - else_s) / cost.each_s).round().max(0.0) as u64;
        size
    }
}

/// What a run takes at least, each thing alone.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bound {
    /// CPU time for each CPU, also the kernel's for transfers and messages.
    pub work_s: f64,
    /// Bytes over the disk's speed.
    pub disk_s: f64,
    /// Bytes of frames over the network's, in the direction that has more.
    pub network_s: f64,
}

impl Bound {
    /// The longest.
    pub fn seconds(&self) -> f64 {
        self.work_s.max(self.disk_s).max(self.network_s)
    }
}

#[cfg(test)]
mod tests {
    use super::super::apps::APPS;
    use super::*;

    const COST: Cost = Cost { none_s: 0.1, each_s: 0.05, snapshot_s: 0.001 };

    fn app(name: &str) -> &'static App {
        APPS.iter().find(|app| app.name == name).unwrap()
    }

    #[test]
    fn work_and_waiting_have_the_ratio_and_the_longer_one_the_length() {
        for (ratio, work_s, disk_s) in [(0.25, 0.5, 2.0), (1.0, 2.0, 2.0), (4.0, 2.0, 0.5)] {
            for app in APPS.iter().filter(|app| app.blockings().contains(&Blocking::Disk)) {
                let size = Size::new(app, COST, ratio, Blocking::Disk);
                let snapshots = f64::from(app.steps / size.every);
                let works_s = COST.none_s + COST.each_s * size.work as f64 + COST.snapshot_s * snapshots;
                assert!((works_s - work_s).abs() < 0.03, "{} {size:?}", app.name);
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
        let size = Size::new(app("fwi-2"), COST, 0.5, Blocking::Network);
        assert_eq!((size.every, size.disk_speed), (0, None));
        assert_eq!(size.network_speed.unwrap() * LENGTH_S, app("fwi-2").sent);
        let both = Size::new(app("heat-2"), COST, 2.0, Blocking::Both);
        assert!(both.every > 0 && both.disk_speed.is_some());
        assert_eq!(both.network_speed.unwrap() * LENGTH_S / 2.0, app("heat-2").sent);
    }

    #[test]
    fn a_run_that_cannot_be_so_short_has_no_extra_work() {
        let heavy = Cost { none_s: 3.0, each_s: 0.1, snapshot_s: 0.0 };
        assert_eq!(Size::new(app("heat"), heavy, 0.25, Blocking::Disk).work, 0);
    }

    #[test]
    fn the_bound_is_the_longest() {
        let bound = Bound { work_s: 1.0, disk_s: 0.5, network_s: 2.0 };
        assert_eq!(bound.seconds(), 2.0);
        assert_eq!(Bound { network_s: 0.0, ..bound }.seconds(), 1.0);
    }
}
