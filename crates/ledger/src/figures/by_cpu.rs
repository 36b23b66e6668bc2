//! A thread's run time by CPU.

use std::borrow::Cow;
use std::collections::BTreeMap;

use litemap::LiteMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Amount, Value};

/// JSON key of the CPUs that are not listed separately.
const OTHER: &str = "other";

/// A thread's run time on each CPU, and the sum on all CPUs that are not listed separately. In the JSON this is an object: `{"0": 5, "other": 2}`.
/// Stored as a sorted vector and not as a B-tree, whose smallest node has room for eleven entries: with 50,000 threads, these nodes were a large part
/// of the memory that a report needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunByCpu {
    by_cpu: LiteMap<u32, u64>,
    other_ns: u64,
}

impl RunByCpu {
    /// Adds time on a CPU; `None` for a CPU that is not listed separately.
    pub fn add(&mut self, cpu: Option<u32>, ns: u64) {
        let sum = match cpu {
            Some(cpu) => self.by_cpu.entry(cpu).or_insert(0),
            None => &mut self.other_ns,
        };
        *sum = sum.saturating_add(ns);
    }

    /// Returns the listed CPUs by number, with the time on each, including times of 0.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.by_cpu.iter().map(|(cpu, ns)| (*cpu, *ns))
    }

    /// Returns the CPUs with a time above 0.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().filter(|(_, ns)| *ns > 0).map(|(cpu, _)| cpu)
    }

    /// Returns the time on CPUs that are not listed separately.
    pub fn other_ns(&self) -> u64 {
        self.other_ns
    }
}

/// Sums times by CPU; `None` stands for a CPU that is not listed separately.
impl FromIterator<(Option<u32>, u64)> for RunByCpu {
    fn from_iter<I: IntoIterator<Item = (Option<u32>, u64)>>(times: I) -> RunByCpu {
        let mut all = RunByCpu::default();
        times.into_iter().for_each(|(cpu, ns)| all.add(cpu, ns));
        all
    }
}

impl Amount for RunByCpu {
    fn sum(&mut self, other: &RunByCpu) {
        for (cpu, ns) in other.iter() {
            self.add(Some(cpu), ns);
        }
        self.add(None, other.other_ns);
    }
}

impl Value for RunByCpu {
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Serialize for RunByCpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cpus = self.iter().map(|(cpu, ns)| (Cow::Owned(cpu.to_string()), ns));
        let other = (self.other_ns > 0).then_some((Cow::Borrowed(OTHER), self.other_ns));
        serializer.collect_map(cpus.chain(other))
    }
}

impl<'de> Deserialize<'de> for RunByCpu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunByCpu, D::Error> {
        let times = BTreeMap::<String, u64>::deserialize(deserializer)?;
        Ok(times.into_iter().map(|(cpu, ns)| (cpu.parse().ok(), ns)).collect())
    }
}

impl JsonSchema for RunByCpu {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RunByCpu".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_by_cpu_and_read_again() {
        let by: RunByCpu = [(Some(10), 4), (Some(2), 3), (None, 5), (Some(10), 1)].into_iter().collect();
        let json = serde_json::to_string(&by).unwrap();
        assert_eq!(json, r#"{"2":3,"10":5,"other":5}"#);
        assert_eq!(serde_json::from_str::<RunByCpu>(&json).unwrap(), by);
        assert_eq!((by.other_ns(), by.iter().collect::<Vec<_>>()), (5, vec![(2, 3), (10, 5)]));
        assert_eq!(by.cpus().collect::<Vec<_>>(), [2, 10]);
    }
}
