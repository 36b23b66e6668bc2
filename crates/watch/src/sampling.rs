//! How often user instruction pointers are sampled.
//!
//! A sample costs one timer interrupt. On the metal that is one or two microseconds, and 1 kHz costs
//! 0.1 to 0.2 %. In a guest, programming the timer and taking its interrupt each leave to the
//! hypervisor: 16 to 26 us per sample were measured on a KVM guest, 2.6 % at 1 kHz (a spinning
//! thread, slices with and without the event). Guests are therefore sampled at 200 Hz, about 0.5 %.
//!
//! Neither period is a whole fraction or multiple of a timer tick (1, 2.5, 3.3, 4 or 10 ms), so that
//! samples do not fall into step with what the tick does.

use machine::Root;
use machine::hypervisor::is_guest;

const ON_METAL_NS: u64 = 1_003_009;
const IN_GUEST_NS: u64 = 5_003_009;

/// Time between samples on this machine.
pub fn period_ns() -> u64 {
    if is_guest(&Root::live()) { IN_GUEST_NS } else { ON_METAL_NS }
}
