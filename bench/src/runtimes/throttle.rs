//! A disk of a known speed: the folder's device, throttled by a control group (blkio of cgroup v1). The disk's speed is then the limit and need not
//! be measured.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::leftovers;

/// Mount point of the block I/O controller (blkio of cgroup v1) on most systems.
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// A control group whose processes share the limit; removed when the value is dropped.
pub struct Throttle {
    group: PathBuf,
    device: String,
}

impl Throttle {
    /// Makes a control group that can limit the speed of the disk that has `folder`.
    ///
    /// # Errors
    /// Without root, or without the blkio controller.
    pub fn new(folder: &Path) -> Result<Throttle> {
        let device = std::fs::metadata(folder).with_context(|| format!("{}", folder.display()))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // A partition has no request queue of its own: use the device number of the whole disk.
        let disk = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/../dev"));
        let is_partition = Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists();
        let device = disk.ok().filter(|_| is_partition).unwrap_or_else(|| format!("{major}:{minor}"));
        for name in leftovers::in_folder(Path::new(BLKIO)) {
            // A group that still has a process cannot be removed; it stays until a later clean-up.
            let _ = std::fs::remove_dir(Path::new(BLKIO).join(name));
        }
        let group = Path::new(BLKIO).join(leftovers::name(""));
        std::fs::create_dir(&group).with_context(|| format!("throttling the disk needs root and {BLKIO}"))?;
        Ok(Throttle { group, device: device.trim().to_owned() })
    }

    /// Limits the device to `bytes_a_second` for reading, and to the same speed for writing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&self, bytes_a_second: u64) -> Result<()> {
        for direction in ["read", "write"] {
            let file = self.group.join(format!("blkio.throttle.{direction}_bps_device"));
            std::fs::write(&file, format!("{} {bytes_a_second}", self.device))
                .with_context(|| format!("throttling {}", self.device))?;
        }
        Ok(())
    }

    /// Returns the disk's device number, such as "254:0".
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the words that precede a command to put it into the group.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        let enter = "echo $$ > \"$0\" && exec \"$@\"";
        vec!["sh".into(), "-c".into(), enter.into(), self.group.join("cgroup.procs").into()]
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // This succeeds if all processes of the group have ended. Otherwise, a later experiment removes the group.
        let _ = std::fs::remove_dir(&self.group);
    }
}
