//! A disk of a known speed: the folder's device, throttled by a control group (blkio of cgroup v1). Its ceiling is what is set, so no
//! other program needs to find it out.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::leftovers;

/// Where v1's controller is mounted on most systems.
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// A control group whose members share the speed; removed when dropped.
pub struct Throttle {
    group: PathBuf,
    device: String,
}

impl Throttle {
    /// A group for the device that `folder` is on.
    ///
    /// # Errors
    /// Without root, or without the controller.
    pub fn new(folder: &Path) -> Result<Throttle> {
        let device = std::fs::metadata(folder).with_context(|| format!("{}", folder.display()))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // A partition has no queue of its own: the disk's number is needed.
        let disk = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/../dev"));
        let is_partition = Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists();
        let device = disk.ok().filter(|_| is_partition).unwrap_or_else(|| format!("{major}:{minor}"));
        for name in leftovers::in_folder(Path::new(BLKIO)) {
            // One with a process still in it stays until the next time.
            let _ = std::fs::remove_dir(Path::new(BLKIO).join(name));
        }
        let group = Path::new(BLKIO).join(leftovers::name(""));
        std::fs::create_dir(&group).with_context(|| format!("throttling needs root and {BLKIO}"))?;
        Ok(Throttle { group, device: device.trim().to_owned() })
    }

    /// So many bytes a second may be read, and as many written.
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

    /// The disk's number: "254:0".
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Words before a command that has to keep to this speed.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        let enter = "echo $$ > \"$0\" && exec \"$@\"";
        vec!["sh".into(), "-c".into(), enter.into(), self.group.join("cgroup.procs").into()]
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Members have ended; if not, the next experiment removes it.
        let _ = std::fs::remove_dir(&self.group);
    }
}
