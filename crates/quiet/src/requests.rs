//! Which knobs a plan changes, as requests to a session of `changes`. Pure functions.

use std::path::{Path, PathBuf};

use changes::format::Change;
use changes::{ChangeRequest, Claim, Knob, Thread, Value};
use machine::CpuSet;

use crate::cpusets::{OwnCpusets, is_quiet_list};
use crate::level::Level;
use crate::plan::{Plan, What};
use crate::tasks::Task;

/// Name of the engine in journals and messages.
pub const ENGINE: &str = "quiet";

/// Returns the CPUs that the changes of a session keep quiet: those of its program's cpuset, and those that other
/// settings must do without. In version 2 of cgroups, level cgroup need not have any of the latter.
#[must_use]
pub fn quiet_cpus(changes: &[Change]) -> CpuSet {
    let of = |change: &Change| match (&change.knob, &change.claim) {
        (Knob::CpuList(file), Claim::Exactly(Value::Cpus(cpus))) if is_quiet_list(file) => Some(cpus.clone()),
        (_, claim) => claim.kept_free().cloned(),
    };
    changes.iter().filter_map(of).fold(CpuSet::new(), |all, cpus| all.union(&cpus))
}

/// Returns the folders of the cpusets that the changes of a session have made for its program.
#[must_use]
pub fn quiet_folders(changes: &[Change]) -> Vec<PathBuf> {
    let of = |change: &Change| match &change.knob {
        Knob::CpuList(file) if is_quiet_list(file) => file.parent().map(Path::to_owned),
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

fn request(knob: Knob, claim: Claim) -> ChangeRequest {
    ChangeRequest { engine: ENGINE.to_owned(), knob, claim, heir_of: Vec::new() }
}

/// Returns requests to journal the masks of these threads: the kernel changes them when cpusets change, and need not restore
/// them. `creators` returns the tasks that a thread comes from.
pub(crate) fn masks(plan: &Plan, tasks: &[Task], creators: impl Fn(Thread) -> Vec<Thread>) -> Vec<ChangeRequest> {
    let confined = |task: &Task| ChangeRequest {
        // It may have inherited a mask that a session has set.
        heir_of: if loses_cpus(plan, task) { creators(task.thread) } else { Vec::new() },
        ..request(Knob::Affinity(task.thread), Claim::Confined)
    };
    tasks.iter().map(confined).collect()
}

/// Returns whether a thread stays in its cgroup and loses the quiet CPUs of its mask: a user thread of version 2's root.
fn loses_cpus(plan: &Plan, task: &Task) -> bool {
    let is_in_root = |own: &OwnCpusets| own.system.is_none() && task.cgroup.as_deref() == Some(&own.hierarchy);
    !task.is_of_kernel && plan.cpusets.as_ref().is_some_and(is_in_root)
}

/// Returns the requests of a plan's settings on some levels, in order.
pub(crate) fn settings(plan: &Plan, is_wanted: impl Fn(Level) -> bool) -> Vec<ChangeRequest> {
    let steps = plan.steps.iter().filter(|step| is_wanted(step.level));
    let settings =
        steps.filter_map(|step| if let What::Settings(settings) = &step.what { Some(settings) } else { None });
    settings.flatten().map(|(knob, claim)| request(knob.clone(), claim.clone())).collect()
}

/// Returns the folders of the cpusets that a plan shrinks or makes.
pub(crate) fn cpusets(plan: &Plan) -> Vec<PathBuf> {
    let Some(own) = &plan.cpusets else { return Vec::new() };
    let files = settings(plan, |level| level == Level::Cgroup).into_iter();
    let files = files.filter_map(|request| if let Knob::CpuList(file) = request.knob { Some(file) } else { None });
    files.filter(|file| file.starts_with(&own.hierarchy)).filter_map(|file| Some(file.parent()?.to_owned())).collect()
}

/// Returns the request that takes CPUs from a cpuset of version 1 that was made meanwhile.
pub(crate) fn new_cpuset(plan: &Plan, folder: &Path, cpus: &CpuSet) -> ChangeRequest {
    let prefix = plan.cpusets.as_ref().map_or("cpuset.", |own| own.prefix);
    request(Knob::CpuList(folder.join(format!("{prefix}cpus"))), plan.chosen.claim_on(cpus))
}

/// Returns the requests that keep threads of the root cpuset away from the quiet CPUs. In version 1, they move to the system's
/// cpuset. In version 2, the masks of user threads lose the quiet CPUs that the partition has left them: a process there may
/// not leave the cgroup whose limits it has. Threads of other cgroups keep them; their cpusets have lost the quiet CPUs.
pub(crate) fn away(plan: &Plan, tasks: &[Task]) -> Vec<ChangeRequest> {
    let Some(own) = &plan.cpusets else { return Vec::new() };
    if own.system.is_none() {
        return tasks.iter().filter(|task| loses_cpus(plan, task)).filter_map(|task| without(plan, task)).collect();
    }
    let in_root = tasks.iter().filter(|task| task.cgroup.as_deref() == Some(&own.hierarchy));
    in_root.filter_map(|task| into_system(own, task)).collect()
}

/// Returns the requests to keep threads in the system's cpuset, where another session has moved them.
pub(crate) fn stay(plan: &Plan, tasks: &[Task]) -> Vec<ChangeRequest> {
    let Some(own) = &plan.cpusets else { return Vec::new() };
    tasks.iter().filter_map(|task| into_system(own, task)).collect()
}

fn into_system(own: &OwnCpusets, task: &Task) -> Option<ChangeRequest> {
    let knob = Knob::Membership { thread: task.thread, hierarchy: own.hierarchy.clone() };
    Some(request(knob, Claim::Exactly(Value::Cgroup(own.system.clone()?))))
}

/// Returns the requests that keep threads of the kernel away which no cpuset keeps away.
pub(crate) fn kernel_threads(plan: &Plan, tasks: &[Task]) -> Vec<ChangeRequest> {
    let is_wanted = plan.steps.iter().any(|step| step.what == What::KernelThreads);
    let of_kernel = tasks.iter().filter(|task| is_wanted && task.is_of_kernel);
    of_kernel.filter_map(|task| without(plan, task)).collect()
}

/// Returns the request that takes the quiet CPUs from a thread's mask; `None` if it has none of them.
fn without(plan: &Plan, task: &Task) -> Option<ChangeRequest> {
    let is_there = !task.mask.intersection(&plan.chosen.cpus).is_empty();
    is_there.then(|| request(Knob::Affinity(task.thread), plan.chosen.claim()))
}

/// Returns the requests that move the program's processes to the quiet cpuset.
pub(crate) fn program(plan: &Plan, tasks: &[Task]) -> Vec<ChangeRequest> {
    let Some(own) = &plan.cpusets else { return Vec::new() };
    let into = |task: &Task| {
        let knob = Knob::Membership { thread: task.thread, hierarchy: own.hierarchy.clone() };
        request(knob, Claim::Exactly(Value::Cgroup(own.quiet.clone())))
    };
    tasks.iter().map(into).collect()
}
