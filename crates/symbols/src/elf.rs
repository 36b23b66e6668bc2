//! One ELF file: the function at an address, and its machine code.
//!
//! Bounds and names come from, in this order:
//!
//! 1. the procedure linkage table, whose stubs are named after the functions that they call (`sched_yield@plt`);
//! 2. a symbol with a size that covers the address: from `.symtab`, or that of a separate debug file if the file itself is stripped, and
//!    from `.dynsym`;
//! 3. the frame description entries of `.eh_frame`: bounds without a name, which even stripped files have;
//! 4. a symbol without a size (assembly) before the address in the same section, up to the next symbol. Such a guess is marked.
//!
//! A symbol with a size that ends before the address is never taken. In a stripped library, such symbols would give every internal function the name
//! of the last exported function before it.

mod debug_file;
mod frames;
mod inside;
mod large;
mod lines;
mod loader;
mod names;
mod table;
mod tables;
mod unwinding;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use arch::wait_loop::{CallTarget, Callee, MAX_LOOP, WaitLoops};
use arch::{LONGEST_INSTRUCTION_BYTES, PLT_ENTRY_BYTES};
use machine::Root;
use object::read::ReadRef;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget};

pub use inside::{LIBGOMP, LIBOMP, Part, has_inside};
pub use lines::{Line, Lines};
pub use loader::Dynamic;
pub use unwinding::{Caller, ReadWord, Registers, UnwindTable};

use large::Large;
use table::Table;

/// The reason why a file yields no functions.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Read(#[from] std::io::Error),
    /// The file does not follow the ELF specification.
    #[error("not a well-formed ELF file: {0}")]
    Format(#[from] object::Error),
}

/// A function in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Virtual address of the function's first byte, as linked (before relocation).
    pub start: u64,
    /// First virtual address after the function.
    pub end: u64,
    /// Name in source form; `None` if only the bounds are known.
    pub name: Option<String>,
    /// Whether name and end are guessed, because the symbol has no size.
    pub guessed: bool,
}

/// The bytes of the file that one loadable segment maps.
struct Load {
    address: u64,
    offset: u64,
    len: u64,
}

struct Section {
    address: u64,
    end: u64,
    is_plt: bool,
}

/// An ELF file, with the tables that are needed to find the function at any address in it.
pub struct Image {
    file: File,
    /// Whether the file is for the processor type that cox runs on. Only then can its machine code be analysed.
    pub is_of_this_processor: bool,
    loads: Vec<Load>,
    sections: Vec<Section>,
    symbols: Table,
    /// Function bounds of `.eh_frame`, ascending.
    frames: Vec<(u64, u64)>,
    /// Names of imported functions, by the address of their entry in the global offset table.
    imports: HashMap<u64, String>,
    callees: RefCell<HashMap<u64, Callee>>,
}

/// Offset of `e_machine`, the processor type, in an ELF file. It is the same in 32-bit and 64-bit files.
const E_MACHINE_AT: u64 = 18;

/// Functions that yield the CPU: sched_yield(2), thrd_yield(3), and the old pthread_yield(3).
const YIELDS: [&str; 4] = ["sched_yield", "__sched_yield", "thrd_yield", "pthread_yield"];

impl Image {
    /// Reads `file`, which a process had mapped from `path`. Debug files are looked up below `root`.
    ///
    /// # Errors
    /// The file cannot be read, or is not an ELF file. Damaged parts of an ELF file are left out.
    pub fn open(file: File, path: &Path, root: &Root) -> Result<Image, ElfError> {
        match contents(&file)? {
            Some(bytes) => Image::parse(bytes.as_slice(), file, path, root),
            None => Image::parse(&Large::new(&file)?, file, path, root),
        }
    }

    fn parse<'d>(data: impl ReadRef<'d>, file: File, path: &Path, root: &Root) -> Result<Image, ElfError> {
        let elf = object::File::parse(data)?;
        let machine = data.read_bytes_at(E_MACHINE_AT, 2).unwrap_or_default();
        let is_of_this_processor = machine == arch::ELF_MACHINE.to_le_bytes();
        let loads = elf
            .segments()
            .map(|segment| {
                let (offset, len) = segment.file_range();
                Load { address: segment.address(), offset, len }
            })
            .collect();
        let sections: Vec<Section> = elf
            .sections()
            .filter(|section| section.kind() == object::SectionKind::Text)
            .map(|section| Section {
                address: section.address(),
                end: section.address().saturating_add(section.size()),
                is_plt: section.name().is_ok_and(|name| name.starts_with(".plt")),
            })
            .collect();
        let mut symbols = Table::default();
        symbols.add(elf.symbols());
        if elf.symbol_table().is_none()
            && let Some(debug) = debug_file::find(&elf, path, root)
        {
            match contents(&debug) {
                Ok(Some(bytes)) => add_symbols(&mut symbols, bytes.as_slice()),
                _ => Large::new(&debug).iter().for_each(|large| add_symbols(&mut symbols, large)),
            }
        }
        symbols.add(elf.dynamic_symbols());
        symbols.sort();
        let frames = frames::bounds(&elf);
        let imports = imports(&elf);
        Ok(Image { is_of_this_processor, loads, sections, symbols, frames, imports, callees: RefCell::default(), file })
    }

    /// Returns the virtual address of the byte at `file_offset`; `None` if no segment maps it.
    pub fn address(&self, file_offset: u64) -> Option<u64> {
        self.loads.iter().find_map(|load| {
            let into = file_offset.checked_sub(load.offset)?;
            (into < load.len).then(|| load.address.wrapping_add(into))
        })
    }

    /// Returns the function that covers virtual address `address`.
    pub fn function_at(&self, address: u64) -> Option<Function> {
        let section = self.sections.iter().find(|section| (section.address..section.end).contains(&address));
        if let Some(section) = section.filter(|section| section.is_plt) {
            let start = section.address + (address - section.address) / PLT_ENTRY_BYTES * PLT_ENTRY_BYTES;
            let name = self.import_of_stub(start).map(|name| format!("{}@plt", names::demangle(name)));
            return Some(Function { start, end: start + PLT_ENTRY_BYTES, name, guessed: false });
        }
        if let Some(symbol) = self.symbols.covering(address) {
            let name = Some(names::demangle(&self.symbols.name(symbol)));
            return Some(Function { start: symbol.address, end: symbol.end(), name, guessed: false });
        }
        let behind = self.frames.partition_point(|&(start, _)| start <= address);
        if let Some(&(start, end)) = behind.checked_sub(1).and_then(|at| self.frames.get(at))
            && address < end
        {
            let name = self.symbols.starting_at(start).map(|symbol| names::demangle(&self.symbols.name(symbol)));
            return Some(Function { start, end, name, guessed: false });
        }
        let section = section?;
        let (symbol, next) = self.symbols.before(address)?;
        if symbol.size != 0 || symbol.address < section.address {
            return None;
        }
        let end = next.unwrap_or(section.end).min(section.end);
        let name = Some(names::demangle(&self.symbols.name(symbol)));
        Some(Function { start: symbol.address, end, name, guessed: true })
    }

    /// Returns the machine code of a function: the part that the file contains, and at most 1 MiB.
    pub fn code(&self, function: &Function) -> Vec<u8> {
        const MAX: u64 = 1 << 20;
        let found = self.loads.iter().find_map(|load| {
            let into = function.start.checked_sub(load.address)?;
            (into < load.len).then(|| (load.offset + into, load.len - into))
        });
        let Some((offset, available)) = found else { return Vec::new() };
        let len = function.end.saturating_sub(function.start).min(available).min(MAX);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => bytes,
            Err(_) => Vec::new(),
        }
    }

    /// Finds the small loops of a function, in which a thread may wait.
    pub fn wait_loops(&self, function: &Function) -> WaitLoops {
        WaitLoops::find(&self.code(function), function.start, &|target| self.callee(target))
    }

    /// Returns what the function at the target of a call does: yield the CPU, only pause, or anything else.
    fn callee(&self, target: CallTarget) -> Callee {
        let key = match target {
            CallTarget::Pointer(slot) => {
                return self.imports.get(&slot).map_or(Callee::Other, |name| by_name(name));
            }
            CallTarget::Code(address) => address,
        };
        if let Some(&known) = self.callees.borrow().get(&key) {
            return known;
        }
        let callee = self.callee_at(key);
        self.callees.borrow_mut().insert(key, callee);
        callee
    }

    fn callee_at(&self, address: u64) -> Callee {
        let Some(function) = self.function_at(address).filter(|function| function.start == address) else {
            return Callee::Other;
        };
        let named = function.name.as_deref().map_or(Callee::Other, |name| by_name(name.trim_end_matches("@plt")));
        if named == Callee::Yields {
            return named;
        }
        if function.end - function.start > MAX_LOOP as u64 * LONGEST_INSTRUCTION_BYTES {
            return Callee::Other;
        }
        let loops = WaitLoops::find(&self.code(&function), function.start, &|_| Callee::Other);
        if loops.relaxes_only { Callee::Relaxes } else { Callee::Other }
    }

    /// Returns the name of the function to which the stub at `start` jumps.
    fn import_of_stub(&self, start: u64) -> Option<&str> {
        let stub = Function { start, end: start + PLT_ENTRY_BYTES, name: None, guessed: false };
        let code = self.code(&stub);
        arch::import_slot(&code, start).and_then(|slot| self.imports.get(&slot)).map(String::as_str)
    }
}

/// Reads the [tables](tables) of a file; returns `None` if it is too long. Reading the thousands of names of the C library one by one would need two
/// system calls per name, 24 ms in total. *Turned down:* mapping the file, because another process could truncate it, which would kill cox.
fn contents(file: &File) -> std::io::Result<Option<Vec<u8>>> {
    const MAX: u64 = 64 << 20;
    let len = file.metadata()?.len();
    if len > MAX {
        return Ok(None);
    }
    tables::read(file, usize::try_from(len).unwrap_or_default()).map(Some)
}

/// Adds the symbols of a file; none if it is not an ELF file.
fn add_symbols<'d>(symbols: &mut Table, data: impl ReadRef<'d>) {
    if let Ok(elf) = object::File::parse(data) {
        symbols.add(elf.symbols());
    }
}

fn by_name(name: &str) -> Callee {
    if YIELDS.contains(&name) { Callee::Yields } else { Callee::Other }
}

/// Returns the entries of the global offset table that the dynamic linker fills with imported functions: address and name.
fn imports<'data>(elf: &object::File<'data, impl ReadRef<'data>>) -> HashMap<u64, String> {
    let (Some(relocations), Some(symbols)) = (elf.dynamic_relocations(), elf.dynamic_symbol_table()) else {
        return HashMap::new();
    };
    relocations
        .filter_map(|(address, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let name = symbols.symbol_by_index(index).ok()?.name().ok()?.to_owned();
            (!name.is_empty()).then_some((address, name))
        })
        .collect()
}

#[cfg(test)]
mod tests;
