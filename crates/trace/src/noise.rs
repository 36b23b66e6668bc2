//! Noise for viewers: the detours of each CPU over time, named by their causes. [`perfetto::noise`](crate::perfetto::noise) and
//! [`paraver::noise`](crate::paraver::noise) write them.

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Noise {
    /// Begin of the time axis: CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME, ns.
    pub begin_ns: [u64; 3],
    /// Length of the measurement, ns.
    pub length_ns: u64,
    /// Names and classes of causes.
    pub causes: Vec<(String, String)>,
    /// The measured CPUs.
    pub cpus: Vec<Cpu>,
}

/// The detours of a CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Begin on the time axis and length of each detour, ns, and index of its cause. In order of time.
    pub detours: Vec<(u64, u64, u32)>,
}

#[cfg(test)]
impl Noise {
    /// Two CPUs with two detours each.
    pub(crate) fn example() -> Noise {
        let cause = |name: &str, class: &str| (name.to_owned(), class.to_owned());
        let cpu = |cpu, detours: &[(u64, u64, u32)]| Cpu { cpu, detours: detours.to_vec() };
        Noise {
            begin_ns: [1000, 5000, 9000],
            length_ns: 100,
            causes: vec![cause("timer tick", "tick"), cause("thread a(1)", "thread")],
            cpus: vec![cpu(3, &[(10, 5, 0), (40, 20, 1)]), cpu(7, &[(0, 10, 1), (95, 20, 0)])],
        }
    }
}
