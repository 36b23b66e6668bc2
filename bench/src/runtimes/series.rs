//! Samples the use of CPUs, disk and network while a program runs: the kernel's counters, every 50 ms.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Sampling period. At a tick rate of 250 Hz this is 12 ticks per CPU; shares of a shorter period would be too coarse.
const PERIOD: Duration = Duration::from_millis(50);
const SECTOR_BYTES: f64 = 512.0;

/// Use of CPUs, disk and network between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// End of the sample: time since the counters were read first, s.
    pub at_s: f64,
    /// Share of all CPUs' time that was not idle, whichever program used it.
    pub cpu: f64,
    /// Bytes read from the disk and written to it per second.
    pub disk: f64,
    /// Bytes sent and received over the network per second.
    pub network: f64,
}

/// Counter values at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Look {
    ns: u64,
    busy: u64,
    all: u64,
    disk_bytes: f64,
    network_bytes: f64,
}

impl Look {
    fn until(self, next: Look, first_ns: u64) -> Sample {
        let seconds = (next.ns - self.ns) as f64 / 1e9;
        Sample {
            at_s: (next.ns - first_ns) as f64 / 1e9,
            cpu: (next.busy - self.busy) as f64 / (next.all - self.all).max(1) as f64,
            disk: (next.disk_bytes - self.disk_bytes) / seconds,
            network: (next.network_bytes - self.network_bytes) / seconds,
        }
    }
}

/// A running sampler, in a thread of its own.
pub struct Series {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Sample>>>,
}

impl Series {
    /// Starts sampling the CPUs, the disk with this device number (such as "254:0") and, if `namespace` is given, the devices of this network
    /// namespace.
    pub fn begin(disk: &str, namespace: Option<PathBuf>) -> Series {
        let stop = Arc::new(AtomicBool::new(false));
        let (until, disk) = (Arc::clone(&stop), disk.to_owned());
        let thread = std::thread::spawn(move || follow(&disk, namespace.as_deref(), &until));
        Series { stop, thread }
    }

    /// Stops sampling and returns the samples.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn end(self) -> Result<Vec<Sample>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(anyhow!("the sampling thread panicked")))
    }
}

fn follow(disk: &str, namespace: Option<&Path>, stop: &AtomicBool) -> Result<Vec<Sample>> {
    if let Some(file) = namespace {
        // Only this thread enters the namespace.
        let opened = std::fs::File::open(file).with_context(|| format!("{}", file.display()))?;
        move_into_link_name_space(opened.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter the network namespace")?;
    }
    let first = look(disk, namespace.is_some())?;
    let (mut before, mut samples) = (first, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD);
        let now = look(disk, namespace.is_some())?;
        samples.push(before.until(now, first.ns));
        before = now;
    }
    Ok(samples)
}

fn look(disk: &str, has_network: bool) -> Result<Look> {
    let read = |path: &str| std::fs::read_to_string(path).with_context(|| path.to_owned());
    let (busy, all) = cpu_ticks(&read("/proc/stat")?).context("/proc/stat")?;
    Ok(Look {
        ns: arch::monotonic_ns(),
        busy,
        all,
        disk_bytes: disk_bytes(&read("/proc/diskstats")?, disk).unwrap_or(0.0),
        network_bytes: if has_network { network_bytes(&read("/proc/thread-self/net/dev")?) } else { 0.0 },
    })
}

/// Returns the ticks of all CPUs that were not idle, and all ticks. Hypervisor steal is in neither.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(7).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waiting, irq, softirq] = ticks[..] else { return None };
    let busy = user + nice + system + irq + softirq;
    Some((busy, busy + idle + waiting))
}

/// Returns the bytes read and written. Fields of /proc/diskstats: major, minor, name, then reads, merged, sectors, ms, and the same for writes.
fn disk_bytes(diskstats: &str, disk: &str) -> Option<f64> {
    let fields = diskstats.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of = fields.into_iter().find(|fields| fields.len() > 9 && format!("{}:{}", fields[0], fields[1]) == disk)?;
    Some((of[5].parse::<f64>().ok()? + of[9].parse::<f64>().ok()?) * SECTOR_BYTES)
}

/// Returns the bytes received and sent by all devices except loopback.
fn network_bytes(devices: &str) -> f64 {
    let of = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<f64> = counters.split_whitespace().map_while(|word| word.parse().ok()).collect();
        (name.trim() != "lo").then(|| Some(counters.first()? + counters.get(8)?)).flatten()
    };
    devices.lines().filter_map(of).sum()
}

/// Returns the values as bars of eight heights, in at most `width` columns. Each bar is the mean of its values.
pub fn sparkline(values: &[f64], highest: f64, width: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = values.len().min(width);
    let part = |column: usize| &values[column * values.len() / columns..(column + 1) * values.len() / columns];
    let bar = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        BARS[((mean / highest).clamp(0.0, 1.0) * 8.0).round() as usize]
    };
    (0..columns).map(|column| bar(part(column))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_the_kernel_writes_them() {
        let stat = "cpu  100 10 50 800 30 4 6 77 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(cpu_ticks(stat), Some((170, 1000)));
        let disks = " 254       0 vda 10 0 2000 5 20 0 4000 9 0 0 0\n 254      16 vdb 1 0 8 1 1 0 8 1 0 0 0\n";
        assert_eq!(disk_bytes(disks, "254:0"), Some(6000.0 * 512.0));
        assert_eq!(disk_bytes(disks, "8:0"), None);
        let devices = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  \
                       eth: 1000 3 0 0 0 0 0 0 500 4 0 0 0 0 0 0\n";
        assert_eq!(network_bytes(devices), 1500.0);
    }

    #[test]
    fn a_sample_is_what_was_used_since_the_last() {
        let before = Look { ns: 1_000_000_000, busy: 100, all: 1000, disk_bytes: 0.0, network_bytes: 50.0 };
        let next = Look { ns: 1_050_000_000, busy: 118, all: 1024, disk_bytes: 5e6, network_bytes: 150.0 };
        assert_eq!(before.until(next, 0), Sample { at_s: 1.05, cpu: 0.75, disk: 1e8, network: 2000.0 });
    }

    #[test]
    fn looks_go_on_until_the_end() {
        let series = Series::begin("0:0", None);
        std::thread::sleep(3 * PERIOD);
        let samples = series.end().unwrap();
        assert!(!samples.is_empty() && samples.windows(2).all(|two| two[0].at_s < two[1].at_s), "{samples:?}");
        assert!(samples.iter().all(|sample| (0.0..=1.0).contains(&sample.cpu)), "{samples:?}");
        assert!(Series::begin("0:0", Some("/no/such/namespace".into())).end().is_err());
    }

    #[test]
    fn bars_are_means() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0, 2.0], 1.0, 10), " ▄██");
        assert_eq!(sparkline(&[0.0, 1.0, 1.0, 1.0], 1.0, 2), "▄█");
        assert_eq!(sparkline(&[], 1.0, 10), "");
    }
}
