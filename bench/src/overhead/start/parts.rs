//! Divides the time of one run of cox into parts, which cox's own stopwatch measures (`arch::laps`).

use anyhow::{Context, Result};
use arch::laps::PARTS;

/// Name of the time before cox's first instruction.
const EXEC: &str = "exec of cox";
/// Name of the time after cox's last instruction, in which the kernel frees BPF maps and programs.
const EXIT: &str = "exit of cox";

/// How long each part of one run of cox took, ns.
#[derive(Clone, Debug)]
pub struct Laps {
    before_ns: u64,
    /// Times of the parts that cox itself measured, in the order of [`PARTS`].
    parts_ns: Vec<u64>,
    after_ns: u64,
}

impl Laps {
    /// Reads the file that cox's stopwatch wrote. The whole command lasted from `begin_ns` to `end_ns`.
    ///
    /// # Errors
    /// When a line is missing.
    pub fn read(text: &str, begin_ns: u64, end_ns: u64) -> Result<Laps> {
        let value = |name: &str| -> Result<u64> {
            let mut lines = text.lines().filter_map(|line| line.split_once('\t'));
            let (_, value) = lines
                .find(|(named, _)| *named == name)
                .with_context(|| format!("no line '{name}' in cox's file with the times of its parts"))?;
            value.parse().with_context(|| format!("'{name}' has an invalid time: '{value}'"))
        };
        Ok(Laps {
            before_ns: value("begin")?.saturating_sub(begin_ns),
            parts_ns: PARTS.iter().map(|(_, name)| value(name)).collect::<Result<_>>()?,
            after_ns: end_ns.saturating_sub(value("end")?),
        })
    }
}

/// Returns the name of each part of a run of cox, and how long the part took in each of the runs. Parts that took no time in any run are left out.
pub fn rows(all: &[Laps]) -> Vec<(&'static str, Vec<f64>)> {
    let of = |part: &dyn Fn(&Laps) -> u64| all.iter().map(|laps| part(laps) as f64).collect::<Vec<_>>();
    let own = PARTS.iter().enumerate().map(|(at, (_, name))| (*name, of(&|laps| laps.parts_ns[at])));
    let rows = std::iter::once((EXEC, of(&|laps| laps.before_ns))).chain(own);
    let rows = rows.chain(std::iter::once((EXIT, of(&|laps| laps.after_ns))));
    rows.filter(|(_, times)| times.iter().any(|time| *time > 0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_what_is_before_and_after_are_the_whole() {
        let mut text = "begin\t1100\nend\t1900\n".to_owned();
        for (at, (_, name)) in PARTS.iter().enumerate() {
            text.push_str(&format!("{name}\t{}\n", if at < 8 { 100 } else { 0 }));
        }
        let laps = Laps::read(&text, 1000, 2000).unwrap();
        let rows = rows(&[laps.clone(), laps]);
        assert_eq!(rows.len(), 10, "{rows:?}");
        assert_eq!(rows.iter().map(|(_, times)| times[1]).sum::<f64>(), 1000.0);
        assert_eq!((rows[0].0, rows[9].0), (EXEC, EXIT));
        assert!(Laps::read("begin\t1\nend\t2\n", 0, 3).is_err());
    }
}
