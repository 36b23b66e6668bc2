//! Files of the kernel that have one value, each in its own form. Values of one meaning are equal, however the kernel
//! writes them: `3` and `00000003`, `0,1` and `0-1`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use machine::CpuSet;

use crate::knob::Knob;
use crate::value::Value;

/// Folders whose files are settings of the kernel.
const SETTINGS: [&str; 3] = ["/proc/sys", "/proc/irq", "/sys"];

/// A file that shows what was written to another one. The workqueues' `cpumask` leaves out the CPUs of isolated
/// partitions, so restoring it would lose CPUs (kernel/workqueue.c, Linux 6.7).
const REQUESTED: (&str, &str) = ("cpumask", "cpumask_requested");

/// How a file writes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Mask,
    List,
    Choice,
}

impl Form {
    /// Returns the form of a knob that is one file; `None` for other knobs.
    pub(super) fn of(knob: &Knob) -> Option<Form> {
        match knob {
            Knob::File(_) => Some(Form::Text),
            Knob::CpuMask(_) => Some(Form::Mask),
            Knob::CpuList(_) => Some(Form::List),
            Knob::Choice(_) => Some(Form::Choice),
            _ => None,
        }
    }

    /// Converts the text of a file, without its final line end. A text that does not have this form stays a text: the
    /// caller compares it with what was wanted, and names it.
    fn parse(self, text: &str) -> Value {
        let cpus = match self {
            Form::Text => None,
            Form::Mask => CpuSet::from_mask(text).ok(),
            Form::List => text.parse().ok(),
            Form::Choice => {
                let chosen = text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
                return Value::Text(chosen.unwrap_or(text).to_owned());
            }
        };
        cpus.map_or_else(|| Value::Text(text.to_owned()), Value::Cpus)
    }

    /// Returns the text that sets a value; `None` if the file cannot have such a value.
    fn text(self, value: &Value) -> Option<String> {
        match (self, value) {
            (Form::Text | Form::Choice, Value::Text(text)) => Some(text.clone()),
            (Form::Mask, Value::Cpus(cpus)) => Some(cpus.to_mask()),
            (Form::List, Value::Cpus(cpus)) => Some(cpus.to_string()),
            _ => None,
        }
    }

    pub(super) fn read(self, path: &Path) -> io::Result<Value> {
        let requested = path.with_file_name(REQUESTED.1);
        let path = if path.ends_with(REQUESTED.0) && requested.exists() { &requested } else { path };
        let text = fs::read_to_string(path)?;
        Ok(self.parse(text.trim_end_matches('\n')))
    }

    /// Sets a value. Written in one call, as sysfs and procfs require. The file is never created.
    pub(super) fn write(self, path: &Path, value: &Value) -> io::Result<()> {
        let unfit = || io::Error::other(format!("this kind of setting cannot have the value {value}"));
        let text = self.text(value).ok_or_else(unfit)?;
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(format!("{text}\n").as_bytes())
    }
}

/// Returns the value that the text of a knob's file stands for; the text itself for knobs that are not files.
#[must_use]
pub fn value_of(knob: &Knob, text: &str) -> Value {
    let text = text.trim_end_matches('\n');
    Form::of(knob).map_or_else(|| Value::Text(text.to_owned()), |form| form.parse(text))
}

/// Returns whether a file is one of the kernel's settings, and not an ordinary file. Only settings may be written, but
/// a journal may name any file. `cgroups` are the mount points of cgroup hierarchies.
pub(super) fn is_setting<'p>(path: &Path, cgroups: impl IntoIterator<Item = &'p PathBuf>) -> bool {
    let is_below = SETTINGS.iter().map(Path::new).chain(cgroups.into_iter().map(PathBuf::as_path));
    is_below.into_iter().any(|folder| path.starts_with(folder)) && is_straight(path)
}

/// Returns whether no part of a path leads up.
pub(super) fn is_straight(path: &Path) -> bool {
    !path.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> Value {
        Value::Cpus(list.parse().unwrap())
    }

    #[test]
    fn values_of_one_meaning_are_equal() {
        assert_eq!((Form::Mask.parse("00000003"), Form::Mask.parse("0")), (cpus("0-1"), cpus("")));
        assert_eq!((Form::List.parse("0,1"), Form::List.parse("")), (cpus("0-1"), cpus("")));
        assert_eq!(Form::Choice.parse("always [madvise] never"), Value::Text("madvise".into()));
        assert_eq!(Form::Text.parse("0,1"), Value::Text("0,1".into()));
    }

    #[test]
    fn what_does_not_have_the_form_stays_as_it_is() {
        let invalid = "isolated invalid (Cpu list in cpuset.cpus not exclusive)";
        for form in [Form::Mask, Form::List, Form::Choice, Form::Text] {
            assert_eq!(form.parse(invalid), Value::Text(invalid.into()));
        }
    }

    #[test]
    fn each_file_is_written_in_its_own_form() {
        assert_eq!(
            (Form::Mask.text(&cpus("0-1,33")).as_deref(), Form::Mask.text(&cpus(""))),
            (Some("2,00000003"), Some("0".into()))
        );
        assert_eq!(
            (Form::List.text(&cpus("0-1,33")).as_deref(), Form::List.text(&cpus(""))),
            (Some("0-1,33"), Some(String::new()))
        );
        assert_eq!(Form::Choice.text(&Value::Text("never".into())).as_deref(), Some("never"));
        assert_eq!((Form::Mask.text(&Value::Text("3".into())), Form::Text.text(&cpus("3"))), (None, None));
    }

    #[test]
    fn settings_are_below_the_kernels_folders_only() {
        let cgroups = [PathBuf::from("/dev/cpuset")];
        let is_setting = |path: &str| is_setting(Path::new(path), &cgroups);
        for path in
            ["/proc/sys/vm/x", "/proc/irq/24/smp_affinity", "/sys/fs/cgroup/a/cpuset.cpus", "/dev/cpuset/a/cpus"]
        {
            assert!(is_setting(path), "{path}");
        }
        for path in
            ["/proc/1/mem", "/etc/passwd", "/proc/irqs", "/sys/../etc/passwd", "/dev/cpuset2", "proc/sys/x", "/dev/cpu"]
        {
            assert!(!is_setting(path), "{path}");
        }
    }
}
