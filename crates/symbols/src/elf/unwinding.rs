//! From the registers of a function to those of its caller, by the unwinding table `.eh_frame` (System V ABI, DWARF 5 section 6.4).
//!
//! All registers are followed, not only the stack pointer and the frame pointer: so signal frames and realigned stacks are left, too.

use std::fs::File;

use arch::frame::{UNWOUND, UNWOUND_INSTRUCTION, UNWOUND_STACK_POINTER};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, EvaluationResult, FrameDescriptionEntry,
    NativeEndian, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};
use object::read::ReadRef;
use object::{Architecture, Object, ObjectSection};

use super::large::Large;
use super::{ElfError, contents};

type Slice<'d> = EndianSlice<'d, NativeEndian>;
type Entry<'d> = FrameDescriptionEntry<Slice<'d>>;

/// The processor whose registers are known.
const HOST: Architecture = if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };
/// An expression that computes longer is no compiler's.
const MOST_STEPS: u32 = 1000;

/// The values of the registers that unwinding tables know, by their numbers there.
pub type Registers = [u64; UNWOUND];

/// A word of a program's memory; `None`: there is none.
pub type ReadWord<'r> = &'r dyn Fn(u64) -> Option<u64>;

/// The unwinding table of a file. It needs the file no more.
pub struct UnwindTable {
    bytes: Vec<u8>,
    bases: BaseAddresses,
    /// Begin and end of each function, and its entry in the table; ascending.
    functions: Vec<(u64, u64, usize)>,
}

/// The registers of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The registers. The address of the instruction is where the caller continues.
    pub registers: Registers,
    /// Whether a signal has interrupted the caller: then the instruction is the next one that it executes, and not the one behind a call.
    pub is_interrupted: bool,
}

impl UnwindTable {
    /// Reads the table of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not an ELF file. Damaged parts of the table are left out.
    pub fn open(file: &File) -> Result<UnwindTable, ElfError> {
        match contents(file)? {
            Some(bytes) => UnwindTable::parse(bytes.as_slice()),
            None => UnwindTable::parse(&Large::new(file)?),
        }
    }

    /// Reads the table of a file in memory.
    ///
    /// # Errors
    /// It is not an ELF file.
    pub fn parse<'d>(data: impl ReadRef<'d>) -> Result<UnwindTable, ElfError> {
        let elf = object::File::parse(data)?;
        let address = |name| elf.section_by_name(name).map_or(0, |section| section.address());
        let mut bases = BaseAddresses::default().set_text(address(".text")).set_got(address(".got"));
        let mut bytes = Vec::new();
        // A table of another processor describes other registers.
        let is_readable = elf.is_64() && elf.architecture() == HOST && elf.is_little_endian();
        if let Some(section) = elf.section_by_name(".eh_frame").filter(|_| is_readable) {
            bases = bases.set_eh_frame(section.address());
            bytes = section.uncompressed_data()?.into_owned();
        }
        let mut table = UnwindTable { bytes, bases, functions: Vec::new() };
        table.functions = table.all_functions();
        Ok(table)
    }

    fn section(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.bytes, NativeEndian);
        section.set_address_size(8);
        section
    }

    fn all_functions(&self) -> Vec<(u64, u64, usize)> {
        let mut functions = Vec::new();
        let section = self.section();
        let mut entries = section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            {
                functions.push((entry.initial_address(), entry.end_address(), entry.offset()));
            }
        }
        functions.sort_unstable();
        functions
    }

    /// Returns the entry of the function at an address, as linked.
    fn entry_at(&self, address: u64) -> Option<Entry<'_>> {
        let behind = self.functions.partition_point(|(start, ..)| *start <= address);
        let (_, end, offset) = *self.functions.get(behind.checked_sub(1)?)?;
        if address >= end {
            return None;
        }
        self.section().fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset).ok()
    }

    /// Returns the registers of the caller of a function. `address`: an instruction of the function, as linked, before which nothing has changed that is
    /// not in `registers`. `None`: the table does not know the function, there is no caller, or the memory does not have what the table says.
    pub fn caller(&self, address: u64, registers: &Registers, read: ReadWord<'_>) -> Option<Caller> {
        let (section, entry) = (self.section(), self.entry_at(address)?);
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &self.bases, &mut context, address).ok()?;
        let known = Known { section, entry: &entry, registers, read };
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => known.register(*register)?.wrapping_add_signed(*offset),
            CfaRule::Expression(expression) => known.evaluate(expression, None)?,
        };
        let mut caller = *registers;
        caller[UNWOUND_STACK_POINTER] = frame;
        for (register, rule) in row.registers() {
            if let Some(value) = caller.get_mut(usize::from(register.0))
                && *rule != RegisterRule::Undefined
            {
                *value = known.before(*register, rule, frame)?;
            }
        }
        // The first function of a thread says that it has none.
        let back = entry.cie().return_address_register();
        if matches!(row.register(back), None | Some(RegisterRule::Undefined)) {
            return None;
        }
        caller[UNWOUND_INSTRUCTION] = *caller.get(usize::from(back.0))?;
        Some(Caller { registers: caller, is_interrupted: entry.is_signal_trampoline() })
    }
}

/// What rules are applied to.
struct Known<'k> {
    section: EhFrame<Slice<'k>>,
    entry: &'k Entry<'k>,
    registers: &'k Registers,
    read: ReadWord<'k>,
}

impl Known<'_> {
    fn register(&self, register: Register) -> Option<u64> {
        self.registers.get(usize::from(register.0)).copied()
    }

    /// Returns what a register had in the caller, whose frame is at `frame`.
    fn before(&self, register: Register, rule: &RegisterRule<usize>, frame: u64) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => self.register(register),
            RegisterRule::Offset(offset) => (self.read)(frame.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.register(*other),
            RegisterRule::Expression(expression) => (self.read)(self.evaluate(expression, Some(frame))?),
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(frame)),
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// Computes an expression, which finds `initial` on its stack.
    fn evaluate(&self, expression: &UnwindExpression<usize>, initial: Option<u64>) -> Option<u64> {
        let mut evaluation = expression.get(&self.section).ok()?.evaluation(self.entry.cie().encoding());
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic((self.read)(address)?))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register)?))
                }
                // Unwinding tables have no others.
                _ => return None,
            }
            .ok()?;
        }
        evaluation.value_result()?.to_u64(u64::MAX).ok()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use object::ObjectSymbol;

    use super::*;

    /// Functions in assembly, with the rules of compilers: plain, with a frame pointer, with a realigned stack (by an expression), and the first one of a thread.
    const SOURCE: &str = r#"
        .text
        .globl leaf, framed, realigned, first
        .type leaf, @function
leaf:   .cfi_startproc
        push %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_offset %rbx, -16
        nop
        pop %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        ret
        .cfi_endproc
        .size leaf, .-leaf
        .type framed, @function
framed: .cfi_startproc
        push %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov %rsp, %rbp
        .cfi_def_cfa_register %rbp
        nop
        .cfi_endproc
        .size framed, .-framed
        .type realigned, @function
realigned: .cfi_startproc
        # DW_CFA_def_cfa_expression: the word at rbp - 8
        .cfi_escape 0x0f, 3, 0x76, 0x78, 0x06
        # DW_CFA_expression: rbp is at rbp
        .cfi_escape 0x10, 6, 2, 0x76, 0
        nop
        .cfi_endproc
        .size realigned, .-realigned
        .type first, @function
first:  .cfi_startproc
        .cfi_undefined %rip
        nop
        .cfi_endproc
        .size first, .-first
"#;

    fn build(folder: &Path) -> PathBuf {
        let (source, library) = (folder.join("functions.s"), folder.join("functions.so"));
        std::fs::write(&source, SOURCE).expect("built");
        let built = Command::new("cc").args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source).status();
        assert!(built.expect("built").success());
        library
    }

    #[test]
    fn callers_are_found_by_the_rules_of_compilers() {
        let folder = tempfile::tempdir().unwrap();
        let library = build(folder.path());
        let table = UnwindTable::open(&File::open(&library).unwrap()).unwrap();
        let bytes = std::fs::read(&library).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let start = |name| elf.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address();
        // A stack of words from 1000 on, each of which has its address plus 5.
        let read = |address: u64| (1000..2000).contains(&address).then_some(address + 5);
        let registers: Registers = std::array::from_fn(|number| match number {
            6 => 1160,
            UNWOUND_STACK_POINTER => 1080,
            number => number as u64,
        });
        let caller = |name, into| table.caller(start(name) + into, &registers, &read);
        let found = |name, into| {
            let Caller { registers, is_interrupted } = caller(name, into).unwrap();
            assert!(!is_interrupted);
            [3, 6, UNWOUND_STACK_POINTER, UNWOUND_INSTRUCTION].map(|number| registers[number])
        };
        assert_eq!(found("leaf", 0), [3, 1160, 1088, 1085]);
        assert_eq!(found("leaf", 1), [1085, 1160, 1096, 1093]);
        assert_eq!(found("framed", 4), [3, 1165, 1176, 1173]);
        assert_eq!(found("realigned", 0), [3, 1165, 1157, 1154]);
        assert_eq!(caller("first", 0), None);
        assert_eq!(table.caller(1 << 40, &registers, &read), None);
        assert_eq!(table.caller(start("leaf"), &registers, &|_| None), None, "there is no such memory");
    }

    #[test]
    fn other_files_have_no_callers() {
        let mut bytes = std::fs::read("/bin/sh").unwrap();
        let table = UnwindTable::parse(&bytes[..]).unwrap();
        assert!(table.functions.len() > 10 && UnwindTable::open(&tempfile::tempfile().unwrap()).is_err());
        // e_machine: arm64.
        bytes[18..20].copy_from_slice(&[183, 0]);
        assert!(UnwindTable::parse(&bytes[..]).unwrap().functions.is_empty());
    }
}
