//! /proc/PID/stat: one line whose second field, the command name, may hold anything.

use crate::steal::ticks_to_ns;

/// The fields of `stat` we use; proc_pid_stat(5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Process id, or thread id in a thread's folder.
    pub pid: u32,
    /// Command name; bytes that are no UTF-8 become U+FFFD.
    pub comm: String,
    /// State letter: R running or runnable, S sleeping, D uninterruptible, T stopped, t traced, Z zombie,
    /// X dead, I idle kernel thread.
    pub state: char,
    /// Parent process, 0 when there is none in this pid namespace.
    pub ppid: u32,
    /// Time in user space, nanoseconds at tick resolution.
    pub user_ns: u64,
    /// Time in the kernel, nanoseconds at tick resolution.
    pub system_ns: u64,
    /// Number of threads of the process.
    pub threads: u32,
    /// Start on CLOCK_BOOTTIME, nanoseconds, cut down to a whole tick (10 ms);
    /// [`BootClocks`](super::BootClocks) translates it.
    pub start_boottime_ns: u64,
    /// CPU it last ran on.
    pub processor: u32,
}

/// Reads one stat line.
pub(super) fn parse(line: &[u8], ticks_per_s: u64) -> Result<Stat, String> {
    // The name is in parentheses and may itself hold parentheses, blanks and line ends: it ends at the
    // last closing one, since no later field has any.
    let open = line.iter().position(|&byte| byte == b'(');
    let close = line.iter().rposition(|&byte| byte == b')');
    let (Some(open), Some(close)) = (open, close) else {
        return Err("no command name in parentheses".to_owned());
    };
    if close < open {
        return Err("no command name in parentheses".to_owned());
    }
    let pid = String::from_utf8_lossy(&line[..open]);
    let rest = String::from_utf8_lossy(&line[close + 1..]);
    // Numbered as in the manual page: pid is 1, comm 2, state 3.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().ok_or_else(|| format!("field {number} is missing"));
    let not_a_number = |number: usize| format!("field {number} is not a number");
    let number = |at: usize| field(at)?.parse::<u64>().map_err(|_| not_a_number(at));
    let small = |at: usize| field(at)?.parse::<u32>().map_err(|_| not_a_number(at));
    Ok(Stat {
        pid: pid.trim().parse().map_err(|_| not_a_number(1))?,
        comm: String::from_utf8_lossy(&line[open + 1..close]).into_owned(),
        state: field(3)?.chars().next().ok_or("field 3 is missing")?,
        ppid: small(4)?,
        user_ns: ticks_to_ns(number(14)?, ticks_per_s),
        system_ns: ticks_to_ns(number(15)?, ticks_per_s),
        threads: small(20)?,
        start_boottime_ns: ticks_to_ns(number(22)?, ticks_per_s),
        processor: small(39)?,
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
        assert_eq!((stat.pid, stat.comm.as_str(), stat.state, stat.ppid), (4711, "heat", 'S', 77));
        assert_eq!((stat.user_ns, stat.system_ns), (140_000_000, 150_000_000));
        assert_eq!((stat.threads, stat.start_boottime_ns, stat.processor), (20, 220_000_000, 39));
    }

    #[test]
    fn malformed_lines_say_what_is_wrong() {
        assert_eq!(parse(b"", 100).expect_err("empty"), "no command name in parentheses");
        assert_eq!(parse(b") (", 100).expect_err("reversed"), "no command name in parentheses");
        assert_eq!(parse(b"1 (a) S 2 3", 100).expect_err("short"), "field 14 is missing");
        assert_eq!(parse(b"1 (a) S x", 100).expect_err("no ppid"), "field 4 is not a number");
        assert_eq!(parse(b"x (a) S 1", 100).expect_err("no pid"), "field 1 is not a number");
    }

    proptest! {
        #[test]
        fn any_command_name_is_kept(name in prop::collection::vec(1u8.., 0..16)) {
            let mut line = b"1 (".to_vec();
            line.extend(&name);
            line.extend(format!(") {}", fields()).as_bytes());
            let stat = parse(&line, 100).expect("well formed");
            prop_assert_eq!(stat.comm, String::from_utf8_lossy(&name));
            prop_assert_eq!(stat.ppid, 77);
        }

        #[test]
        fn any_bytes_are_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _stat_or_reason = parse(&line, 100);
        }
    }
}
