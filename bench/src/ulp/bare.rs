//! The bare switch: contexts that continue each other in a ring, by the code that carriers use, and nothing else.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use anyhow::{Result, ensure};
use arch::Context;
use serde_json::json;

arch::context_switch!();

/// Length of the stack of a context, bytes.
const STACK_BYTES: usize = 64 << 10;

/// The contexts, and how many switches are left. The last context of the array is that of `bare`.
static CONTEXTS: AtomicPtr<Context> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Continues the next context for ever.
unsafe extern "C" fn go_round() -> ! {
    let (contexts, count) = (CONTEXTS.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    let me = RUNNING.load(Ordering::Relaxed);
    let next = if me + 1 == count { 0 } else { me + 1 };
    loop {
        let left = LEFT.load(Ordering::Relaxed);
        LEFT.store(left.wrapping_sub(1), Ordering::Relaxed);
        let to = if left == 0 { count } else { next };
        RUNNING.store(next, Ordering::Relaxed);
        // SAFETY: all contexts are saved but this one, and one thread runs them all.
        unsafe { switch(contexts.add(me as usize), contexts.add(to as usize)) }
    }
}

/// Measures the time of a switch among `count` contexts on this thread. Each has `rounds` turns. Prints JSON with `ns_per_yield`.
///
/// # Errors
/// When this processor cannot switch so.
pub fn bare(count: u64, rounds: u64) -> Result<u8> {
    // SAFETY: getauxval has no conditions.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    ensure!(arch::has_fast_tls(hwcap2), "this machine cannot set the FS base in user space");
    let stacks: Vec<Vec<u64>> = (0..count).map(|_| vec![0; STACK_BYTES / 8]).collect();
    let mut contexts: Vec<Context> = stacks
        .iter()
        .map(|stack| {
            // The registers that `switch` restores, the address to which it returns, and a word, as if a call had pushed it.
            let top = (stack.as_ptr() as u64 + STACK_BYTES as u64) & !15;
            let stack_pointer = top - 64;
            // SAFETY: within the stack.
            unsafe { ((stack_pointer + 48) as *mut u64).write(go_round as *const () as u64) };
            Context { stack_pointer, tls: tls(), sse_control: 0x1f80, x87_control: 0x37f, ..Context::default() }
        })
        .collect();
    contexts.push(Context { tls: tls(), ..Context::default() });
    CONTEXTS.store(contexts.as_mut_ptr(), Ordering::Relaxed);
    COUNT.store(count, Ordering::Relaxed);
    let turn = |switches: u64| {
        LEFT.store(switches, Ordering::Relaxed);
        let next = RUNNING.load(Ordering::Relaxed) as usize;
        // SAFETY: the other contexts are saved, and this thread runs them all.
        unsafe { switch(contexts.as_ptr().add(count as usize).cast_mut(), contexts.as_ptr().add(next).cast_mut()) };
    };
    turn(2 * count);
    let begin_ns = arch::monotonic_ns();
    turn(count * rounds);
    let ns = (arch::monotonic_ns() - begin_ns) as f64 / (count * rounds) as f64;
    println!("{}", json!({ "ns_per_yield": ns }));
    Ok(0)
}
