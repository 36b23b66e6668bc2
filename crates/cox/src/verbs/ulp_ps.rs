//! `cox ulp ps`: which ULPs run, as far as /proc shows them to this user.

use std::fmt::Write;

use advise::numbers::{counted, seconds};
use anyhow::Result;
use machine::Root;
use machine::process::{Stat, Task};
use outputs::Output;
use outputs::diagnostics::say;

use super::ulp::HOST;
use crate::faces::print;

/// A host, and its ULPs.
struct Host {
    pid: u32,
    /// CPU time of the host with its carriers, ns.
    used_ns: u64,
    ulps: Vec<Ulp>,
}

/// A ULP.
struct Ulp {
    /// Its number, from its name; `None`: the name tells none, or that of another program.
    number: Option<u32>,
    pid: u32,
    stat: Stat,
}

/// Prints the ULPs of all hosts.
///
/// # Errors
/// When /proc cannot be read, or the text not written.
pub fn ps() -> Result<u8> {
    let hosts = hosts(&Root::live())?;
    if hosts.is_empty() {
        say("no running ULPs found");
        return Ok(0);
    }
    let text = hosts.iter().map(text).collect::<Vec<_>>().join("\n");
    print(Some(Output::Stdout), false, |_| text)?;
    Ok(0)
}

/// Returns the hosts that /proc shows, with their ULPs by number.
fn hosts(root: &Root) -> Result<Vec<Host>> {
    let host = |pid: u32| {
        let task = Task::process(root, pid);
        let stat = task.stat().ok().filter(|stat| stat.comm == HOST)?;
        let program = |pid: u32| root.read_link(format!("/proc/{pid}/exe")).ok();
        let of_host = program(pid);
        let ulp = |pid: u32| {
            let stat = Task::process(root, pid).stat().ok()?;
            // One that has executed another program has that program's name.
            let number = number(&stat.comm).filter(|_| program(pid) == of_host);
            Some(Ulp { number, pid, stat })
        };
        let mut ulps: Vec<Ulp> = task.children().into_iter().filter_map(ulp).collect();
        ulps.sort_by_key(|ulp| (ulp.number.unwrap_or(u32::MAX), ulp.pid));
        Some(Host { pid, used_ns: stat.user_ns + stat.system_ns, ulps })
    };
    Ok(root.list_numbers("/proc")?.into_iter().filter_map(host).collect())
}

/// Returns the number of a ULP from its name: `app.3`.
fn number(comm: &str) -> Option<u32> {
    comm.rsplit_once('.')?.1.parse().ok()
}

fn text(host: &Host) -> String {
    let Host { pid, used_ns, ulps } = host;
    let mut text = format!(
        "host {pid} · {} · CPU time of the host and its carriers {}\n",
        counted(ulps.len() as u64, "ULP"),
        seconds(*used_ns)
    );
    if !ulps.is_empty() {
        let _ = writeln!(text, "  {:>5}  {:>7}  {:8}  {:>9}  name", "ULP", "pid", "state", "CPU time");
    }
    for Ulp { number, pid, stat } in ulps {
        let number = number.map_or("-".to_owned(), |number| number.to_string());
        let used = seconds(stat.user_ns + stat.system_ns);
        let _ = writeln!(text, "  {number:>5}  {pid:>7}  {:8}  {used:>9}  {}", state(stat.state), stat.comm);
    }
    text
}

/// Returns the word for a state letter.
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "blocked",
        'T' => "stopped",
        't' => "traced",
        'Z' | 'X' => "ended",
        _ => "-",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_ulps_of_each_host_are_listed_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let task = |pid: u32, comm: &str, state: char, ticks: u32, children: &str| {
            let program = if comm == "python3.11" { "/bin/python3.11" } else { "/bin/cox-ulp-host" };
            let own = folder.path().join(format!("proc/{pid}/task/{pid}"));
            fs::create_dir_all(&own).unwrap();
            let zeros = |count: usize| vec!["0"; count].join(" ");
            let line =
                format!("{pid} ({comm}) {state} 1 {} {ticks} 0 {} 1 0 7 {} 0 0\n", zeros(9), zeros(4), zeros(16));
            fs::write(own.join("stat"), &line).unwrap();
            fs::write(own.join("children"), children).unwrap();
            std::os::unix::fs::symlink(program, folder.path().join(format!("proc/{pid}/exe"))).unwrap();
            fs::write(folder.path().join(format!("proc/{pid}/stat")), &line).unwrap();
        };
        task(7, "cox-ulp-host", 'S', 150, "12 11 13 ");
        task(11, "app.2", 'R', 25, "");
        task(12, "a.b.10", 'T', 0, "");
        task(13, "python3.11", 'S', 0, "");
        task(14, "app.3", 'S', 0, "");
        task(20, "cox-ulp-host", 'S', 0, "");
        let hosts = hosts(&Root::at(folder.path())).unwrap();
        let text: String = hosts.iter().map(text).collect();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let right = [
            "host 7 · 3 ULPs · CPU time of the host and its carriers 1.50 s",
            "ULP pid state CPU time name",
            "2 11 running 0.25 s app.2",
            "10 12 stopped 0.00 s a.b.10",
            "- 13 sleeping 0.00 s python3.11",
            "host 20 · 0 ULPs · CPU time of the host and its carriers 0.00 s",
        ];
        assert_eq!(lines, right.map(|line| line.split(' ').collect::<Vec<_>>()), "{text}");
    }
}
