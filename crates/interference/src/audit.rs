//! Are the events complete? Compares what the BPF programs counted on a CPU with the kernel's own counters, over the same time.
//!
//! Each row of /proc/interrupts and /proc/softirqs is one source. A row agrees if the two counts differ by at most [`SLACK`] or [`SHARE`]: the two
//! readings are some microseconds apart. A source that has a row and no tracepoint is not seen: if it interrupted the CPU during the window, a
//! detour without an event may be its doing.

use wire::noise::{Vector, count};

/// Largest difference of two counts that agree.
pub const SLACK: u64 = 3;
/// Largest difference of two counts that agree, as a share of the kernel's count.
pub const SHARE: f64 = 0.005;

/// One of the kernel's counters on one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The row's name: the number of a device interrupt, or letters.
    pub name: String,
    /// How much the counter has grown.
    pub count: u64,
    /// Number of handlers that one interrupt calls: devices that share it.
    pub handlers: u64,
}

/// The comparison of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The row's name.
    pub name: String,
    /// The kernel's count.
    pub kernel: u64,
    /// The count of the BPF programs; `None`: no tracepoint reports this source.
    pub events: Option<u64>,
}

impl Compared {
    /// Returns whether the counts agree. A source without a tracepoint agrees if it did nothing.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let events = self.events.unwrap_or(0);
        let difference = self.kernel.abs_diff(events);
        difference <= if self.events.is_some() { SLACK } else { 0 } || (difference as f64) <= self.kernel as f64 * SHARE
    }
}

/// Which vectors a row of /proc/interrupts counts; `None` if the row is not about a vector with a tracepoint.
fn vectors(row: &str) -> Option<&'static [Vector]> {
    Some(match row {
        "LOC" => &[Vector::LocalTimer],
        "RES" => &[Vector::Reschedule],
        "CAL" => &[Vector::CallFunction, Vector::CallFunctionSingle],
        "IWI" => &[Vector::IrqWork],
        "PLT" => &[Vector::PlatformIpi],
        "SPU" => &[Vector::Spurious],
        "TRM" => &[Vector::Thermal],
        "THR" => &[Vector::Threshold],
        "DFR" => &[Vector::DeferredError],
        _ => return None,
    })
}

/// Rows that are part of another one or are no interruptions: `TLB` is part of `CAL`, `PMI` of `NMI`; `MCP` counts polls in a timer's function;
/// `RTR` retries of reading a register; `ERR` and `MIS` are of the whole machine.
const PARTS: [&str; 6] = ["TLB", "PMI", "MCP", "RTR", "ERR", "MIS"];

/// Compares the counters of /proc/interrupts on one CPU. `events` has the counts of the BPF programs, by `wire::noise::count`. `attached` says whether
/// the tracepoint with this name reports.
#[must_use]
pub fn interrupts(kernel: &[Counter], events: &[u64], attached: &dyn Fn(&str) -> bool) -> Vec<Compared> {
    let of = |index: usize| events.get(index).copied().unwrap_or(0);
    let both = |name: &str| has_both(name, attached);
    let compared = |counter: &Counter| {
        let events = if let Ok(number) = counter.name.parse::<usize>() {
            let index = count::IRQS + number;
            (index < count::ALL && both("irq_handler")).then(|| of(index) / counter.handlers.max(1))
        } else if counter.name == "NMI" {
            // Each interrupt calls at least one handler, usually several.
            attached("nmi_handler").then(|| of(count::NMIS).min(counter.count))
        } else {
            let vectors = vectors(&counter.name)?.iter().filter(|vector| both(tracepoints(**vector)));
            let counts: Vec<u64> = vectors.map(|vector| of(count::VECTORS + *vector as usize)).collect();
            (!counts.is_empty()).then(|| counts.iter().sum())
        };
        Some(Compared { name: counter.name.clone(), kernel: counter.count, events })
    };
    let unseen = |counter: &Counter| Compared { name: counter.name.clone(), kernel: counter.count, events: None };
    let rows = kernel.iter().filter(|counter| !PARTS.contains(&counter.name.as_str()));
    rows.map(|counter| compared(counter).unwrap_or_else(|| unseen(counter))).collect()
}

/// Compares the counters of /proc/softirqs on one CPU, in the order of the softirqs' numbers.
#[must_use]
pub fn softirqs(kernel: &[Counter], events: &[u64], attached: &dyn Fn(&str) -> bool) -> Vec<Compared> {
    let compared = |(number, counter): (usize, &Counter)| {
        let events = has_both("softirq", attached).then(|| events.get(count::SOFTIRQS + number).copied().unwrap_or(0));
        Compared { name: counter.name.clone(), kernel: counter.count, events }
    };
    kernel.iter().enumerate().map(compared).collect()
}

/// Compares what happened to the measuring threads: `kernel` and `events` are the times that they left their CPUs, and their page faults. A row is named
/// for readers of the report.
#[must_use]
pub fn threads(kernel: [u64; 2], events: [u64; 2], attached: &dyn Fn(&str) -> bool) -> Vec<Compared> {
    let sees_faults = attached("page_fault_user") && attached("page_fault_kernel");
    [("switches", true), ("page faults", sees_faults)]
        .into_iter()
        .zip(kernel.into_iter().zip(events))
        .map(|((name, is_seen), (kernel, events))| Compared {
            name: name.to_owned(),
            kernel,
            events: is_seen.then_some(events),
        })
        .collect()
}

/// Returns whether both tracepoints of a context report: without the end, it has no length, and explains nothing.
fn has_both(name: &str, attached: &dyn Fn(&str) -> bool) -> bool {
    ["entry", "exit"].iter().all(|edge| attached(&format!("{name}_{edge}")))
}

/// Returns the beginning of the names of an interrupt vector's tracepoints: `_entry` and `_exit` follow.
fn tracepoints(vector: Vector) -> &'static str {
    match vector {
        Vector::LocalTimer => "local_timer",
        Vector::Reschedule => "reschedule",
        Vector::CallFunction => "call_function",
        Vector::CallFunctionSingle => "call_function_single",
        Vector::IrqWork => "irq_work",
        Vector::PlatformIpi => "x86_platform_ipi",
        Vector::Spurious => "spurious_apic",
        Vector::Error => "error_apic",
        Vector::Thermal => "thermal_apic",
        Vector::Threshold => "threshold_apic",
        Vector::DeferredError => "deferred_error_apic",
    }
}

/// Returns what the kernel counted and no event told, as `n × ROW`, the most frequent first. Empty if all rows agree.
#[must_use]
pub fn not_seen(compared: &[Compared]) -> Vec<String> {
    let mut rows: Vec<&Compared> = compared.iter().filter(|row| !row.agrees()).collect();
    let missing = |row: &Compared| row.kernel.abs_diff(row.events.unwrap_or(0));
    rows.sort_by_key(|row| std::cmp::Reverse(missing(row)));
    rows.iter().map(|row| format!("{} × {}", missing(row), row.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, count: u64) -> Counter {
        Counter { name: name.to_owned(), count, handlers: 1 }
    }

    fn events(counts: &[(usize, u64)]) -> Vec<u64> {
        let mut all = vec![0; count::ALL];
        counts.iter().for_each(|(at, n)| all[*at] = *n);
        all
    }

    fn compared(kernel: &[Counter], counts: &[(usize, u64)]) -> Vec<Compared> {
        interrupts(kernel, &events(counts), &|_| true)
    }

    #[test]
    fn counts_agree_within_three_or_half_a_per_cent() {
        let timer = count::VECTORS + Vector::LocalTimer as usize;
        for (kernel, ours, agrees) in
            [(250, 250, true), (250, 247, true), (250, 246, false), (10_000, 9_950, true), (10_000, 9_949, false)]
        {
            let row = &compared(&[counter("LOC", kernel)], &[(timer, ours)])[0];
            assert_eq!(row.agrees(), agrees, "{row:?}");
        }
    }

    #[test]
    fn a_source_without_a_tracepoint_must_not_have_acted() {
        let rows = compared(&[counter("HYP", 0), counter("XYZ", 1)], &[]);
        assert_eq!(rows.iter().map(Compared::agrees).collect::<Vec<_>>(), [true, false]);
        assert_eq!(not_seen(&rows), ["1 × XYZ"]);
    }

    #[test]
    fn calls_come_by_two_vectors_and_devices_may_share_an_interrupt() {
        let (one, many) = (Vector::CallFunctionSingle as usize, Vector::CallFunction as usize);
        let counts = [(one, 30), (many, 70), (count::IRQS + 36, 40)];
        let shared = Counter { handlers: 2, ..counter("36", 20) };
        let rows = compared(&[counter("CAL", 100), counter("TLB", 60), shared], &counts);
        assert_eq!(rows.len(), 2, "TLB is a part of CAL");
        assert!(rows.iter().all(Compared::agrees), "{rows:?}");
    }

    #[test]
    fn what_is_left_out_is_not_seen() {
        // Without the end of a context, its events explain no detour, although their number is right.
        let timer = count::VECTORS + Vector::LocalTimer as usize;
        for (out, n) in [("local_timer_entry", 0), ("local_timer_exit", 250)] {
            let rows = interrupts(&[counter("LOC", 250)], &events(&[(timer, n)]), &|name| name != out);
            assert_eq!(not_seen(&rows), ["250 × LOC"], "{out}");
        }
        for (out, n) in [("softirq_entry", 0), ("softirq_exit", 9)] {
            let of = events(&[(count::SOFTIRQS + 1, n)]);
            let rows = softirqs(&[counter("HI", 0), counter("TIMER", 9)], &of, &|name| name != out);
            assert_eq!(not_seen(&rows), ["9 × TIMER"], "{out}");
        }
        let device = events(&[(count::IRQS + 36, 5)]);
        assert_eq!(not_seen(&interrupts(&[counter("36", 5)], &device, &|name| name != "irq_handler_exit")), ["5 × 36"]);
    }

    #[test]
    fn switches_and_page_faults_of_the_threads_are_compared() {
        let rows = |out: &str, faults| not_seen(&threads([10, 50], [10, faults], &|name| name != out));
        assert_eq!(rows("", 50), [""; 0]);
        assert_eq!(rows("", 40), ["10 × page faults"]);
        assert_eq!(rows("page_fault_user", 0), ["50 × page faults"]);
    }

    #[test]
    fn softirqs_are_compared_by_their_number() {
        let rows =
            softirqs(&[counter("HI", 0), counter("TIMER", 90)], &events(&[(count::SOFTIRQS + 1, 90)]), &|_| true);
        assert!(rows.iter().all(Compared::agrees), "{rows:?}");
    }

    #[test]
    fn each_vector_has_the_row_that_counts_it() {
        let rows = ["LOC", "RES", "CAL", "IWI", "PLT", "SPU", "TRM", "THR", "DFR"];
        let counted: Vec<Vector> = rows.iter().flat_map(|row| vectors(row).unwrap()).copied().collect();
        // Errors of the interrupt controller are counted for the whole machine.
        let missing: Vec<Vector> = Vector::ALL.into_iter().filter(|vector| !counted.contains(vector)).collect();
        assert_eq!(missing, [Vector::Error]);
    }
}
