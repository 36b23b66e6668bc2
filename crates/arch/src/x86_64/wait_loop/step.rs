//! The effect of one instruction on the [`State`].

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};

use super::state::{FIRST_SLOT, FLAGS, MAX_LOCATIONS, Slot, State, Value};
use crate::wait_loop::{CallTarget, Callee};

/// The effects of one instruction in addition to the new state.
#[derive(Default)]
pub(super) struct Effects {
    /// Everything that the instruction reads, addresses included.
    pub inputs: Value,
    /// Addresses of loads and stores outside the stack frame.
    pub addresses: Value,
    /// Whether the instruction tells the CPU that this is a waiting loop, or gives up the CPU.
    pub relaxes: bool,
    /// Whether the instruction stores outside the stack frame, except by a locked read-modify-write.
    pub stores: bool,
    /// Whether the instruction is a locked read-modify-write that gives another result when it is repeated.
    pub advances_memory: bool,
    /// For an exchange that can be repeated without effect: the value that it stores. For a compare-exchange: the values that it compares
    /// with and stores.
    pub offered: Option<Offer>,
    /// Whether the instruction computes on vectors or floating point, or moves strings.
    pub moves_data: bool,
    /// Whether the instruction's effect is unknown: calls, system calls, a moving stack pointer.
    pub opaque: bool,
}

/// The operand of a locked read-modify-write.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub value: Value,
    /// Whether the value must be a constant, that is, must not have been read from memory in the same loop.
    pub must_be_constant: bool,
}

/// Steps through the instructions of one loop.
pub(super) struct Stepper<'a> {
    info: InstructionInfoFactory,
    /// The stack slots seen so far; slot n is location FIRST_SLOT + n.
    slots: Vec<Slot>,
    frame_pointer: bool,
    callee: &'a dyn Fn(CallTarget) -> Callee,
}

impl<'a> Stepper<'a> {
    pub fn new(frame_pointer: bool, callee: &'a dyn Fn(CallTarget) -> Callee) -> Stepper<'a> {
        Stepper { info: InstructionInfoFactory::new(), slots: Vec::new(), frame_pointer, callee }
    }

    /// Applies `instruction` to `state` (what is known about registers and stack slots), and returns the instruction's other effects.
    pub fn step(&mut self, instruction: &Instruction, state: &mut State) -> Effects {
        let mut effects = Effects::default();
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            self.call(instruction, state, &mut effects);
            return effects;
        }
        let info = self.info.info(instruction);
        let accessed = |used: &&UsedMemory| used.access() != OpAccess::NoMemAccess;
        let memory: Vec<UsedMemory> = info.used_memory().iter().filter(accessed).copied().collect();
        let registers: Vec<(Register, OpAccess)> =
            info.used_registers().iter().map(|used| (used.register(), used.access())).collect();

        effects.relaxes = relaxes(instruction.mnemonic());
        effects.moves_data = instruction.is_string_instruction() || computes_on_vectors(instruction, &registers);
        effects.opaque = instruction.is_stack_instruction()
            || instruction.is_invalid()
            || instruction.flow_control() == FlowControl::XbeginXabortXend
            || registers.iter().any(|&(register, access)| {
                writes(access)
                    && (register.full_register() == Register::RSP
                        || (self.frame_pointer && register.full_register() == Register::RBP))
            });

        // Adds the registers that the instruction reads to `inputs`.
        let mut inputs = Value::default();
        if !is_zeroing(instruction) {
            for &(register, access) in &registers {
                if let Some(location) = location(register)
                    && reads(access)
                {
                    inputs = inputs.union(state.get(location));
                }
            }
        }
        if instruction.rflags_read() != 0 {
            inputs = inputs.union(state.get(FLAGS));
        }
        inputs.address_of = None;

        // Adds what the instruction reads from memory to `inputs`.
        let mut loaded = Value::default();
        let mut slot_loaded = None;
        for used in &memory {
            match self.place(used, state) {
                Place::Full => effects.opaque = true,
                Place::Slot(location) => {
                    if reads(used.access()) {
                        loaded = loaded.union(state.get(location));
                        slot_loaded = Some(state.get(location));
                    }
                }
                Place::Elsewhere(address) => {
                    effects.addresses = effects.addresses.union(address);
                    if reads(used.access()) {
                        // If the address changes from one iteration to the next, the load counts as work: the loop may walk a list.
                        let polled = Value { polled: true, work: address.tokens != 0, ..address };
                        loaded = loaded.union(polled);
                    }
                }
            }
        }
        loaded.address_of = None;
        inputs = inputs.union(loaded);
        effects.inputs = inputs;

        // Computes the value that the instruction writes.
        let kind = Kind::of(instruction);
        let mut result = inputs;
        match kind {
            Kind::Copy => {}
            Kind::Step => result.step |= result.tokens != 0,
            Kind::Other => result.work |= result.tokens != 0,
        }
        if matches!(instruction.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdrand | Mnemonic::Rdseed) {
            result.clock = true;
        }
        let plain = self.plain_copy(instruction, state, slot_loaded);

        // Records the writes to memory.
        for used in memory.iter().filter(|used| writes(used.access()) && !is_fence(instruction)) {
            match self.place(used, state) {
                Place::Full => effects.opaque = true,
                Place::Slot(location) => state.set(location, plain.unwrap_or(result)),
                Place::Elsewhere(_) => offer(instruction, state, &mut effects),
            }
        }

        // Records the writes to registers.
        for &(register, access) in &registers {
            let Some(location) = location(register) else { continue };
            if !writes(access) {
                continue;
            }
            let value = match instruction.mnemonic() {
                // The result is the old content of memory, whatever the instruction stores.
                Mnemonic::Xchg | Mnemonic::Xadd | Mnemonic::Cmpxchg if !memory.is_empty() => loaded,
                _ => plain.unwrap_or(result),
            };
            let conditional = matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite);
            state.set(location, if conditional { value.union(state.get(location)) } else { value });
        }
        if instruction.rflags_modified() != 0 {
            state.set(FLAGS, Value { address_of: None, ..result });
        }
        effects
    }

    /// Applies a call instruction to `state` and `effects`. The effect of a call is known only if the called function just pauses or gives up the
    /// CPU. The registers that the called function may change by the System V calling convention become unknown.
    fn call(&self, instruction: &Instruction, state: &mut State, effects: &mut Effects) {
        match call_target(instruction).map(self.callee) {
            Some(Callee::Relaxes | Callee::Yields) => effects.relaxes = true,
            Some(Callee::Other) | None => effects.opaque = true,
        }
        let unknown = Value { clock: true, ..Value::default() };
        let scratch = [
            Register::RAX,
            Register::RCX,
            Register::RDX,
            Register::RSI,
            Register::RDI,
            Register::R8,
            Register::R9,
            Register::R10,
            Register::R11,
        ];
        for location in scratch.into_iter().filter_map(location) {
            state.set(location, unknown);
        }
        state.set(FLAGS, unknown);
    }

    /// Returns where a memory operand points.
    fn place(&mut self, used: &UsedMemory, state: &State) -> Place {
        let displacement = used.displacement().cast_signed();
        if used.index() == Register::None && used.segment() != Register::FS && used.segment() != Register::GS {
            if let Some(slot) = self.own(used.base(), displacement) {
                return self.slot(slot);
            }
            if let Some(slot) = location(used.base()).and_then(|base| state.get(base).address_of) {
                let displacement = slot.displacement.wrapping_add(displacement);
                return self.slot(Slot { displacement, ..slot });
            }
        }
        let part = |register| location(register).map_or(Value::default(), |location| state.get(location));
        let address = part(used.base()).union(part(used.index()));
        Place::Elsewhere(Value { address_of: None, ..address })
    }

    /// Returns the stack slot at address `base + displacement`, if the register `base` holds the stack pointer or frame pointer.
    fn own(&self, base: Register, displacement: i64) -> Option<Slot> {
        match base {
            Register::RSP => Some(Slot { frame: false, displacement }),
            Register::RBP if self.frame_pointer => Some(Slot { frame: true, displacement }),
            _ => None,
        }
    }

    fn slot(&mut self, slot: Slot) -> Place {
        let index = self.slots.iter().position(|known| *known == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        });
        let location = FIRST_SLOT + index;
        if location < MAX_LOCATIONS { Place::Slot(location) } else { Place::Full }
    }

    /// Returns the value that a `mov` copies unchanged, or, for a `lea` of a slot, the slot's address.
    fn plain_copy(&self, instruction: &Instruction, state: &State, slot_loaded: Option<Value>) -> Option<Value> {
        match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                let source = location(instruction.op1_register()).map(|location| state.get(location));
                let register_or_memory = matches!(instruction.op0_kind(), OpKind::Register | OpKind::Memory);
                source.filter(|_| register_or_memory)
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => slot_loaded,
            Mnemonic::Mov => Some(Value::default()),
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                let displacement = instruction.memory_displacement64().cast_signed();
                let slot = self.own(instruction.memory_base(), displacement)?;
                Some(Value { address_of: Some(slot), ..Value::default() })
            }
            _ => None,
        }
    }
}

enum Place {
    /// A stack slot; the number is its index among the locations (registers and slots).
    Slot(usize),
    /// Memory outside the stack frame; the value describes its address.
    Elsewhere(Value),
    /// The operand is a further stack slot, but no more slots can be tracked.
    Full,
}

enum Kind {
    /// The instruction moves or compares values.
    Copy,
    /// The instruction adds a constant.
    Step,
    /// The instruction does anything else.
    Other,
}

impl Kind {
    fn of(instruction: &Instruction) -> Kind {
        let immediate = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
        match instruction.mnemonic() {
            Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Movbe
            | Mnemonic::Cbw
            | Mnemonic::Cwde
            | Mnemonic::Cdqe
            | Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Bt
            | Mnemonic::Nop
            | Mnemonic::Endbr64 => Kind::Copy,
            Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => Kind::Step,
            Mnemonic::Add | Mnemonic::Sub if immediate => Kind::Step,
            Mnemonic::Lea if instruction.memory_index() == Register::None => Kind::Step,
            _ => Kind::Other,
        }
    }
}

/// Returns whether any of `instructions` writes memory otherwise than by push or call.
pub(super) fn writes_memory(instructions: &[Instruction]) -> bool {
    let mut info = InstructionInfoFactory::new();
    instructions.iter().any(|instruction| {
        !instruction.is_stack_instruction()
            && info.info(instruction).used_memory().iter().any(|used| writes(used.access()))
    })
}

/// Returns whether an instruction is `pause` or a newer variant. Sources: SDM volume 2, WAITPKG; APM volume 3, MONITORX.
pub(super) fn relaxes(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Pause
            | Mnemonic::Tpause
            | Mnemonic::Umwait
            | Mnemonic::Umonitor
            | Mnemonic::Mwaitx
            | Mnemonic::Monitorx
    )
}

/// Returns the target of a call, or of a jump out of the function, which may be a tail call.
pub(super) fn call_target(instruction: &Instruction) -> Option<CallTarget> {
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::UnconditionalBranch if instruction.near_branch_target() != 0 => {
            Some(CallTarget::Code(instruction.near_branch_target()))
        }
        FlowControl::IndirectCall | FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
            Some(CallTarget::Pointer(instruction.ip_rel_memory_address()))
        }
        _ => None,
    }
}

/// Records in `effects` what a write to memory outside the stack frame is: a try of a lock, an atomic update or a plain store.
///
/// A waiting loop may try its lock: by an exchange, a compare-exchange or a bit operation that leaves memory as it is while another thread
/// holds the lock. An addition (tickets, work counters) advances with every iteration. A compare-exchange whose new or expected value was
/// read in the same loop is an update of shared data, and such a loop seldom repeats at all.
fn offer(instruction: &Instruction, state: &State, effects: &mut Effects) {
    let register = |register| location(register).map_or(Value::default(), |location| state.get(location));
    let operand = || match instruction.op1_kind() {
        OpKind::Register => register(instruction.op1_register()),
        _ => Value::default(),
    };
    let locked = instruction.has_lock_prefix();
    let offered = match instruction.mnemonic() {
        Mnemonic::Xchg => {
            let side = if instruction.op0_kind() == OpKind::Register {
                register(instruction.op0_register())
            } else {
                operand()
            };
            Some(Offer { value: side, must_be_constant: false })
        }
        Mnemonic::Cmpxchg if locked => {
            Some(Offer { value: operand().union(register(Register::RAX)), must_be_constant: true })
        }
        Mnemonic::And | Mnemonic::Or | Mnemonic::Bts | Mnemonic::Btr if locked => {
            Some(Offer { value: operand(), must_be_constant: true })
        }
        _ => None,
    };
    match offered {
        Some(_) => effects.offered = offered,
        None if locked => effects.advances_memory = true,
        None => effects.stores = true,
    }
}

/// Returns whether the instruction serves only as a memory fence and writes no new value, such as `lock or $0,(%rsp)`.
fn is_fence(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix()
        && matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Add | Mnemonic::Sub | Mnemonic::Xor)
        && !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory)
        && instruction.immediate(1) == 0
}

/// Returns whether this sets a register to zero, as `xor %eax,%eax` does.
fn is_zeroing(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

fn computes_on_vectors(instruction: &Instruction, registers: &[(Register, OpAccess)]) -> bool {
    use iced_x86::CpuidFeature::{FPU, MMX};
    registers.iter().any(|(register, _)| register.is_vector_register() || register.is_k() || register.is_st())
        || instruction.cpuid_features().iter().any(|feature| matches!(feature, FPU | MMX))
}

fn location(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}
