//! Decides from a guest's logs how the guest ended, and whether its kernel warned of something.

use std::time::Duration;

/// How the process of QEMU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ended by itself, with an exit code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It reached its time limit and was killed.
    Limit(Duration),
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All jobs have run.
    Finished,
    /// The time limit was reached.
    Hung(String),
    /// The guest's kernel crashed.
    Crashed(String),
    /// QEMU crashed, or crashed the guest. Such a boot is repeated.
    Emulator(String),
}

/// What QEMU's emulation sometimes causes while a kernel patches its own code, which it does at each start of a tracepoint. A CPU executes the
/// breakpoint after the kernel has taken back its handler; or the return from an interrupt, with which the other CPUs throw away the old code,
/// fails. Real processors do neither.
const EMULATOR: [&str; 3] = ["Oops: int3", "int3: 0000 [", "RIP: 0010:do_sync_core"];

/// Beginnings of a kernel's last words.
const CRASHES: [&str; 6] =
    ["Kernel panic - not syncing", "BUG: ", "Oops: ", "Oops[", "general protection fault", "Unable to handle kernel"];

/// Warnings that say nothing about the guest: it makes the first five when its virtual machine did not run for a while, and the last one when QEMU
/// reports an exception that no instruction has caused.
const LATE: [&str; 6] = [
    "soft lockup",
    "detected stall",
    "stall on CPU",
    "clocksource: timekeeping watchdog",
    "sched_tick_remote",
    "exc_debug_kernel",
];

/// Signals that a process gets for its own fault: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const FAULTS: [i32; 5] = [4, 6, 7, 8, 11];

/// Returns how a guest ended. `done`: it has reported its end; `begun`: it has begun its first job; `console`: its kernel's log.
#[must_use]
pub fn judge(end: End, done: bool, begun: bool, console: &str) -> Verdict {
    let find = |words: &[&str]| {
        let mut lines = console.lines().filter(|line| !is_late(line));
        lines.find(|line| words.iter().any(|word| line.contains(word))).map(|line| line.trim().to_owned())
    };
    if done {
        return Verdict::Finished;
    }
    if let Some(line) = find(&EMULATOR) {
        return Verdict::Emulator(line);
    }
    if let End::Signal(number) = end
        && FAULTS.contains(&number)
    {
        return Verdict::Emulator(format!("signal {number} ended QEMU"));
    }
    if let Some(line) = find(&CRASHES) {
        // Nothing of cox has run yet.
        return if begun { Verdict::Crashed(line) } else { Verdict::Emulator(line) };
    }
    match end {
        End::Limit(limit) => Verdict::Hung(format!("it did not end within {} s", limit.as_secs())),
        End::Exit(code) => Verdict::Crashed(format!("QEMU ended with exit code {code}, before the guest did")),
        End::Signal(number) => Verdict::Crashed(format!("signal {number} ended QEMU")),
    }
}

/// Returns the first line in which the kernel reports a defect of itself.
#[must_use]
pub fn first_warning(console: &str) -> Option<&str> {
    let bad = |line: &&str| ["WARNING: ", "BUG: ", "Oops", "UBSAN: "].iter().any(|word| line.contains(word));
    console.lines().map(str::trim).filter(bad).find(|line| !is_late(line))
}

fn is_late(line: &str) -> bool {
    LATE.iter().any(|words| line.contains(words))
}

/// Returns the last lines of a log.
#[must_use]
pub fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: End = End::Limit(Duration::from_secs(9));

    #[test]
    fn a_crash_of_the_emulator_is_not_the_guests() {
        let patched = "[    9.1] x\n[    9.2] Oops: int3: 0000 [#1] SMP NOPTI\n[    9.3] Kernel panic - not syncing: Fatal exception";
        let older =
            "[    9.2] int3: 0000 [#1] PREEMPT SMP NOPTI\n[    9.3] Kernel panic - not syncing: Fatal exception";
        for console in [patched, older] {
            assert!(
                matches!(judge(End::Exit(0), false, true, console), Verdict::Emulator(line) if line.contains("int3"))
            );
        }
        let synced = "[    2.9] Oops: general protection fault: 0000 [#1]\n[    2.9] RIP: 0010:do_sync_core+0x28/0x30";
        assert!(matches!(judge(End::Exit(0), false, true, synced), Verdict::Emulator(_)));
        assert!(matches!(judge(End::Signal(11), false, true, ""), Verdict::Emulator(_)));
        // Somebody ended it.
        assert!(matches!(judge(End::Signal(15), false, true, ""), Verdict::Crashed(_)));
    }

    #[test]
    fn a_crash_of_the_guest_is_told_from_a_hang() {
        let ours = "[    9.2] BUG: kernel NULL pointer dereference, address: 0\n[    9.3] Oops: 0000 [#1]";
        for end in [End::Exit(0), LIMIT] {
            assert!(matches!(judge(end, false, true, ours), Verdict::Crashed(line) if line.contains("NULL pointer")));
        }
        assert!(matches!(judge(End::Exit(0), false, false, ours), Verdict::Emulator(_)), "cox has not run yet");
        assert_eq!(judge(LIMIT, false, true, "[    9.2] fine"), Verdict::Hung("it did not end within 9 s".to_owned()));
        assert!(matches!(judge(End::Exit(1), false, true, ""), Verdict::Crashed(line) if line.contains("exit code 1")));
        assert_eq!(judge(LIMIT, true, true, "[    9.2] fine"), Verdict::Finished);
    }

    #[test]
    fn a_guest_that_was_late_is_not_broken() {
        let late = "[   99.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!\n[  100.1] rcu: INFO: rcu_preempt self-detected stall on CPU";
        assert_eq!(first_warning(late), None);
        assert!(matches!(judge(LIMIT, false, true, late), Verdict::Hung(_)));
        let warned = format!("{late}\n[  101.2] WARNING: CPU: 0 PID: 1 at kernel/sched/core.c:1 x+0x1/0x2\n");
        assert!(first_warning(&warned).unwrap().contains("core.c"));
    }

    #[test]
    fn a_tail_is_the_end() {
        assert_eq!(tail("1\n2\n3\n", 2), "2\n3");
        assert_eq!(tail("1\n", 2), "1");
    }
}
