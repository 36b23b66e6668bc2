//! Weighted factoring: `wf`, `awf`, `awf_b` to `awf_e`.
//!
//! | schedule | size | weight | time of a chunk |
//! |---|---|---|---|
//! | `wf` | w·(size of the batch) | given | – |
//! | `awf` | w·(size of the batch) | from earlier instances ([`crate::history`]) | whole instance |
//! | `awf_b` | w·(size of the batch) | from this instance, at each request | without the request |
//! | `awf_c` | w·⌈R/(2P)⌉ | from this instance, at each request | without the request |
//! | `awf_d` | as `awf_b` | as `awf_b` | with the request |
//! | `awf_e` | as `awf_c` | as `awf_c` | with the request |
//!
//! π_i = Σ k·t_k / Σ k·n_k over the chunks k = 1, 2, … of thread i, with time t_k and n_k iterations; later chunks
//! count more. w_i = (1/π_i)·P′ / Σ_j (1/π_j) over the P′ threads that have finished a chunk. A thread that has
//! finished none uses its given weight, by default 1.
//!
//! Sources: Flynn Hummel, Schmidt, Uma and Wein, SPAA 1996 (`wf`); Banicescu, Velusamy and Devaprasad, Cluster
//! Computing 6(3), 2003 (`awf`); Cariño and Banicescu, J. Supercomputing 44(1), 2008 (`awf_b` to `awf_e`). Oracle:
//! DLS4LB, in the tests. DLS4LB cuts a chunk at the end of its batch; here it reaches over it. LB4OMP counts batches
//! with a second counter, measures in whole microseconds, and locks.

use super::convert::{real, whole};
use super::team::{ROUNDING, Team};

/// Returns the weight of a thread from the speeds of all threads; `given` if the thread has no speed yet.
#[inline]
pub(super) fn weight(thread: usize, threads: usize, given: f64, team: &(impl Team + ?Sized)) -> f64 {
    let Some(speed) = team.pace(thread).speed() else { return given };
    let (mut sum, mut count) = (0.0, 0u32);
    for other in 0..threads {
        let pace = if other == thread { Some(speed) } else { team.pace(other).speed() };
        if let Some(speed) = pace {
            sum += speed;
            count += 1;
        }
    }
    speed * f64::from(count) / sum
}

/// Returns `weight` · `size`, rounded. A weight that is not a number counts as 0.
#[inline]
pub(super) fn scaled(weight: f64, size: u64) -> u64 {
    whole(weight * real(size) + ROUNDING)
}
