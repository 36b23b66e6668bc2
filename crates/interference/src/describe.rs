//! Causes in words, and what silences them.

use wire::layout::{ANOTHER_USERS, OUTSIDE};
use wire::noise::Vector;

use crate::cause::{Cause, NOT_SEEN, Sender};

/// Names of what a cause knows by number.
pub trait Names {
    /// Returns the name of the kernel's function with this number.
    fn function(&self, number: u64) -> Option<String>;
    /// Returns the devices of an interrupt.
    fn devices(&self, irq: u32) -> Option<String>;
    /// Returns the name of a system call.
    fn call(&self, number: u32) -> Option<String>;
    /// Returns whether this kernel can stop its tick on CPUs that are busy (`nohz_full`).
    fn can_stop_ticks(&self) -> bool {
        true
    }
}

/// Whose id a cause has.
enum Who {
    /// The idle task of a CPU. It has the id 0 on the machine, so in a container it is outside.
    Idle,
    /// Some thread of another user.
    AnotherUsers,
    /// No event named the thread.
    NotSeen,
    /// A thread, by the id in cox's PID namespace.
    Inside(u32),
    /// A thread outside cox's PID namespace, by the id on the machine.
    Outside(u32),
}

impl Who {
    fn of(tid: u32) -> Who {
        match tid {
            0 | OUTSIDE => Who::Idle,
            ANOTHER_USERS => Who::AnotherUsers,
            NOT_SEEN => Who::NotSeen,
            tid if tid & OUTSIDE == 0 => Who::Inside(tid),
            tid => Who::Outside(tid & !OUTSIDE),
        }
    }
}

/// Returns a thread with its name: `java(991)`, or `java (outside the container, host 991)`.
fn thread(comm: &str, who: &Who) -> String {
    match who {
        Who::Idle => "an idle CPU".to_owned(),
        Who::AnotherUsers => "another user's thread".to_owned(),
        Who::NotSeen => "a thread that was not seen".to_owned(),
        Who::Inside(tid) if comm.is_empty() => tid.to_string(),
        Who::Inside(tid) => format!("{comm}({tid})"),
        Who::Outside(tid) => {
            format!("{comm}{}(outside the container, host {tid})", if comm.is_empty() { "" } else { " " })
        }
    }
}

/// Names of softirqs, by number (`include/linux/interrupt.h`).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Functions of the periodic tick: its name since Linux 6.8 and before.
const TICKS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// The name of functions whose name is not known: that of a module that is no longer there, or one too many. Their addresses are never shown.
pub const UNNAMED: &str = "a function without a name";

/// The name of a cause in text and JSON.
#[must_use]
pub fn name(cause: &Cause, names: &dyn Names) -> String {
    let function = |number: u64| names.function(number).unwrap_or_else(|| UNNAMED.to_owned());
    match cause {
        Cause::Timer { function: at } => match function(*at) {
            tick if is_tick(&tick) => "timer tick".to_owned(),
            other => format!("timer: {other}"),
        },
        Cause::Irq(number) => match names.devices(*number) {
            Some(devices) => format!("device interrupt {number} ({devices})"),
            None => format!("device interrupt {number}"),
        },
        Cause::Softirq(number) => match SOFTIRQS.get(*number as usize) {
            Some(name) => format!("softirq {name}"),
            None => format!("softirq {number}"),
        },
        Cause::SoftTimer { function: at } => format!("timer function {}", function(*at)),
        Cause::Call { function: at, sender } => {
            let what = if *at == 0 { "function call".to_owned() } else { call(&function(*at)) };
            format!("IPI: {what}{}", by(sender.as_ref(), names))
        }
        Cause::Reschedule { sender } => format!("IPI: reschedule{}", by(sender.as_ref(), names)),
        Cause::Vector(vector) => vector_name(*vector).to_owned(),
        Cause::Nmi { handler } => format!("NMI: {}", function(*handler)),
        Cause::Fault { in_kernel, major } => {
            let kind = if *major { "major page fault" } else { "page fault" };
            if *in_kernel { format!("{kind} in the kernel") } else { kind.to_owned() }
        }
        Cause::Thread { tid, comm } => match Who::of(*tid) {
            Who::Idle => "CPU was idle".to_owned(),
            who @ (Who::AnotherUsers | Who::NotSeen) => thread(comm, &who),
            who => format!("thread {}", thread(comm, &who)),
        },
        Cause::Work { function: at } => format!("kworker: {}", function(*at)),
    }
}

fn is_tick(function: &str) -> bool {
    TICKS.contains(&function)
}

/// What another CPU wanted, by the function that it had called here.
fn call(function: &str) -> String {
    match function {
        "flush_tlb_func" | "flush_tlb_func_remote" | "do_flush_tlb_all" | "do_kernel_range_flush" => {
            "TLB flush".to_owned()
        }
        "ipi_mb" | "ipi_sync_core" | "ipi_rseq" => "membarrier".to_owned(),
        "do_sync_core" => "kernel code was patched".to_owned(),
        other => other.to_owned(),
    }
}

fn by(sender: Option<&Sender>, names: &dyn Names) -> String {
    let Some(sender) = sender else { return " (sender not seen)".to_owned() };
    let call = sender.call.and_then(|number| names.call(number));
    let call = call.map_or_else(String::new, |name| format!(", {name}"));
    let who = Who::of(sender.tid);
    let sent = thread(&sender.comm, &who);
    match who {
        Who::Inside(_) | Who::Outside(_) => format!(" by {sent}{call}"),
        _ => format!(" by {sent}"),
    }
}

fn vector_name(vector: Vector) -> &'static str {
    match vector {
        Vector::LocalTimer => "timer interrupt without a timer",
        Vector::Reschedule => "IPI: reschedule",
        Vector::CallFunction | Vector::CallFunctionSingle => "IPI: function call",
        Vector::IrqWork => "deferred work (irq_work)",
        Vector::PlatformIpi => "platform IPI",
        Vector::Spurious => "spurious interrupt",
        Vector::Error => "interrupt controller error",
        Vector::Thermal => "thermal interrupt",
        Vector::Threshold => "machine-check threshold interrupt",
        Vector::DeferredError => "deferred machine error",
    }
}

/// A class of causes in JSON, and for colours.
#[must_use]
pub fn class(cause: &Cause, names: &dyn Names) -> &'static str {
    match cause {
        Cause::Timer { function } if names.function(*function).is_some_and(|name| is_tick(&name)) => "tick",
        Cause::Timer { .. } | Cause::SoftTimer { .. } | Cause::Vector(Vector::LocalTimer) => "timer",
        Cause::Irq(_) => "device",
        Cause::Softirq(_) => "softirq",
        Cause::Call { .. } | Cause::Reschedule { .. } => "ipi",
        Cause::Vector(Vector::CallFunction | Vector::CallFunctionSingle | Vector::Reschedule | Vector::PlatformIpi) => {
            "ipi"
        }
        Cause::Vector(_) | Cause::Nmi { .. } => "other interrupt",
        Cause::Fault { .. } => "page fault",
        Cause::Thread { .. } => "thread",
        Cause::Work { .. } => "kworker",
    }
}

/// Returns what would silence a cause; `None` if nothing that cox knows does. The knobs are those of docs/noise.md.
#[must_use]
pub fn knob(cause: &Cause, names: &dyn Names) -> Option<String> {
    let function = |address: u64| names.function(address).unwrap_or_default();
    let nohz_full =
        || format!("nohz_full=CPUS at boot{}", if names.can_stop_ticks() { "" } else { " (this kernel lacks it)" });
    Some(match cause {
        Cause::Timer { function: at } if is_tick(&function(*at)) => nohz_full(),
        Cause::Timer { function: at } if function(*at) == "hrtimer_wakeup" => {
            quiet("cgroup", "keep threads that sleep with a timer off this CPU")
        }
        Cause::Timer { function: at } if function(*at) == "watchdog_timer_fn" => {
            quiet("full", "kernel.watchdog_cpumask")
        }
        Cause::Timer { function: at } if function(*at).starts_with("perf_") => {
            "end the profiler that samples this CPU".to_owned()
        }
        Cause::Irq(number) => quiet("irq", &format!("/proc/irq/{number}/smp_affinity_list")),
        Cause::Softirq(0 | 6) => return None,
        Cause::Softirq(2 | 3) => "move the network device's interrupt and its rps_cpus".to_owned(),
        Cause::Softirq(4) => "move the disk's interrupt; submit I/O from another CPU".to_owned(),
        Cause::Softirq(7) => quiet("no-balance", "a cpuset without load balancing"),
        Cause::Softirq(9) => "rcu_nocbs=CPUS at boot".to_owned(),
        Cause::Softirq(1) | Cause::SoftTimer { .. } => format!("{}; kernel.timer_migration", nohz_full()),
        Cause::Call { function: at, .. } => match call(&function(*at)).as_str() {
            "TLB flush" => "no munmap, mprotect or madvise in other threads of the process".to_owned(),
            "membarrier" => "no membarrier(2) in other threads of the process".to_owned(),
            "kernel code was patched" => "attach no tracers during the run".to_owned(),
            _ => return None,
        },
        Cause::Reschedule { .. } => quiet("cgroup", "wake no threads on this CPU"),
        Cause::Fault { .. } => "touch and lock the memory beforehand (mlockall, MAP_POPULATE)".to_owned(),
        Cause::Thread { tid, comm } => match Who::of(*tid) {
            Who::Idle | Who::NotSeen => return None,
            Who::AnotherUsers => "reserve the CPU for yourself (batch system, cpuset)".to_owned(),
            Who::Inside(_) | Who::Outside(_) => thread_knob(comm)?,
        },
        Cause::Work { function: at } => match function(*at).as_str() {
            "vmstat_update" => quiet("full", "vm.stat_interval"),
            _ => quiet("work", UNBOUND),
        },
        _ => return None,
    })
}

/// The knob of work items and kworkers.
const UNBOUND: &str = "/sys/devices/virtual/workqueue/cpumask, for unbound workqueues";

/// Returns the level of `cox quiet` that silences a cause, and what that level does about it.
fn quiet(level: &str, what: &str) -> String {
    format!("cox quiet --level {level} ({what})")
}

fn thread_knob(comm: &str) -> Option<String> {
    let bound = ["ksoftirqd/", "migration/", "cpuhp/", "idle_inject/"];
    if bound.iter().any(|prefix| comm.starts_with(prefix)) {
        return None;
    }
    Some(if comm.starts_with("kworker/") {
        quiet("work", UNBOUND)
    } else {
        quiet("cgroup", "keep this thread off the CPU")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with two functions: the tick, and one that other CPUs call.
    struct Kernel {
        has_nohz_full: bool,
    }

    impl Names for Kernel {
        fn function(&self, number: u64) -> Option<String> {
            let name = ["tick_nohz_handler", "flush_tlb_func"].get(number.checked_sub(1)? as usize)?;
            Some((*name).to_owned())
        }

        fn devices(&self, _: u32) -> Option<String> {
            None
        }

        fn call(&self, _: u32) -> Option<String> {
            Some("munmap".to_owned())
        }

        fn can_stop_ticks(&self) -> bool {
            self.has_nohz_full
        }
    }

    const KERNEL: Kernel = Kernel { has_nohz_full: true };

    fn thread(tid: u32, comm: &str) -> Cause {
        Cause::Thread { tid, comm: comm.to_owned() }
    }

    fn sent(tid: u32, comm: &str) -> Cause {
        let sender = Sender { tid, tgid: tid, comm: comm.to_owned(), call: Some(11), place: 0 };
        Cause::Call { function: 2, sender: Some(sender) }
    }

    /// In a container, the ids of threads outside have a bit that is not a part of the id.
    #[test]
    fn threads_outside_the_container_have_their_id_on_the_machine() {
        let threads = [
            (thread(991, "java"), "thread java(991)"),
            (thread(991, ""), "thread 991"),
            (thread(OUTSIDE | 991, "java"), "thread java (outside the container, host 991)"),
            (thread(OUTSIDE | 991, ""), "thread (outside the container, host 991)"),
            (thread(0, "swapper/1"), "CPU was idle"),
            (thread(OUTSIDE, "swapper/1"), "CPU was idle"),
            (thread(ANOTHER_USERS, "another user's"), "another user's thread"),
            (thread(u32::MAX, ""), "a thread that was not seen"),
            (sent(991, "java"), "IPI: TLB flush by java(991), munmap"),
            (sent(OUTSIDE | 991, "java"), "IPI: TLB flush by java (outside the container, host 991), munmap"),
            (sent(OUTSIDE, "swapper/1"), "IPI: TLB flush by an idle CPU"),
            (sent(ANOTHER_USERS, "another user's"), "IPI: TLB flush by another user's thread"),
        ];
        for (cause, expected) in threads {
            assert_eq!(name(&cause, &KERNEL), expected);
        }
    }

    #[test]
    fn only_known_threads_can_be_kept_off_the_cpu() {
        let off = Some("cox quiet --level cgroup (keep this thread off the CPU)");
        for (tid, expected) in [(991, off), (OUTSIDE | 991, off), (0, None), (OUTSIDE, None), (u32::MAX, None)] {
            assert_eq!(knob(&thread(tid, "java"), &KERNEL).as_deref(), expected, "{tid:#x}");
        }
    }

    #[test]
    fn a_knob_that_the_kernel_lacks_says_so() {
        let (tick, timer) = (Cause::Timer { function: 1 }, Cause::SoftTimer { function: 7 });
        let knobs = |has_nohz_full| [&tick, &timer].map(|cause| knob(cause, &Kernel { has_nohz_full }).unwrap());
        assert_eq!(knobs(true), ["nohz_full=CPUS at boot", "nohz_full=CPUS at boot; kernel.timer_migration"]);
        let lacking = "nohz_full=CPUS at boot (this kernel lacks it)";
        assert_eq!(knobs(false), [lacking.to_owned(), format!("{lacking}; kernel.timer_migration")]);
    }
}
