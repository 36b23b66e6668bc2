//! Where a ULP has crashed: the functions that were called, from its registers and its stack.
//!
//! The ULP has ended, but its memory is still mapped. Its stack may be damaged: it is read by a system call, which fails where no memory is. Files are open
//! only while they are read, because ULPs that are started later would inherit them; what was read is kept for the next crash.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arch::frame::{UNWOUND_INSTRUCTION, UNWOUND_STACK_POINTER, before_call};
use machine::Root;
use machine::process::{Backing, Mapping, Task};
use symbols::elf::{Caller, Image, Registers, UnwindTable};
use symbols::{ModuleId, Modules};
use ulp::carriers::Crash;
use ulp::host::read_memory;

use crate::crash_text::{Frames, Place, text};

/// Maximum number of functions of a crash.
const MOST_FRAMES: usize = 64;
/// So many crashes are looked into, as long as it has taken less than this time for all: meanwhile, the host does nothing else. Reading the mappings of a
/// thousand ULPs takes tens of milliseconds, and the names of a large program more.
const MOST_CRASHES: usize = 64;
const MOST_TIME: Duration = Duration::from_secs(1);

/// What is known of the files in which ULPs have crashed.
#[derive(Default)]
pub struct Backtracer {
    crashes: usize,
    spent: Duration,
    /// The table of the code that the kernel maps into each process. `None`: not read yet.
    vdso: Option<Option<UnwindTable>>,
    modules: Modules,
    files: HashMap<ModuleId, Known>,
}

/// What is known of a file.
struct Known {
    path: PathBuf,
    /// `None`: it cannot be read, or is no ELF file.
    table: Option<UnwindTable>,
    /// Functions that were looked up, by the offset of an instruction in the file.
    functions: HashMap<u64, Function>,
}

/// The function at an offset in a file.
#[derive(Clone, Debug)]
struct Function {
    /// Address of the instruction, as linked.
    address: u64,
    /// Address of the function's first byte, as linked, and its name.
    found: Option<(u64, String)>,
}

/// An instruction in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InFile {
    module: ModuleId,
    offset: u64,
}

/// Files that are open while a crash is looked into.
type Open = HashMap<ModuleId, Option<Image>>;

impl Backtracer {
    /// Returns the text about a ULP that has crashed.
    pub fn report(&mut self, crash: &Crash) -> String {
        if self.crashes >= MOST_CRASHES || self.spent >= MOST_TIME {
            return text(crash, &Frames::After(self.crashes));
        }
        let begun = Instant::now();
        let frames = self.frames(&crash.registers);
        self.crashes += 1;
        self.spent += begun.elapsed();
        text(crash, &frames)
    }

    fn frames(&mut self, registers: &Registers) -> Frames {
        let root = Root::live();
        let own = std::process::id();
        let maps = Task::process(&root, own).maps().unwrap_or_default();
        let (mut places, mut open) = (Vec::new(), Open::new());
        let mut next = Some(Caller { registers: *registers, is_interrupted: true });
        while let Some(Caller { registers, is_interrupted }) = next {
            if places.len() == MOST_FRAMES {
                return Frames::Of { places, has_more: true };
            }
            let at = registers[UNWOUND_INSTRUCTION];
            // A call may be the last instruction of its function.
            let instruction = if is_interrupted { at } else { at.wrapping_sub(1) };
            let mapping = mapping_at(&maps, instruction);
            let file = mapping.and_then(|mapping| self.in_file(mapping, instruction));
            let caller = match (mapping, file) {
                (_, Some(file)) => self.caller(file, &root, &mut open, &registers),
                (Some(mapping), None) => self.caller_of_vdso(mapping, instruction, &registers),
                // A call has jumped to where no code is.
                (None, None) if places.is_empty() => {
                    before_call(&registers, word).map(|registers| Caller { registers, is_interrupted: false })
                }
                (None, None) => None,
            };
            places.push(match (&caller, file) {
                (Some(Caller { is_interrupted: true, .. }), _) => Place::Signal,
                (_, Some(file)) => self.place(file, at.wrapping_sub(instruction)),
                (_, None) => Place::Memory { address: at },
            });
            next = caller.filter(|caller| leads_on(&registers, caller));
        }
        Frames::Of { places, has_more: false }
    }

    /// Returns where an address is in the file that is mapped there.
    fn in_file(&mut self, mapping: &Mapping, address: u64) -> Option<InFile> {
        let Backing::File { path, .. } = &mapping.backing else { return None };
        let module = self.modules.of(mapping);
        let (path, table, functions) = (path.clone(), None, HashMap::new());
        self.files.entry(module).or_insert(Known { path, table, functions });
        Some(InFile { module, offset: mapping.offset_bytes + (address - mapping.start) })
    }

    /// Looks up the function at an instruction. Returns the registers of its caller.
    fn caller(&mut self, at: InFile, root: &Root, open: &mut Open, registers: &Registers) -> Option<Caller> {
        let InFile { module, offset } = at;
        let known = self.files.get_mut(&module)?;
        if !known.functions.contains_key(&offset) {
            let modules = &self.modules;
            let image = open.entry(module).or_insert_with(|| {
                let file = modules.file(module, root)?;
                if known.table.is_none() {
                    known.table = UnwindTable::open(&file).ok();
                }
                Image::open(file, &known.path, root).ok()
            });
            let image = image.as_ref()?;
            let address = image.address(offset)?;
            let function = image.function_at(address);
            let found = function.and_then(|function| Some((function.start, function.name?)));
            known.functions.insert(offset, Function { address, found });
        }
        let address = known.functions.get(&offset)?.address;
        known.table.as_ref()?.caller(address, registers, &word)
    }

    /// Returns the registers of the caller, if the mapping is that of the kernel's own code (vdso(7)), a whole ELF file in memory.
    fn caller_of_vdso(&mut self, mapping: &Mapping, instruction: u64, registers: &Registers) -> Option<Caller> {
        if !matches!(&mapping.backing, Backing::Special(name) if name == "[vdso]") {
            return None;
        }
        let table = self.vdso.get_or_insert_with(|| {
            let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
            read_memory(mapping.start, &mut bytes).ok()?;
            UnwindTable::parse(&bytes[..]).ok()
        });
        table.as_ref()?.caller(instruction - mapping.start, registers, &word)
    }

    /// Returns the place of an instruction that was looked up; `behind` is the distance from it to the address that is shown.
    fn place(&self, InFile { module, offset }: InFile, behind: u64) -> Place {
        let known = self.files.get(&module);
        let path = known.map(|known| known.path.clone()).unwrap_or_default();
        match known.and_then(|known| known.functions.get(&offset)) {
            Some(Function { address, found: Some((start, name)) }) => {
                Place::Function { name: name.clone(), into: (address + behind).saturating_sub(*start), path }
            }
            Some(Function { address, found: None }) => Place::File { address: address + behind, path },
            // The file cannot be read: its layout is not known.
            None => Place::File { address: offset + behind, path },
        }
    }
}

/// Returns the mapping of executable memory at an address. `maps` is ascending.
fn mapping_at(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let behind = maps.partition_point(|mapping| mapping.start <= address);
    let mapping = maps.get(behind.checked_sub(1)?)?;
    (address < mapping.end && mapping.executable).then_some(mapping)
}

/// Whether a caller's frame is behind that of the function, as those of all calls on one stack. A damaged stack could lead in circles.
fn leads_on(registers: &Registers, caller: &Caller) -> bool {
    let is_behind = caller.registers[UNWOUND_STACK_POINTER] > registers[UNWOUND_STACK_POINTER];
    caller.registers[UNWOUND_INSTRUCTION] != 0 && (caller.is_interrupted || is_behind)
}

/// Reads a word of memory.
fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read_memory(address, &mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
