//! The stubs of the procedure linkage table (System V ABI, x86-64).

use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Size and alignment of a stub, in bytes.
pub const PLT_ENTRY_BYTES: u64 = 16;
/// Length of the longest instruction, in bytes.
pub const LONGEST_INSTRUCTION_BYTES: u64 = 15;

/// Returns where in memory the target address of a stub is stored. `code`: the stub's machine code, which lies at address `start`: `jmp
/// *slot(%rip)`, possibly after `endbr64`.
pub fn import_slot(code: &[u8], start: u64) -> Option<u64> {
    Decoder::with_ip(64, code, start, DecoderOptions::NONE)
        .into_iter()
        .find(|instruction| instruction.flow_control() == FlowControl::IndirectBranch)
        .filter(|jump| jump.is_ip_rel_memory_operand())
        .map(|jump| jump.ip_rel_memory_address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_a_stub_is_where_its_jump_reads() {
        // endbr64; bnd jmp *0x2fe5(%rip), and the same without either.
        let guarded = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xe5, 0x2f, 0x00, 0x00];
        assert_eq!(import_slot(&guarded, 0x1000), Some(0x1000 + 11 + 0x2fe5));
        assert_eq!(import_slot(&[0xff, 0x25, 0x10, 0, 0, 0], 0x1000), Some(0x1016));
        // A jump to a register has no slot.
        assert_eq!(import_slot(&[0xff, 0xe0], 0x1000), None);
        assert_eq!(import_slot(&[], 0x1000), None);
    }
}
