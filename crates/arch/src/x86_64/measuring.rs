//! The clock and the loops that measure noise.
//!
//! The loops are written in assembly, so that the compiler can neither remove work nor add memory accesses. A test reads their machine code.

use std::arch::{asm, naked_asm};

use crate::measuring::{Gap, Watched};

/// Reads the time-stamp counter. `rdtscp` waits for all earlier instructions and loads; `lfence` keeps later ones from starting before it (Intel SDM,
/// volume 2, RDTSCP).
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the instructions read a counter and write the named registers.
    unsafe {
        asm!("rdtscp", "lfence", out("rax") low, out("rdx") high, out("rcx") _, options(nomem, nostack, preserves_flags));
    }
    high << 32 | low
}

/// Reads the time-stamp counter without waiting for other instructions. The reading may be some nanoseconds early or late, which takes less time than
/// to prevent it.
#[inline]
#[must_use]
pub fn quick_ticks() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the instruction reads a counter and writes the named registers.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack, preserves_flags)) };
    high << 32 | low
}

/// Reads the counter until two readings are more than `threshold` ticks apart, or until the counter reaches `end`. The first gap begins at `last`.
/// Returns the readings before and after the gap; they are equal if the end was reached without a gap.
#[inline]
pub fn until_gap(last: u64, threshold: u64, end: u64, watched: &mut Watched) -> Gap {
    // SAFETY: `watched` is valid for reading and writing, which is all that the function requires.
    unsafe { gap_loop(last, threshold, end, watched) }
}

/// The loop of [`until_gap`]. Its registers: rdi the last reading, rsi the threshold, r10 the end, r8 the smallest gap, r9 the number of readings.
///
/// # Safety
/// `watched` must be valid.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn gap_loop(last: u64, threshold: u64, end: u64, watched: *mut Watched) -> Gap {
    naked_asm!(
        "mov r10, rdx",
        "mov r11, rcx",
        "mov r8, [r11]",
        "mov r9, [r11 + 8]",
        "2:",
        "rdtscp",
        "lfence",
        "shl rdx, 32",
        "or rax, rdx",
        "mov rdx, rax",
        "sub rdx, rdi",
        "inc r9",
        "cmp rdx, rsi",
        "ja 3f",
        "cmp rdx, r8",
        "cmovb r8, rdx",
        "mov rdi, rax",
        "cmp rax, r10",
        "jb 2b",
        "3:",
        "mov [r11], r8",
        "mov [r11 + 8], r9",
        "mov rdx, rax",
        "mov rax, rdi",
        "ret",
    )
}

/// Executes `units` units of integer work: a chain of multiplications, each of which waits for the one before. No memory is used.
#[inline]
pub fn integer_work(units: u64) {
    // SAFETY: the function changes registers only, as its ABI allows.
    unsafe { integer_loop(units) }
}

/// The loop of [`integer_work`].
///
/// # Safety
/// None is needed.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn integer_loop(units: u64) {
    naked_asm!(
        "test rdi, rdi",
        "jz 3f",
        "mov rax, 3",
        "2:",
        "imul rax, rax, 5",
        "imul rax, rax, 7",
        "imul rax, rax, 11",
        "imul rax, rax, 13",
        "dec rdi",
        "jnz 2b",
        "3:",
        "ret",
    )
}

/// Returns whether this processor has fused multiply-add instructions on 256-bit vectors.
#[must_use]
pub fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx")
}

/// Executes `units` units of floating-point work: eight independent chains of fused multiply-adds, which keep the units busy. No memory is used.
///
/// # Panics
/// If the processor does not [have](has_fma) these instructions.
#[inline]
pub fn fma_work(units: u64) {
    assert!(has_fma(), "fused multiply-add needs the processor's FMA");
    // SAFETY: the processor has the instructions; the function changes registers only, as its ABI allows.
    unsafe { fma_loop(units) }
}

/// The loop of [`fma_work`].
///
/// # Safety
/// The processor must have AVX and FMA.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn fma_loop(units: u64) {
    naked_asm!(
        "test rdi, rdi",
        "jz 3f",
        "vxorps ymm0, ymm0, ymm0",
        "vxorps ymm1, ymm1, ymm1",
        "vxorps ymm2, ymm2, ymm2",
        "vxorps ymm3, ymm3, ymm3",
        "vxorps ymm4, ymm4, ymm4",
        "vxorps ymm5, ymm5, ymm5",
        "vxorps ymm6, ymm6, ymm6",
        "vxorps ymm7, ymm7, ymm7",
        "2:",
        "vfmadd231pd ymm0, ymm0, ymm0",
        "vfmadd231pd ymm1, ymm1, ymm1",
        "vfmadd231pd ymm2, ymm2, ymm2",
        "vfmadd231pd ymm3, ymm3, ymm3",
        "vfmadd231pd ymm4, ymm4, ymm4",
        "vfmadd231pd ymm5, ymm5, ymm5",
        "vfmadd231pd ymm6, ymm6, ymm6",
        "vfmadd231pd ymm7, ymm7, ymm7",
        "dec rdi",
        "jnz 2b",
        "vzeroupper",
        "3:",
        "ret",
    )
}

/// Reads and writes one word of each cache line of `memory`, `units` lines in all, from the line `at` on and around. Returns the line after the last
/// one.
///
/// # Panics
/// If the memory has no line of 64 bytes.
#[inline]
pub fn streaming_work(units: u64, memory: &mut [u64], at: u64) -> u64 {
    let lines = memory.len() as u64 / 8;
    assert!(lines > 0 && at < lines, "streaming needs memory, and a line in it");
    // SAFETY: `memory` has `lines` lines of 8 words, and the function goes around at the last one.
    unsafe { streaming_loop(units, memory.as_mut_ptr(), lines, at) }
}

/// The loop of [`streaming_work`]. rdi: units left; rsi: the memory; rdx: its lines; rcx: the line.
///
/// # Safety
/// `memory` must have `lines` lines of 64 bytes, and `at` must be below `lines`.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn streaming_loop(units: u64, memory: *mut u64, lines: u64, at: u64) -> u64 {
    naked_asm!(
        "test rdi, rdi",
        "jz 3f",
        "2:",
        "mov rax, rcx",
        "shl rax, 6",
        "inc qword ptr [rsi + rax]",
        "inc rcx",
        "cmp rcx, rdx",
        "mov eax, 0",
        "cmove rcx, rax",
        "dec rdi",
        "jnz 2b",
        "3:",
        "mov rax, rcx",
        "ret",
    )
}

/// Reads the bytes of the loops' machine code, up to their return instruction.
#[cfg(all(test, feature = "machine-code"))]
mod tests {
    use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

    use super::*;

    /// Returns the instructions of the only loop in a function: from the target of its only backward branch to that branch.
    fn only_loop(function: *const ()) -> Vec<Instruction> {
        // SAFETY: each loop and its return take less than 256 bytes, and the code around is mapped too.
        let bytes = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), 256) };
        let decoder = Decoder::with_ip(64, bytes, function as u64, DecoderOptions::NONE);
        let mut code: Vec<Instruction> = Vec::new();
        for instruction in decoder {
            code.push(instruction);
            if instruction.flow_control() == FlowControl::Return {
                break;
            }
        }
        let back = |i: &&Instruction| i.flow_control() == FlowControl::ConditionalBranch && i.near_branch64() < i.ip();
        let branches: Vec<&Instruction> = code.iter().filter(back).collect();
        assert_eq!(branches.len(), 1, "one loop");
        let (begin, end) = (branches[0].near_branch64(), branches[0].ip());
        code.iter().filter(|i| (begin..=end).contains(&i.ip())).copied().collect()
    }

    fn touches_memory(code: &[Instruction]) -> bool {
        code.iter().any(|i| (0..i.op_count()).any(|op| i.op_kind(op) == OpKind::Memory))
    }

    fn calls(code: &[Instruction]) -> bool {
        code.iter().any(|i| matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall))
    }

    fn mnemonics(code: &[Instruction]) -> Vec<Mnemonic> {
        code.iter().map(Instruction::mnemonic).collect()
    }

    #[test]
    fn the_gap_loop_reads_the_counter_once_and_touches_no_memory() {
        let code = only_loop(gap_loop as *const ());
        assert!(!touches_memory(&code) && !calls(&code));
        let counter = mnemonics(&code);
        assert_eq!(counter[..2], [Mnemonic::Rdtscp, Mnemonic::Lfence]);
        assert_eq!(counter.iter().filter(|m| **m == Mnemonic::Rdtscp).count(), 1);
    }

    #[test]
    fn the_work_loops_do_what_they_say() {
        let integer = only_loop(integer_loop as *const ());
        assert!(!touches_memory(&integer) && !calls(&integer));
        assert_eq!(integer.iter().filter(|i| i.mnemonic() == Mnemonic::Imul).count(), 4);
        let fma = only_loop(fma_loop as *const ());
        assert!(!touches_memory(&fma) && !calls(&fma));
        let wide = |i: &&Instruction| i.code() == Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256;
        assert_eq!(fma.iter().filter(wide).count(), 8);
        let streaming = only_loop(streaming_loop as *const ());
        assert!(!calls(&streaming));
        let accesses = streaming.iter().filter(|i| (0..i.op_count()).any(|op| i.op_kind(op) == OpKind::Memory));
        assert_eq!(accesses.count(), 1, "one word of each line, read and written");
    }
}
