//! The identity of this machine, which a report names as the place of its measurement.

use crate::cpuinfo;
use crate::namespace;
use crate::root::Root;

/// A machine. Facts that could not be read are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Host name, as uname(2) returns it.
    pub name: Option<String>,
    /// Random id that the kernel makes anew at each boot.
    pub boot_id: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Model name of the CPUs.
    pub cpu_model: Option<String>,
}

impl Host {
    /// Reads the facts about a machine.
    pub fn read(root: &Root) -> Host {
        let line = |path: &str| {
            let text = root.read_text(path).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        Host {
            name: line("/proc/sys/kernel/hostname"),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu_model: cpu_model(root),
        }
    }
}

/// Returns the CPU model of the first CPU that has one. x86 kernels print it as `model name`. arm64 kernels print only
/// the numbers of the implementer and the part; the returned name is made of these numbers.
fn cpu_model(root: &Root) -> Option<String> {
    let value = |name: &str| cpuinfo::value(root, name);
    let by_numbers = || Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").or_else(|| value("Processor")).or_else(by_numbers)
}

/// Returns the kind of container this process is in, judged by files and variables that container engines leave; `None`
/// if there are none.
///
/// `is_set` returns whether an environment variable is set.
///
/// - Docker: `/.dockerenv`. Podman: `/run/.containerenv`. systemd-nspawn and others: `/run/systemd/container` (systemd's Container Interface).
/// - Apptainer and Singularity: variables that they set.
/// - Kubernetes: a variable that it sets in each container.
/// - Otherwise: a PID namespace other than the machine's first one.
pub fn container(root: &Root, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let engine = |variable: &str, name: &str| is_set(variable).then(|| name.to_owned());
    let named =
        || Some(root.read_text("/run/systemd/container").ok()?.trim().to_owned()).filter(|name| !name.is_empty());
    let file = |path: &str, name: &str| root.exists(path).then(|| name.to_owned());
    engine("KUBERNETES_SERVICE_HOST", "kubernetes")
        .or_else(|| engine("APPTAINER_CONTAINER", "apptainer"))
        .or_else(|| engine("SINGULARITY_CONTAINER", "singularity"))
        .or_else(|| file("/.dockerenv", "docker"))
        .or_else(|| file("/run/.containerenv", "podman"))
        .or_else(named)
        .or_else(|| namespace::of_this_process(root).ok().flatten().map(|_| "PID namespace".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn a_host_says_what_it_is() {
        let (_folder, root) = machine(&[
            ("proc/sys/kernel/hostname", "node17\n"),
            ("proc/sys/kernel/random/boot_id", "5f1e\n"),
            ("proc/sys/kernel/osrelease", "6.12.48\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Fast CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Slow\n",
            ),
        ]);
        let text = |text: &str| Some(text.to_owned());
        let expected = Host {
            name: text("node17"),
            boot_id: text("5f1e"),
            kernel: text("6.12.48"),
            cpu_model: text("Fast CPU @ 2.00GHz"),
        };
        assert_eq!(Host::read(&root), expected);
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let (_folder, root) = machine(&[
            ("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"),
            ("proc/sys/kernel/hostname", "\n"),
        ]);
        let expected = Host { cpu_model: Some("implementer 0x41 part 0xd0c".into()), ..Host::default() };
        assert_eq!(Host::read(&root), expected);
    }

    #[test]
    fn a_container_is_known_by_what_its_engine_leaves_there() {
        let seen = |files: &[(&str, &str)]| {
            let (_folder, root) = machine(files);
            container(&root, |_| false)
        };
        assert_eq!(seen(&[(".dockerenv", "")]).as_deref(), Some("docker"));
        assert_eq!(seen(&[("run/.containerenv", "engine=\"podman-5\"")]).as_deref(), Some("podman"));
        assert_eq!(seen(&[("run/systemd/container", "systemd-nspawn\n")]).as_deref(), Some("systemd-nspawn"));
        assert_eq!(seen(&[]), None);
        let (_folder, root) = machine(&[]);
        assert_eq!(container(&root, |name| name == "APPTAINER_CONTAINER").as_deref(), Some("apptainer"));
    }
}
