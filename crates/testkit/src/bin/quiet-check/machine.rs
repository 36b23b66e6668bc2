//! What a machine has beside cox: services with processes, which are in cgroups of their own, and programs of users.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use testkit::machine_state::{MachineState, ThreadState, threads};

/// Mount point of the cgroups.
pub const CGROUPS: &str = "/sys/fs/cgroup";
/// Cgroups of services.
const SERVICES: [&str; 3] = ["system.slice", "system.slice/a.service", "user.slice"];

/// Processes that are there before cox comes, and stay until this is dropped.
pub struct Machine {
    processes: Vec<Child>,
}

impl Machine {
    /// Starts the processes: in the root cgroup and in services, with masks of all CPUs and with others.
    pub fn new() -> Machine {
        let mut machine = Machine { processes: Vec::new() };
        for service in SERVICES {
            fs::create_dir_all(Path::new(CGROUPS).join(service)).unwrap();
        }
        machine.start("wait", "", None);
        machine.start("wait", "", Some("2,3"));
        machine.start("wait", "system.slice/a.service", None);
        machine.start("wait", "system.slice/a.service", Some("1,3"));
        machine.start("wait", "user.slice", None);
        machine
    }

    /// Turns the controller of cpusets on, as for a service with `AllowedCPUs=`, and gives one service CPUs of its own.
    pub fn with_cpusets(self) -> Machine {
        fs::write(Path::new(CGROUPS).join("cgroup.subtree_control"), "+cpuset").unwrap();
        fs::write(Path::new(CGROUPS).join("user.slice/cpuset.cpus"), "1-3").unwrap();
        self
    }

    /// Returns the threads of programs that began after `before`, and cannot use all CPUs of this process or are in a cgroup of cox, one line each.
    pub fn strays(&self, before: &MachineState) -> Vec<String> {
        let now = threads();
        let own = now.iter().find(|((tid, _), _)| *tid == std::process::id()).map(|(_, own)| own.cpus.clone());
        let is_stray = |thread: &ThreadState| {
            !thread.is_of_kernel && (Some(&thread.cpus) != own.as_ref() || thread.cgroups.contains("cox-quiet"))
        };
        let new = now.iter().filter(|(id, thread)| !before.threads.contains_key(id) && is_stray(thread));
        new.map(|((tid, _), thread)| {
            format!("new thread {tid} ({}): CPUs {}, cgroup {}", thread.name, thread.cpus, thread.cgroups)
        })
        .collect()
    }

    /// Starts one of the programs, in a cgroup.
    pub fn start(&mut self, program: &str, cgroup: &str, cpus: Option<&str>) {
        let child = own(&[program]).stdin(Stdio::piped()).spawn().unwrap();
        fs::write(Path::new(CGROUPS).join(cgroup).join("cgroup.procs"), child.id().to_string()).unwrap();
        if let Some(cpus) = cpus {
            let mut mask = CpuSet::new();
            cpus.split(',').for_each(|cpu| mask.set(cpu.parse().unwrap()));
            sched_setaffinity(Some(Pid::from_child(&child)), &mask).unwrap();
        }
        self.processes.push(child);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
        for service in SERVICES.iter().rev() {
            let _ = fs::remove_dir(Path::new(CGROUPS).join(service));
        }
        let _ = fs::write(Path::new(CGROUPS).join("cgroup.subtree_control"), "-cpuset");
    }
}

/// Returns a command that runs this program.
pub fn own(words: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(words);
    command
}
