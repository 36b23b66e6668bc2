//! The machine code of one function, as a flow graph of instructions.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Longest function that is judged, in bytes. The longest functions of interpreters and solvers are shorter; longer ones are generated
/// code, in which no runtime waits.
const MAX_BYTES: usize = 1 << 20;

/// The instructions of one function in address order, and the edges between them.
pub(super) struct Code {
    pub instructions: Vec<Instruction>,
    successors: Vec<[Option<u32>; 2]>,
    predecessors: Vec<Vec<u32>>,
    /// Whether the function keeps its frame's address in rbp, so that `[rbp+d]` is its own stack.
    pub frame_pointer: bool,
}

impl Code {
    /// Decodes `bytes`, which lie at `start`. Bytes that are not an instruction end the flow.
    pub fn decode(bytes: &[u8], start: u64) -> Code {
        let bytes = &bytes[..bytes.len().min(MAX_BYTES)];
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect();
        let index_of = |ip: u64| {
            instructions.binary_search_by_key(&ip, Instruction::ip).ok().and_then(|index| u32::try_from(index).ok())
        };
        let successors: Vec<[Option<u32>; 2]> = instructions
            .iter()
            .map(|instruction| {
                let next = || index_of(instruction.next_ip());
                let target = || index_of(instruction.near_branch_target());
                match instruction.flow_control() {
                    _ if instruction.is_invalid() => [None, None],
                    FlowControl::Next
                    | FlowControl::Call
                    | FlowControl::IndirectCall
                    | FlowControl::XbeginXabortXend => [next(), None],
                    FlowControl::ConditionalBranch => [next(), target()],
                    FlowControl::UnconditionalBranch => [target(), None],
                    FlowControl::IndirectBranch
                    | FlowControl::Return
                    | FlowControl::Interrupt
                    | FlowControl::Exception => [None, None],
                }
            })
            .collect();
        // Padding (nop) before an aligned loop would look like a second entry to the loop. No instruction leads to the padding, so its edge into the
        // loop is left out.
        let mut reached = vec![false; instructions.len()];
        for (from, edges) in (0u32..).zip(&successors) {
            for to in edges.iter().flatten().filter(|&&to| to != from + 1) {
                reached[*to as usize] = true;
            }
        }
        let mut predecessors = vec![Vec::new(); instructions.len()];
        for (from, edges) in (0u32..).zip(&successors) {
            let at = from as usize;
            if at > 0 && !reached[at] && instructions[at].mnemonic() == Mnemonic::Nop {
                continue;
            }
            for &to in edges.iter().flatten() {
                reached[to as usize] = true;
                predecessors[to as usize].push(from);
            }
        }
        let frame_pointer = instructions.iter().any(|instruction| {
            instruction.mnemonic() == Mnemonic::Mov
                && instruction.op0_kind() == OpKind::Register
                && instruction.op1_kind() == OpKind::Register
                && instruction.op0_register() == Register::RBP
                && instruction.op1_register() == Register::RSP
        });
        Code { instructions, successors, predecessors, frame_pointer }
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Returns the instructions that may follow `node` inside the function.
    pub fn successors(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.successors[node as usize].iter().flatten().copied()
    }

    /// Returns the instructions that may come before `node` inside the function.
    pub fn predecessors(&self, node: u32) -> &[u32] {
        &self.predecessors[node as usize]
    }
}
