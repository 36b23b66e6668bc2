//! /proc/PID/stat: one line. Its second field, the command name, may contain any byte.

use super::clock::ticks_to_ns;

/// The fields of `stat` that cox uses; proc_pid_stat(5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stat {
    /// Command name. Bytes that are not UTF-8 become U+FFFD. Names of kernel workers are longer than those of other
    /// threads.
    pub comm: String,
    /// First 15 bytes of the command name, padded with NUL as in the kernel.
    pub comm_bytes: [u8; 16],
    /// State letter: R running or runnable, S sleeping, D uninterruptible, T stopped, t traced, Z zombie,
    /// X dead, I idle kernel thread.
    pub state: char,
    /// The parent process; 0 if there is none in this PID namespace.
    pub parent: u32,
    /// The kernel's flags of the task (`PF_*` in include/linux/sched.h).
    pub flags: u32,
    /// Number of page faults that needed no input.
    pub minor_faults: u64,
    /// Number of page faults that needed input from a device.
    pub major_faults: u64,
    /// Time in user space, nanoseconds at tick resolution.
    pub user_ns: u64,
    /// Time in the kernel, nanoseconds at tick resolution.
    pub system_ns: u64,
    /// CPU time of the process's children that have ended and for which it has waited, and of their own such children,
    /// nanoseconds at tick resolution.
    pub children_ns: u64,
    /// Number of threads of the process.
    pub threads: u32,
    /// Start time on CLOCK_BOOTTIME, nanoseconds, rounded down to a whole tick (10 ms).
    /// [`BootClocks`](super::BootClocks) converts it.
    pub start_boottime_ns: u64,
    /// Start time on CLOCK_BOOTTIME, ticks.
    pub start_ticks: u64,
    /// CPU that the task last ran on.
    pub processor: u32,
    /// Exit status in the form of wait(2); 0 without the right to trace the thread, and on kernels that do not show it.
    pub exit_code: i32,
}

/// A task's activity, derived from its state letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// On a CPU or waiting for one; /proc does not distinguish the two.
    Ready,
    /// Off CPU and not runnable.
    Off,
    /// Dead, possibly still a zombie.
    Ended,
}

/// PF_KTHREAD.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// PF_EXITING.
const EXITING: u32 = 0x0000_0004;
/// PF_NO_SETAFFINITY.
const BOUND: u32 = 0x0400_0000;

impl Stat {
    /// Returns whether the task is a thread of the kernel.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Returns whether the task is about to end. The kernel then accepts that somebody moves it to another cgroup, and does
    /// not move it (cgroup_migrate_add_task in kernel/cgroup/cgroup.c).
    #[must_use]
    pub fn is_exiting(&self) -> bool {
        self.flags & EXITING != 0
    }

    /// Returns whether the kernel allows nobody to change the task's affinity, nor its cpuset: it belongs to a CPU, or the
    /// kernel chooses its CPUs.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.flags & BOUND != 0
    }

    /// Returns the task's activity.
    #[must_use]
    pub fn doing(&self) -> Doing {
        match self.state {
            'R' => Doing::Ready,
            'Z' | 'X' => Doing::Ended,
            _ => Doing::Off,
        }
    }
}

/// Reads one stat line.
pub(super) fn parse(line: &[u8], ticks_per_s: u64) -> Result<Stat, String> {
    // The name is in parentheses and may itself contain parentheses, blanks and newlines. It ends at the last closing
    // parenthesis, because no later field contains one.
    let nameless = || "no command name in parentheses".to_owned();
    let close = line.iter().rposition(|&byte| byte == b')').ok_or_else(nameless)?;
    let open = line[..close].iter().position(|&byte| byte == b'(').ok_or_else(nameless)?;
    let name = &line[open + 1..close];
    let mut comm_bytes = [0; 16];
    // The last byte stays NUL.
    for (to, from) in comm_bytes[..15].iter_mut().zip(name) {
        *to = *from;
    }
    let rest = String::from_utf8_lossy(&line[close + 1..]);
    // Field numbers as in the manual page: comm is 2, state 3. `field` must be called in ascending order.
    let (mut fields, mut next) = (rest.split_ascii_whitespace(), 3);
    let mut field = |number: usize| {
        let found = fields.nth(number - next).ok_or_else(|| format!("field {number} is missing"));
        next = number + 1;
        found
    };
    let not_a_number = |number: usize| format!("field {number} is not a number");
    let state = field(3)?.chars().next().ok_or("field 3 is missing")?;
    let mut number = |at: usize| field(at)?.parse::<u64>().map_err(|_| not_a_number(at));
    let small = |at: usize, number: u64| u32::try_from(number).map_err(|_| not_a_number(at));
    let parent = small(4, number(4)?)?;
    let flags = small(9, number(9)?)?;
    let (minor_faults, major_faults) = (number(10)?, number(12)?);
    let user_ns = ticks_to_ns(number(14)?, ticks_per_s);
    let system_ns = ticks_to_ns(number(15)?, ticks_per_s);
    // These fields are signed.
    let children_ns = [16, 17].map(|at| ticks_to_ns(number(at).unwrap_or(0), ticks_per_s)).iter().sum();
    let threads = small(20, number(20)?)?;
    let start_ticks = number(22)?;
    let processor = small(39, number(39)?)?;
    Ok(Stat {
        comm: String::from_utf8_lossy(name).into_owned(),
        comm_bytes,
        state,
        parent,
        flags,
        minor_faults,
        major_faults,
        user_ns,
        system_ns,
        children_ns,
        threads,
        start_boottime_ns: ticks_to_ns(start_ticks, ticks_per_s),
        start_ticks,
        processor,
        exit_code: field(52).ok().and_then(|field| field.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fields 3 to 52, each its own number where it is one.
    fn fields() -> String {
        let numbers: Vec<String> = (5..=52).map(|number| number.to_string()).collect();
        format!("S 77 {}", numbers.join(" "))
    }

    #[test]
    fn fields_are_taken_by_their_manual_page_number() {
        let stat = parse(format!("4711 (heat) {}\n", fields()).as_bytes(), 100).expect("well formed");
        assert_eq!((stat.comm.as_str(), stat.state), ("heat", 'S'));
        assert_eq!((stat.parent, stat.flags, stat.minor_faults, stat.major_faults), (77, 9, 10, 12));
        assert_eq!((stat.user_ns, stat.system_ns, stat.children_ns), (140_000_000, 150_000_000, 330_000_000));
        assert_eq!((stat.threads, stat.start_boottime_ns, stat.processor), (20, 220_000_000, 39));
        assert_eq!((stat.start_ticks, stat.exit_code), (22, 52));
    }

    #[test]
    fn flags_tell_threads_of_the_kernel_and_those_that_nobody_may_move() {
        let of = |flags: u32| Stat { flags, ..Stat::default() };
        assert_eq!([0x0040_0100, 0x0040_0104].map(|flags| of(flags).is_exiting()), [false, true]);
        // kthreadd and ksoftirqd/0 of Linux 6.18, and a shell.
        let known =
            [0x0020_8040, 0x0420_8040, 0x0040_0100].map(|flags| (of(flags).is_of_kernel(), of(flags).is_bound()));
        assert_eq!(known, [(true, false), (true, true), (false, false)]);
    }

    #[test]
    fn cut_lines_are_refused() {
        let line = format!("4711 (a) {}", fields());
        // Field 39 is the last that must be there: older kernels have no exit code.
        let enough = line.find(" 40 ").expect("there is a field 40");
        for end in 0..enough - 2 {
            assert!(parse(&line.as_bytes()[..end], 100).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn long_names_are_cut_to_what_the_kernel_keeps_of_others() {
        let stat =
            parse(format!("9 (kworker/u16:3-events_unbound) {}", fields()).as_bytes(), 100).expect("well formed");
        assert_eq!(&stat.comm_bytes, b"kworker/u16:3-e\0");
        assert_eq!(stat.comm, "kworker/u16:3-events_unbound");
    }

    #[test]
    fn malformed_lines_say_what_is_wrong() {
        assert_eq!(parse(b"", 100).expect_err("empty"), "no command name in parentheses");
        assert_eq!(parse(b") (", 100).expect_err("reversed"), "no command name in parentheses");
        assert_eq!(parse(b"1 (a) S 2 3", 100).expect_err("short"), "field 9 is missing");
        assert_eq!(parse(b"1 (a) S 4 5 6 7 8 9 10 11 12 13 x", 100).expect_err("no time"), "field 14 is not a number");
    }

    proptest! {
        #[test]
        fn any_command_name_is_kept(name in prop::collection::vec(1u8.., 0..16)) {
            let mut line = b"1 (".to_vec();
            line.extend(&name);
            line.extend(format!(") {}", fields()).as_bytes());
            let stat = parse(&line, 100).expect("well formed");
            prop_assert_eq!(stat.comm, String::from_utf8_lossy(&name));
            prop_assert_eq!(stat.user_ns, 140_000_000);
        }

        #[test]
        fn any_bytes_are_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _stat_or_reason = parse(&line, 100);
        }
    }
}
