//! The period at which user instruction pointers are sampled.
//!
//! A sample costs one timer interrupt. On bare metal that is one or two microseconds, so 1 kHz costs 0.1 to 0.2 %. In a guest, programming the timer
//! and taking its interrupt each exit to the hypervisor. On a KVM guest 16 to 26 us per sample were measured, 2.6 % at 1 kHz (a spinning thread,
//! slices with and without the event). Guests are therefore sampled at 200 Hz, about 0.5 %.
//!
//! With a constant period of 5 ms, samples would fall into step with a program that repeats something every 5 ms, and would always hit the same part
//! of it. (Measured with a barrier every 5.0 ms: 40.0 % waiting instead of 45.4 %.) So `bpf` changes its period about every 100 ms (a *turn*),
//! between 3/4 and 5/4 of the mean. `perf` keeps one period, because the period of events that threads have inherited cannot be changed. No period is
//! a whole fraction or multiple of a timer tick (1, 2.5, 3.3, 4 or 10 ms), so that samples do not fall into step with the tick. In most turns, each CPU
//! has another period (`bpf/sampler.rs` says why).

use machine::Root;
use machine::hypervisor::is_guest;

const ON_METAL_NS: u64 = 1_003_009;
const IN_GUEST_NS: u64 = 5_003_009;

/// Minimum time, ns, for which one sampling period is kept (a turn). It is less than the 100 ms between two ticks of a session, so that each tick
/// begins a turn. In a guest, a turn has about 20 samples. They cover the whole cycle of a program whose own period differs from the sampling period
/// by 1/20.
pub(crate) const TURN_NS: u64 = 90_000_000;

/// Returns the mean time between samples on this machine, nanoseconds.
pub fn period_ns() -> u64 {
    if is_guest(&Root::live()) { IN_GUEST_NS } else { ON_METAL_NS }
}

/// Returns the sampling period of the CPU with index `cpu` in turn number `turn`, an interval of about 100 ms in which the period is constant. The
/// period is `mean_ns × (3/4 + x/2)`, where `x = (1/2 + turn × (√5 − 1)/2 + cpu × (√2 − 1)) mod 1`. For turn 0 and CPU 0 this is the mean. The values of
/// `x` (a Weyl sequence) fill the range evenly from the first turns on; random numbers would clump.
#[must_use]
pub fn period_of_turn_ns(mean_ns: u64, turn: u32, cpu: u32) -> u64 {
    /// (√5 − 1) / 2, as a fraction of 2^32.
    const GOLDEN: u32 = 2_654_435_769;
    /// √2 − 1, as a fraction of 2^32.
    const SILVER: u32 = 1_779_033_704;
    let place = turn.wrapping_mul(GOLDEN).wrapping_add(cpu.wrapping_mul(SILVER)).wrapping_add(1 << 31);
    mean_ns - mean_ns / 4 + ((mean_ns / 2 * u64::from(place)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_fill_their_range_evenly() {
        let mut periods: Vec<u64> = (0..100).map(|turn| period_of_turn_ns(IN_GUEST_NS, turn, 0)).collect();
        let mean = periods.iter().sum::<u64>() / 100;
        assert!(mean.abs_diff(IN_GUEST_NS) < IN_GUEST_NS / 100, "{mean}");
        periods.sort_unstable();
        assert!(periods[0] >= IN_GUEST_NS * 3 / 4 && periods[99] <= IN_GUEST_NS * 5 / 4);
        let widest = periods.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest < Some(IN_GUEST_NS / 50), "{widest:?}");
    }

    #[test]
    fn cpus_have_different_periods_in_a_turn() {
        for turn in 0..1000 {
            let mut periods: Vec<u64> = (0..16).map(|cpu| period_of_turn_ns(IN_GUEST_NS, turn, cpu)).collect();
            periods.sort_unstable();
            let closest = periods.windows(2).map(|pair| pair[1] - pair[0]).min();
            assert!(closest > Some(IN_GUEST_NS / 200), "turn {turn}: {closest:?}");
        }
    }

    #[test]
    fn neighbouring_turns_differ_much() {
        for turn in 0..1000 {
            let (one, next) = (period_of_turn_ns(IN_GUEST_NS, turn, 0), period_of_turn_ns(IN_GUEST_NS, turn + 1, 0));
            assert!(one.abs_diff(next) > IN_GUEST_NS / 8, "turn {turn}: {one} {next}");
        }
    }

    #[test]
    fn short_turns_vary_evenly_around_their_length() {
        let turns: Vec<u64> = (1..=1000).map(|turn| period_of_turn_ns(1000, turn, 0)).collect();
        assert!(turns.iter().all(|turn| (750..1250).contains(turn)));
        let mean = turns.iter().sum::<u64>() as f64 / 1000.0;
        assert!((mean - 1000.0).abs() < 3.0, "{mean}");
        for quarter in 0..4 {
            let range = 750 + 125 * quarter..875 + 125 * quarter;
            let count = turns.iter().filter(|turn| range.contains(*turn)).count();
            assert!((240..=260).contains(&count), "{quarter}: {count}");
        }
    }
}
