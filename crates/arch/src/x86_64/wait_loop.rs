//! Decides from the machine code of one function whether its loops only wait for other threads.
//!
//! # The rule
//! A loop *only waits* if repeating it makes no progress by itself, so that another thread has to end it. An instruction is judged by the innermost
//! loop that contains it, if this loop has at most [`MAX_LOOP`] instructions. The conditions for the loop are:
//!
//! 1. It stores nothing, with two exceptions. It may store to slots of its own stack frame, where compilers keep variables at -O0. And it
//!    may *try* a lock: locked exchanges, compare-exchanges and bit operations with an unchanging operand at an unchanging address, which
//!    leave a held lock as it is. Reason: a value that a loop stores is a result of work.
//! 2. It computes nothing on vectors or floating point, moves no strings, calls no function and enters no kernel. Calls to functions that
//!    consist of `pause`, or that give the CPU away, are allowed.
//! 3. If it has `pause` (or a newer variant), or such a call, it waits. Reason: the instruction has no other purpose.
//! 4. Otherwise:
//!    - values that are carried from one iteration to the next (in registers and stack slots) change only by constant steps. Reason: sums,
//!      products, random numbers and hashes carry a result;
//!    - no address in it depends on a value that changes from one iteration to the next. Reason: copying, scanning and probing advance
//!      along memory; a list walk makes the next address from the last load;
//!    - some branch that leaves it tests a value polled from memory at an unchanging address, and nothing else: the test does not also use
//!      a counter or a time. Reason: `i < *limit` ends by itself. Polling a slot of the function's own stack frame is accepted only if the
//!      loop has no counter at all, because -O0 code reads its plain variables in this way;
//!    - no branch in it tests a value that cannot change while the loop runs (registers that it does not write). Reason: compilers generate
//!      loops that would be endless but are never repeated, for example for a list that turns out to be empty; these look like polling.
//!
//! An address that is itself polled (`shared->flag` at -O0 or with a volatile pointer) is unchanging: this thread does not change it.
//!
//! A short function without loops and calls that has `pause` (`cpu_relax`) waits as a whole.
//!
//! # Known limits
//! - `while (!stop) n++` looks exactly like a bounded spin and counts as waiting, whatever `n` is for.
//! - A loop that searches by counting while it reads one plain variable looks like a bounded spin as well. Compilers rarely generate one:
//!   none in CPython and perl, 32 among the 45,201 functions of GCC's cc1.
//! - Timed delays by `rdtsc`, and delay loops of `nop` without `pause`, count as work. So do loops that scan several flags without `pause`,
//!   and loops that poll through a function that was not inlined (C++ atomics at -O0).
//! - Updates by compare-exchange count as work even under contention, unless they `pause`.

mod code;
mod cycles;
mod judge;
mod state;
mod step;

use code::Code;
use iced_x86::FlowControl;

use crate::wait_loop::{CallTarget, Callee, MAX_LOOP, Verdict, WaitLoops};

impl WaitLoops {
    /// Finds the loops of the function whose machine code is `bytes`, at address `start`, and decides for each loop whether it only waits.
    /// `callee` returns what a called function does, as far as waiting is concerned: for example, it gives up the CPU.
    pub fn find(bytes: &[u8], start: u64, callee: &dyn Fn(CallTarget) -> Callee) -> WaitLoops {
        let code = Code::decode(bytes, start);
        let pauses = code.instructions.iter().any(|instruction| step::relaxes(instruction.mnemonic()));
        let yields =
            code.instructions.iter().filter_map(step::call_target).any(|target| callee(target) == Callee::Yields);
        let short_leaf = is_short_leaf(&code);
        let relaxes_only = short_leaf && pauses;
        let looks_only = short_leaf && !step::writes_memory(&code.instructions);
        if relaxes_only {
            let spans = spans_of(&code, |_| Some(Verdict::Waits));
            return WaitLoops { spans, pauses, yields, relaxes_only, looks_only };
        }
        // The innermost loop around an instruction is the shortest one; among loops of equal length, a waiting loop is preferred.
        let mut innermost: Vec<Option<(usize, Verdict)>> = vec![None; code.len()];
        for cycle in cycles::small_cycles(&code, MAX_LOOP) {
            let verdict = judge::judge(&code, &cycle, callee);
            let length = cycle.body.len();
            for &node in &cycle.body {
                let known = &mut innermost[node as usize];
                let closer = known.is_none_or(|(known_length, _)| {
                    length < known_length || (length == known_length && verdict == Verdict::Waits)
                });
                if closer {
                    *known = Some((length, verdict));
                }
            }
        }
        let spans = spans_of(&code, |node| innermost[node].map(|(_, verdict)| verdict));
        WaitLoops { spans, pauses, yields, relaxes_only, looks_only }
    }
}

/// Joins adjacent instructions with the same verdict into spans.
fn spans_of(code: &Code, verdict: impl Fn(usize) -> Option<Verdict>) -> Vec<(u64, u64, Verdict)> {
    let mut spans: Vec<(u64, u64, Verdict)> = Vec::new();
    for (node, instruction) in code.instructions.iter().enumerate() {
        let Some(verdict) = verdict(node) else { continue };
        match spans.last_mut() {
            Some((_, end, last)) if *end == instruction.ip() && *last == verdict => *end = instruction.next_ip(),
            _ => spans.push((instruction.ip(), instruction.next_ip(), verdict)),
        }
    }
    spans
}

fn is_short_leaf(code: &Code) -> bool {
    code.len() <= MAX_LOOP
        && code.instructions.iter().all(|instruction| match instruction.flow_control() {
            FlowControl::Next | FlowControl::Return | FlowControl::Exception => true,
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                instruction.near_branch_target() > instruction.ip()
            }
            _ => false,
        })
}

#[cfg(test)]
mod tests;
