//! A recording of noise: the detours of all CPUs of a node on one time axis.

use std::fmt;

/// The detours of a node's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Length of the recording, in nanoseconds. Its time axis begins at 0.
    pub length_ns: u64,
    /// The CPUs that were measured at the same time.
    pub cpus: Vec<Cpu>,
    /// Names of the causes.
    pub causes: Vec<String>,
}

/// The detours of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Detours in order of time. They do not overlap.
    pub detours: Vec<Detour>,
}

/// A time in which a CPU did not execute the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Begin, in nanoseconds from the begin of the recording.
    pub start_ns: u64,
    /// Length in nanoseconds; at least 1.
    pub length_ns: u64,
    /// Index of the cause in [`Recording::causes`].
    pub cause: u16,
}

/// How often a cause was seen, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseTotal {
    /// Number of detours.
    pub times: u64,
    /// Sum of their lengths.
    pub sum_ns: u64,
}

/// Part of a CPU's time that must be undisturbed, in per cent. With less, a phase could take longer than the recording.
pub const LEAST_UNDISTURBED: u64 = 1;

/// Why a recording is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// There is no CPU.
    NoCpus,
    /// A CPU occurs twice.
    SameCpu(u32),
    /// A detour has no length.
    Empty {
        /// Number of the CPU.
        cpu: u32,
        /// Begin of the detour.
        start_ns: u64,
    },
    /// A detour begins before the one before it ends.
    Order {
        /// Number of the CPU.
        cpu: u32,
        /// Begin of the detour.
        start_ns: u64,
    },
    /// A detour ends after the recording.
    End {
        /// Number of the CPU.
        cpu: u32,
        /// Begin of the detour.
        start_ns: u64,
    },
    /// A detour has a cause without a name.
    Cause {
        /// Number of the CPU.
        cpu: u32,
        /// Index of the cause.
        cause: u16,
    },
    /// Less than 1 % of a CPU's time is undisturbed.
    NoTime(u32),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::NoCpus => write!(f, "the recording has no CPU"),
            Invalid::SameCpu(cpu) => write!(f, "CPU {cpu} occurs twice"),
            Invalid::Empty { cpu, start_ns } => write!(f, "CPU {cpu}: the detour at {start_ns} ns has length 0"),
            Invalid::Order { cpu, start_ns } => {
                write!(f, "CPU {cpu}: the detour at {start_ns} ns begins before the previous one ends")
            }
            Invalid::End { cpu, start_ns } => {
                write!(f, "CPU {cpu}: the detour at {start_ns} ns ends after the recording")
            }
            Invalid::Cause { cpu, cause } => write!(f, "CPU {cpu}: cause {cause} has no name"),
            Invalid::NoTime(cpu) => {
                write!(f, "CPU {cpu}: less than {LEAST_UNDISTURBED} % of its time is undisturbed")
            }
        }
    }
}

impl std::error::Error for Invalid {}

impl Recording {
    /// Checks the recording.
    ///
    /// # Errors
    /// Returns the first violation of the rules that the fields state.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.cpus.is_empty() {
            return Err(Invalid::NoCpus);
        }
        let mut seen: Vec<u32> = self.cpus.iter().map(|cpu| cpu.cpu).collect();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|two| two[0] == two[1]) {
            return Err(Invalid::SameCpu(twice[0]));
        }
        self.cpus.iter().try_for_each(|cpu| self.check_cpu(cpu))
    }

    fn check_cpu(&self, Cpu { cpu, detours }: &Cpu) -> Result<(), Invalid> {
        let cpu = *cpu;
        let (mut free_from, mut sum) = (0, 0);
        for &Detour { start_ns, length_ns, cause } in detours {
            if length_ns == 0 {
                return Err(Invalid::Empty { cpu, start_ns });
            }
            if start_ns < free_from {
                return Err(Invalid::Order { cpu, start_ns });
            }
            if usize::from(cause) >= self.causes.len() {
                return Err(Invalid::Cause { cpu, cause });
            }
            let end = start_ns.checked_add(length_ns).filter(|end| *end <= self.length_ns);
            let Some(end) = end else { return Err(Invalid::End { cpu, start_ns }) };
            free_from = end;
            sum += length_ns;
        }
        let undisturbed = self.length_ns - sum;
        if undisturbed == 0 || u128::from(undisturbed) * 100 < u128::from(self.length_ns * LEAST_UNDISTURBED) {
            return Err(Invalid::NoTime(cpu));
        }
        Ok(())
    }

    /// Returns how often each cause was seen on the first `cpus` CPUs, and for how long.
    #[must_use]
    pub fn totals(&self, cpus: usize) -> Vec<CauseTotal> {
        let mut seen = vec![CauseTotal::default(); self.causes.len()];
        for detour in self.cpus.iter().take(cpus).flat_map(|cpu| &cpu.detours) {
            let of = &mut seen[usize::from(detour.cause)];
            of.times += 1;
            of.sum_ns += detour.length_ns;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(detours: &[(u64, u64)]) -> Recording {
        let detours = detours.iter().map(|&(start_ns, length_ns)| Detour { start_ns, length_ns, cause: 0 }).collect();
        Recording { length_ns: 1000, cpus: vec![Cpu { cpu: 3, detours }], causes: vec!["tick".into()] }
    }

    #[test]
    fn each_rule_has_its_sentence() {
        let says = |recording: &Recording, sentence: &str| {
            let invalid = recording.check().unwrap_err();
            assert!(invalid.to_string().contains(sentence), "{invalid}");
        };
        assert_eq!(with(&[(0, 10), (10, 5), (990, 10)]).check(), Ok(()));
        says(&Recording::default(), "no CPU");
        says(&with(&[(5, 0)]), "CPU 3: the detour at 5 ns has length 0");
        says(&with(&[(5, 9), (13, 1)]), "the detour at 13 ns begins before the previous one ends");
        says(&with(&[(995, 6)]), "the detour at 995 ns ends after the recording");
        says(&with(&[(5, u64::MAX)]), "ends after the recording");
        says(&with(&[(0, 995)]), "less than 1 % of its time is undisturbed");
        let mut twice = with(&[]);
        twice.cpus.push(Cpu { cpu: 3, detours: Vec::new() });
        says(&twice, "CPU 3 occurs twice");
        let mut unnamed = with(&[(5, 1)]);
        unnamed.causes.clear();
        says(&unnamed, "cause 0 has no name");
        says(&Recording { length_ns: 0, ..with(&[]) }, "less than 1 %");
    }
}
