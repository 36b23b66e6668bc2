//! The detours of CPUs as states over time, one thread for each CPU. The states are the classes of causes.

use std::io::{self, Write};

use time::OffsetDateTime;
use time::macros::format_description;

use crate::noise::Noise;

/// State of a CPU that executes the measuring loop. The classes of causes have the next numbers.
const MEASURING: usize = 1;

/// Writes a trace for Paraver: `.prv`, `.pcf` and `.row`.
///
/// # Errors
/// When writing fails.
pub fn write(noise: &Noise, prv: &mut impl Write, pcf: &mut impl Write, row: &mut impl Write) -> io::Result<()> {
    let mut classes: Vec<&str> = noise.causes.iter().map(|(_, class)| class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let state = |cause: u32| {
        let class = noise.causes.get(cause as usize).map(|(_, class)| class.as_str());
        class.and_then(|class| classes.binary_search(&class).ok()).map_or(0, |at| MEASURING + 1 + at)
    };
    records(noise, &state, prv)?;
    writeln!(pcf, "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n\nSTATES")?;
    writeln!(pcf, "0    Unknown\n{MEASURING}    Measuring")?;
    (MEASURING + 1..).zip(&classes).try_for_each(|(number, class)| writeln!(pcf, "{number}    {class}"))?;
    writeln!(pcf, "\nSTATES_COLOR\n0    {{200,200,200}}\n{MEASURING}    {{225,240,225}}")?;
    (MEASURING + 1..).zip(&classes).try_for_each(|(number, _)| {
        let step = (number * 37) % 180;
        writeln!(pcf, "{number}    {{{},{},{}}}", 40 + step, 200 - step, 60 + (number * 71) % 180)
    })?;
    let count = noise.cpus.len();
    writeln!(row, "LEVEL CPU SIZE {count}")?;
    noise.cpus.iter().try_for_each(|cpu| writeln!(row, "CPU {}", cpu.cpu))?;
    writeln!(row, "\nLEVEL THREAD SIZE {count}")?;
    noise.cpus.iter().try_for_each(|cpu| writeln!(row, "CPU {}", cpu.cpu))
}

/// Writes the header, and the states of all CPUs in order of time.
fn records(noise: &Noise, state: &dyn Fn(u32) -> usize, prv: &mut impl Write) -> io::Result<()> {
    let began = OffsetDateTime::from_unix_timestamp_nanos(i128::from(noise.begin_ns[2]));
    let began = began.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let date =
        began.format(format_description!("[day]/[month]/[year] at [hour]:[minute]")).map_err(io::Error::other)?;
    let count = noise.cpus.len();
    writeln!(prv, "#Paraver ({date}):{}_ns:1({count}):1:1({count}:1)", noise.length_ns)?;
    let mut lines: Vec<(u64, usize, u64, usize)> = Vec::new();
    for (number, cpu) in (1..).zip(&noise.cpus) {
        let mut free = 0;
        for &(begin, length, cause) in &cpu.detours {
            if begin > free {
                lines.push((free, number, begin, MEASURING));
            }
            let (from, until) = (begin.max(free), (begin + length).min(noise.length_ns));
            if until > from {
                lines.push((from, number, until, state(cause)));
                free = until;
            }
        }
        if noise.length_ns > free {
            lines.push((free, number, noise.length_ns, MEASURING));
        }
    }
    lines.sort_unstable();
    lines.iter().try_for_each(|(from, cpu, until, state)| writeln!(prv, "1:{cpu}:1:1:{cpu}:{from}:{until}:{state}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_each_cpu_fill_the_measurement() {
        let (mut prv, mut pcf, mut row) = (Vec::new(), Vec::new(), Vec::new());
        write(&Noise::example(), &mut prv, &mut pcf, &mut row).unwrap();
        let text = String::from_utf8(prv).unwrap();
        let records: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            records,
            [
                "1:1:1:1:1:0:10:1",
                "1:2:1:1:2:0:10:2",
                "1:1:1:1:1:10:15:3",
                "1:2:1:1:2:10:95:1",
                "1:1:1:1:1:15:40:1",
                "1:1:1:1:1:40:60:2",
                "1:1:1:1:1:60:100:1",
                "1:2:1:1:2:95:100:3",
            ]
        );
        let meanings = String::from_utf8(pcf).unwrap();
        assert!(meanings.contains("2    thread\n3    tick\n"), "{meanings}");
        assert!(String::from_utf8(row).unwrap().contains("LEVEL THREAD SIZE 2\nCPU 3\nCPU 7\n"));
    }
}
