//! The release of the running kernel and its configuration.

use std::fmt;
use std::io::Read;

use flate2::read::GzDecoder;

use crate::error::Error;
use crate::root::{Root, present};

/// A kernel release, e.g. `6.1.0-18-amd64`.
///
/// Distributions backport features into older releases and never remove them. A release that is new enough therefore
/// proves that a feature is present. An older release does not prove that the feature is absent; it is used as a sign
/// of this only if no better probe exists.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Release {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// The whole text, as uname(1) prints it.
    pub text: String,
}

impl Release {
    /// Reads a release text; `None` when it does not start with two numbers.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.splitn(3, '.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?;
        let digits = minor.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(minor.len());
        Some(Self { major, minor: minor[..digits].parse().ok()?, text: text.to_owned() })
    }

    /// Returns whether this is `major.minor` or newer.
    #[must_use]
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Returns whether the kernel has `bpf_task_pt_regs`, with which the eBPF record reads user registers: since Linux
    /// 5.15.
    pub(super) fn has_task_registers(&self) -> bool {
        self.is_at_least(5, 15)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// The configuration's value for one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting<'a> {
    /// Set to the given value (`y`, `m`, a number).
    On(&'a str),
    /// Known, but not set (`# CONFIG_X is not set`).
    Off,
    /// Not mentioned: this kernel does not know the option, or a dependency of the option is off.
    Absent,
}

/// The configuration a kernel was built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelConfig {
    text: String,
}

impl KernelConfig {
    /// Wraps a configuration text in the form of `.config`.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Searches the places where kernels and distributions store the configuration; `None` if no file exists, which is
    /// normal.
    ///
    /// # Errors
    /// When a file exists but cannot be read or unpacked.
    pub fn read(root: &Root, release: &Release) -> Result<Option<Self>, Error> {
        const PACKED: &str = "/proc/config.gz";
        if let Some(packed) = present(root.read(PACKED))? {
            let mut bytes = Vec::new();
            GzDecoder::new(packed.as_slice())
                .read_to_end(&mut bytes)
                .map_err(|source| Error::Read { path: root.path(PACKED), source })?;
            return Ok(Some(Self::from_text(String::from_utf8_lossy(&bytes))));
        }
        for path in [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")] {
            if let Some(text) = present(root.read_text(path))? {
                return Ok(Some(Self::from_text(text)));
            }
        }
        Ok(None)
    }

    /// Returns the setting of an option, named without `CONFIG_`.
    #[must_use]
    pub fn setting(&self, option: &str) -> Setting<'_> {
        let (set, unset) = (format!("CONFIG_{option}="), format!("# CONFIG_{option} is not set"));
        self.text
            .lines()
            .find_map(|line| line.strip_prefix(&set).map(Setting::On).or((line == unset).then_some(Setting::Off)))
            .unwrap_or(Setting::Absent)
    }

    /// Returns whether an option is set.
    #[must_use]
    pub fn is_set(&self, option: &str) -> bool {
        matches!(self.setting(option), Setting::On(_))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn releases_of_several_distributions() {
        for (text, major, minor) in [
            ("6.18.44-fc-v669", 6, 18),
            ("5.10.0-28-amd64", 5, 10),
            ("5.15-rc3+", 5, 15),
            ("5.14.0-427.13.1.el9_4.x86_64", 5, 14),
            ("7.0", 7, 0),
        ] {
            let release = Release::parse(text).expect(text);
            assert_eq!((release.major, release.minor, release.to_string().as_str()), (major, minor, text));
        }
        for text in ["", "6", "x.y", "6.x"] {
            assert_eq!(Release::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn versions_compare_by_number() {
        let release = Release::parse("6.2.1").expect("release");
        assert!(release.is_at_least(6, 2) && release.is_at_least(5, 15) && release.is_at_least(4, 17));
        assert!(!release.is_at_least(6, 10) && !release.is_at_least(7, 0));
    }

    #[test]
    fn settings_are_found_by_their_whole_name() {
        let config = KernelConfig::from_text(
            "# Linux\nCONFIG_PSI_DEFAULT=y\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_HZ=250\nCONFIG_BPF=y\n",
        );
        assert_eq!(config.setting("HZ"), Setting::On("250"));
        assert_eq!(config.setting("NO_HZ_FULL"), Setting::Off);
        assert_eq!(config.setting("PSI"), Setting::Absent);
        assert!(config.is_set("BPF") && !config.is_set("NO_HZ_FULL"));
    }

    #[test]
    fn the_places_are_tried_in_order() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = Root::at(folder.path());
        let release = Release::parse("6.1.0-18-amd64").expect("release");
        let read = || KernelConfig::read(&root, &release);
        assert_eq!(read().expect("absence is fine"), None);

        std::fs::create_dir_all(folder.path().join("lib/modules/6.1.0-18-amd64")).expect("mkdir");
        std::fs::write(folder.path().join("lib/modules/6.1.0-18-amd64/config"), "CONFIG_A=1\n").expect("write");
        assert_eq!(read().expect("text").expect("found").setting("A"), Setting::On("1"));

        std::fs::create_dir(folder.path().join("boot")).expect("mkdir");
        std::fs::write(folder.path().join("boot/config-6.1.0-18-amd64"), "CONFIG_A=2\n").expect("write");
        assert_eq!(read().expect("text").expect("found").setting("A"), Setting::On("2"));

        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(b"CONFIG_A=3\n").expect("pack");
        std::fs::create_dir(folder.path().join("proc")).expect("mkdir");
        std::fs::write(folder.path().join("proc/config.gz"), packed.finish().expect("pack")).expect("write");
        assert_eq!(read().expect("text").expect("found").setting("A"), Setting::On("3"));

        std::fs::write(folder.path().join("proc/config.gz"), "no gzip").expect("write");
        let error = read().expect_err("not gzip");
        assert!(error.to_string().contains("proc/config.gz"), "{error}");
    }
}
