//! The signal frame: what the kernel has saved of a program when a signal handler runs, and from which rt_sigreturn(2) continues.

pub use crate::alternate::Alternate;

/// The beginning of the kernel's `ucontext` (asm-generic/ucontext.h and asm/sigcontext.h). What follows is not part of the frame.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    flags: u64,
    link: u64,
    alternate: Alternate,
    /// See `register`.
    registers: [u64; 23],
    /// Address of the floating-point state.
    pub floating_point: u64,
    reserved: [u64; 8],
    mask: u64,
}

const _: () = assert!(size_of::<Frame>() == 304);

/// Indices of registers: r8 to r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags, segments, error, trap, old mask, cr2.
mod register {
    pub const R8: usize = 0;
    pub const R9: usize = 1;
    pub const R10: usize = 2;
    pub const DI: usize = 8;
    pub const SI: usize = 9;
    pub const BP: usize = 10;
    pub const BX: usize = 11;
    pub const DX: usize = 12;
    pub const AX: usize = 13;
    pub const CX: usize = 14;
    pub const SP: usize = 15;
    pub const IP: usize = 16;
    pub const TRAP: usize = 20;
}

/// Length of the instructions `syscall` and `int 0x80`, bytes.
const CALL_BYTES: u64 = 2;
/// The exception of a breakpoint (X86_TRAP_BP), and the breakpoint of one byte; the other one has two.
const BREAKPOINT: u64 = 3;
const INT3: u8 = 0xcc;
/// Architecture of a system call with the numbers of this processor (AUDIT_ARCH_X86_64). `int 0x80` has those of 32-bit programs.
pub const CALL_ARCHITECTURE: u32 = 0xc000_003e;
/// Length of the floating-point state if the kernel does not tell (FXSAVE), bytes.
const FXSAVE_BYTES: usize = 512;
/// A number behind which the kernel tells the length (struct _fpx_sw_bytes in asm/sigcontext.h).
const TOLD: u32 = 0x4650_5853;
/// Where in the floating-point state that is, bytes.
pub const STATE_TOLD_AT: usize = 464;
/// Alignment of the floating-point state, bytes (XSAVE).
pub const STATE_ALIGN: usize = 64;

/// Number of registers that unwinding tables know by number: the general ones, and the address of the instruction (System V ABI, table 3.36).
pub const UNWOUND: usize = 17;
/// Numbers of the stack pointer and of the address of the instruction among them.
pub const UNWOUND_STACK_POINTER: usize = 7;
/// See [`UNWOUND_STACK_POINTER`].
pub const UNWOUND_INSTRUCTION: usize = 16;

/// Returns the registers of a caller, if the call has jumped to where no code is. `read` reads a word of memory.
pub fn before_call(registers: &[u64; UNWOUND], read: impl FnOnce(u64) -> Option<u64>) -> Option<[u64; UNWOUND]> {
    let mut caller = *registers;
    caller[UNWOUND_INSTRUCTION] = read(registers[UNWOUND_STACK_POINTER])?;
    caller[UNWOUND_STACK_POINTER] = registers[UNWOUND_STACK_POINTER].wrapping_add(8);
    Some(caller)
}

/// Returns the length of a floating-point state, bytes. `told`: the two words at [`STATE_TOLD_AT`].
#[must_use]
pub fn state_bytes(told: [u32; 2]) -> usize {
    if told[0] == TOLD { told[1] as usize } else { FXSAVE_BYTES }
}

impl Frame {
    /// The number of the system call that was stopped.
    #[must_use]
    pub fn call(&self) -> i64 {
        self.registers[register::AX] as i64
    }

    /// The arguments of the system call that was stopped.
    #[must_use]
    pub fn arguments(&self) -> [u64; 6] {
        use register::{DI, DX, R8, R9, R10, SI};
        [DI, SI, DX, R10, R8, R9].map(|index| self.registers[index])
    }

    /// The address of the next instruction.
    #[must_use]
    pub fn instruction(&self) -> u64 {
        self.registers[register::IP]
    }

    /// The stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.registers[register::SP]
    }

    /// Gives the system call that was stopped a result.
    pub fn set_result(&mut self, result: i64) {
        self.registers[register::AX] = result as u64;
    }

    /// Makes the program execute the system call that was stopped.
    pub fn repeat_call(&mut self) {
        self.registers[register::IP] -= CALL_BYTES;
    }

    /// Makes the program execute the instruction again that has raised an exception. The address is that of the instruction already, except after a
    /// breakpoint. `byte_at` reads the program's code.
    pub fn repeat_fault(&mut self, byte_at: impl FnOnce(u64) -> u8) {
        if self.registers[register::TRAP] == BREAKPOINT {
            let is_short = byte_at(self.registers[register::IP] - 1) == INT3;
            self.registers[register::IP] -= if is_short { 1 } else { 2 };
        }
    }

    /// The registers by their numbers in unwinding tables.
    #[must_use]
    pub fn unwound(&self) -> [u64; UNWOUND] {
        use register::{AX, BP, BX, CX, DI, DX, IP, R8, SI, SP};
        const FIRST: [usize; 8] = [AX, DX, CX, BX, SI, DI, BP, SP];
        std::array::from_fn(|number| match number {
            0..8 => self.registers[FIRST[number]],
            8..UNWOUND_INSTRUCTION => self.registers[R8 + number - 8],
            _ => self.registers[IP],
        })
    }

    /// Makes the kernel continue the frame with this signal unblocked.
    pub fn unblock(&mut self, signal: i32) {
        self.mask &= !(1 << (signal - 1));
    }

    /// Makes the kernel continue the frame with these signals blocked, and this stack for signal handlers.
    pub fn give(&mut self, mask: u64, alternate: Alternate) {
        self.mask = mask;
        self.alternate = alternate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let alternate = Alternate { stack: 0, flags: 0, bytes: 0 };
        let registers = std::array::from_fn(|index| 100 + index as u64);
        Frame { flags: 0, link: 0, alternate, registers, floating_point: 0, reserved: [0; 8], mask: 0 }
    }

    #[test]
    fn a_call_is_repeated_with_its_arguments() {
        let mut frame = frame();
        assert_eq!((frame.call(), frame.arguments()), (113, [108, 109, 112, 102, 100, 101]));
        frame.repeat_call();
        assert_eq!((frame.instruction(), frame.stack_pointer()), (114, 115));
        frame.set_result(-4);
        assert_eq!(frame.call(), -4);
    }

    #[test]
    fn registers_have_the_numbers_of_unwinding_tables() {
        let numbers = [13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16].map(|index| 100 + index);
        let unwound = frame().unwound();
        assert_eq!(unwound, numbers);
        let (stack, instruction) = (unwound[UNWOUND_STACK_POINTER], unwound[UNWOUND_INSTRUCTION]);
        assert_eq!((stack, instruction), (frame().stack_pointer(), frame().instruction()));
        let before = before_call(&unwound, |address| Some(address + 1)).unwrap();
        assert_eq!((before[UNWOUND_STACK_POINTER], before[UNWOUND_INSTRUCTION]), (stack + 8, stack + 1));
        assert_eq!((&before[..7], before_call(&unwound, |_| None)), (&unwound[..7], None));
    }

    #[test]
    fn one_signal_is_unblocked() {
        let mut frame = frame();
        frame.mask = 0b1110_0000;
        frame.unblock(6);
        frame.unblock(1);
        assert_eq!(frame.mask, 0b1100_0000);
    }

    #[test]
    fn only_after_a_breakpoint_the_address_is_that_of_the_next_instruction() {
        let mut frame = frame();
        frame.repeat_fault(|_| panic!("no breakpoint"));
        assert_eq!(frame.instruction(), 116);
        for (byte, at) in [(0xcc, 115), (3, 114)] {
            frame.registers[register::IP] = 116;
            frame.registers[register::TRAP] = 3;
            frame.repeat_fault(|address| if address == 115 { byte } else { panic!("{address}") });
            assert_eq!(frame.instruction(), at);
        }
    }

    #[test]
    fn the_kernel_tells_how_long_the_floating_point_state_is() {
        assert_eq!((state_bytes([0x4650_5853, 2700]), state_bytes([0, 2700])), (2700, 512));
    }
}
