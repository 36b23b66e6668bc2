//! Maps a program, its dynamic linker and its stack into memory of its own.

use std::ffi::{CString, OsStr, OsString, c_void};
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr;

use arch::redirections::ENTRIES_BYTES;
use object::ReadCache;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect};
use rustix::process::{Resource, getrlimit};

use super::auxv;
use super::layout::{self, Layout, PAGE, Segment, Unfit};
use super::script::{self, Interpreter};
use super::stack::{self, Start};
use crate::debugging::{self, Listing};
use crate::memory::arena::{Arena, Memory};
use crate::memory::files::{self, LONGEST_CODE_BYTES, Sites};
use crate::memory::mapper::Mapper;
use crate::memory::redirect;

/// Length of a stack if the limit is "unlimited", bytes, and the longest one. Only touched pages take memory.
const STACK_BYTES: u64 = 8 << 20;
const LONGEST_STACK_BYTES: u64 = 1 << 30;
/// Maximum nesting of scripts whose interpreter is a script (exec_binprm in the kernel's fs/exec.c).
const MAX_SCRIPTS: usize = 5;

/// Why a program could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be a ULP.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: Unfit,
    },
    /// A file cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The first line of a script.
    #[error("{}: {why}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Memory cannot be mapped.
    #[error("cannot map {}{}", what.display(), map_hint(source))]
    Map {
        /// The file, or what else was to be mapped.
        what: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The arguments and the environment do not fit.
    #[error("the arguments and the environment need {needed} bytes, more than a quarter of the stack, {stack} bytes")]
    TooLong {
        /// Length of the strings and their addresses, bytes.
        needed: u64,
        /// Length of the stack, bytes.
        stack: u64,
    },
}

/// Returns what else than memory may be exhausted.
fn map_hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::OutOfMemory {
        " (memory, the limit of the address space, ulimit -v, or of its mappings, sysctl vm.max_map_count)"
    } else {
        ""
    }
}

/// An executable file that has been read.
#[derive(Debug)]
pub struct Executable {
    path: PathBuf,
    file: File,
    layout: Layout,
    /// Calls in each segment that are redirected; empty: none in any.
    sites: Vec<Sites>,
    /// Of a dynamic linker: where it has the list of all files, relative to its base.
    lists_at: Option<u64>,
}

impl Executable {
    /// Opens and reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or cannot be a ULP.
    pub fn open(path: &Path) -> Result<Executable, LoadError> {
        let failed = |source| LoadError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let layout =
            Layout::of(&ReadCache::new(&file)).map_err(|why| LoadError::Unfit { path: path.to_owned(), why })?;
        Ok(Executable { path: path.to_owned(), file, layout, sites: Vec::new(), lists_at: None })
    }

    /// Finds the calls that are redirected. Without it, none are.
    fn find_sites(&mut self) -> Result<(), LoadError> {
        let of = |segment: &Segment| {
            let has_other_bytes = segment.memory_bytes > segment.file_bytes;
            if !segment.executable || segment.writable || has_other_bytes || segment.file_bytes > LONGEST_CODE_BYTES {
                return Ok(Sites::default());
            }
            // From the beginning of the first page, as the segment is mapped.
            let from = layout::down(segment.offset);
            let mut code = vec![0; (segment.offset - from + segment.file_bytes) as usize];
            self.file.read_exact_at(&mut code, from)?;
            Ok(files::sites_in(&code))
        };
        let found: io::Result<Vec<Sites>> = self.layout.segments.iter().map(of).collect();
        self.sites = found.map_err(|source| LoadError::Read { path: self.path.clone(), source })?;
        Ok(())
    }

    /// Returns the length of the memory in which it can be mapped, bytes: longer than its pages, so that there is an aligned base in it.
    fn bytes(&self) -> u64 {
        let Layout { pages, align, .. } = &self.layout;
        pages.end - pages.start + (align - PAGE)
    }

    /// Returns its base in memory at `at`.
    fn base(&self, at: u64) -> u64 {
        let Layout { pages, align, .. } = &self.layout;
        let first = at + (pages.start.wrapping_sub(at) & (align - 1));
        first - pages.start
    }

    /// Maps the segments in reserved memory at `at`, which has [`Executable::bytes`]. Returns the base.
    fn map(&self, at: u64, mapper: &Mapper) -> Result<u64, LoadError> {
        let failed = |errno: Errno| LoadError::Map { what: self.path.clone(), source: errno.into() };
        let base = self.base(at);
        for (number, segment) in self.layout.segments.iter().enumerate() {
            match self.sites.get(number).filter(|sites| !files::is_empty(sites)) {
                Some(sites) => map_redirected(&self.file, base, segment, sites, mapper).map_err(failed)?,
                None => map_segment(&self.file, base, segment).map_err(failed)?,
            }
        }
        Ok(base)
    }
}

/// Maps a segment of a file over reserved memory, as the kernel does (elf_map and set_brk in fs/binfmt_elf.c).
fn map_segment(file: &File, base: u64, segment: &Segment) -> Result<(), Errno> {
    let prot = protection(segment);
    let pages = segment.pages();
    let file_end = segment.at + segment.file_bytes;
    let mapped_end = if segment.file_bytes == 0 { pages.start } else { layout::up(file_end) };
    if mapped_end > pages.start {
        let (at, bytes) = (base + pages.start, segment.at - pages.start + segment.file_bytes);
        let offset = layout::down(segment.offset);
        // SAFETY: the address is in memory that is reserved for this program.
        unsafe { mmap(at as *mut c_void, bytes as usize, prot, MapFlags::PRIVATE | MapFlags::FIXED, file, offset)? };
    }
    if pages.end > mapped_end {
        let (at, bytes) = (base + mapped_end, pages.end - mapped_end);
        // SAFETY: as above.
        unsafe { mmap_anonymous(at as *mut c_void, bytes as usize, prot, MapFlags::PRIVATE | MapFlags::FIXED)? };
    }
    // What the file has behind the segment is in the last page, too.
    if segment.memory_bytes > segment.file_bytes && segment.writable && mapped_end > file_end {
        // SAFETY: the page has just been mapped, writable, and nobody else knows of it.
        unsafe { ptr::write_bytes((base + file_end) as *mut u8, 0, (mapped_end - file_end) as usize) };
    }
    Ok(())
}

/// Maps a segment of code over reserved memory, and redirects calls in it.
fn map_redirected(file: &File, base: u64, segment: &Segment, sites: &Sites, mapper: &Mapper) -> Result<(), Errno> {
    let at = base + segment.pages().start;
    let bytes = segment.at - segment.pages().start + segment.file_bytes;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the address is in memory that is reserved for this program; nobody executes the code yet.
    let is_redirected = unsafe {
        mmap(at as *mut c_void, bytes as usize, prot, flags, file, layout::down(segment.offset)).is_ok()
            && redirect::redirect(mapper, at, bytes, protection(segment).bits().into(), sites)
    };
    // A limit of writable memory, or a security module that does not let changed code be executed.
    if is_redirected { Ok(()) } else { map_segment(file, base, segment) }
}

fn protection(segment: &Segment) -> ProtFlags {
    let mut prot = ProtFlags::empty();
    prot.set(ProtFlags::READ, segment.readable);
    prot.set(ProtFlags::WRITE, segment.writable);
    prot.set(ProtFlags::EXEC, segment.executable);
    prot
}

/// A program in memory that has not been started yet, or is running. Dropping the value unmaps it, and what it has mapped itself.
#[derive(Debug)]
pub struct Image {
    memory: Memory,
    /// Where the program starts.
    pub entry: u64,
    /// The stack pointer at its start.
    pub stack_pointer: u64,
    /// Its stack for signal handlers; empty: none.
    pub handlers: Range<u64>,
}

impl Image {
    /// Returns its memory.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.memory
    }
}

/// The error of a program for which memory cannot be mapped.
fn no_memory(errno: Errno) -> LoadError {
    LoadError::Map { what: "memory for a program".into(), source: errno.into() }
}

/// Returns what executes a script; `None` if the file is no script.
fn script_interpreter(path: &Path) -> Result<Option<Interpreter>, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let mut first = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(script::FIRST_BYTES as u64).read_to_end(&mut first).map_err(failed)?;
    let why = "its first line names no interpreter, or is too long";
    script::interpreter(&first).transpose().map_err(|()| LoadError::Script { path: path.to_owned(), why })
}

/// Reads a program and its dynamic linker once, and maps them any number of times.
#[derive(Debug)]
pub struct Loader {
    /// The path that was given.
    path: CString,
    /// The file that is executed: for a script, its interpreter.
    file: PathBuf,
    /// For a script, the arguments in place of the first one: the interpreter, its argument, and the script.
    instead: Vec<CString>,
    program: Executable,
    linker: Option<Executable>,
    /// The path of what is executed, as the kernel has it: absolute, and without symbolic links.
    absolute: CString,
    /// Paths of a dynamic linker that is the program here, and of the program that it loads itself.
    through: Option<[CString; 2]>,
    /// The auxiliary vector of this process, and what was added to it.
    vector: auxv::Entries,
    stack_bytes: u64,
    /// Length of the stack for signal handlers that each program gets, bytes: whole pages.
    handlers_bytes: u64,
}

impl Loader {
    /// Reads a program and its dynamic linker; for a script, its interpreter.
    ///
    /// # Errors
    /// When one of them cannot be read, or cannot be a ULP.
    pub fn of(path: &Path) -> Result<Loader, LoadError> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let (mut instead, mut file): (Vec<CString>, PathBuf) = (Vec::new(), path.to_owned());
        for _ in 0..MAX_SCRIPTS {
            let Some(found) = script_interpreter(&file)? else { break };
            let script = text(&file);
            file = PathBuf::from(OsString::from_vec(found.path));
            let argument = found.argument.and_then(|bytes| CString::new(bytes).ok());
            let words = std::iter::once(text(&file)).chain(argument).chain([script]);
            instead = words.chain(instead.into_iter().skip(1)).collect();
        }
        let program = Executable::open(&file)?;
        let name = program.layout.interpreter.as_deref().map(|name| PathBuf::from(OsStr::from_bytes(name.to_bytes())));
        let linker = name.map(|name| Executable::open(&name)).transpose()?;
        let absolute = text(&fs::canonicalize(&file).unwrap_or_else(|_| file.clone()));
        // The dynamic linker looks for the folder of a program that the kernel has loaded by /proc/self/exe, which is the host's. A program that it
        // loads itself is where its path says.
        let (mut program, mut linker, through) = match linker {
            Some(linker) if program.layout.uses_origin => {
                let through = [text(&linker.path), absolute.clone()];
                (linker, None, Some(through))
            }
            linker => (program, linker, None),
        };
        // A program with a dynamic linker makes its system calls by libraries.
        let first = linker.as_mut().unwrap_or(&mut program);
        first.find_sites()?;
        first.lists_at = debugging::list_of_linker(&ReadCache::new(&first.file));
        let own = Path::new("/proc/self/auxv");
        let vector = fs::read(own).map_err(|source| LoadError::Read { path: own.to_owned(), source })?;
        let limit = getrlimit(Resource::Stack).current.unwrap_or(STACK_BYTES);
        let stack_bytes = layout::up(limit.clamp(16 * PAGE, LONGEST_STACK_BYTES));
        let vector = auxv::parse(&vector);
        let path = text(path);
        Ok(Loader { path, file, instead, program, linker, absolute, through, vector, stack_bytes, handlers_bytes: 0 })
    }

    /// Returns the file that is executed: for a script, its interpreter.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the descriptors of the program's and the linker's file in this process. No program may inherit them.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        std::iter::once(&self.program).chain(&self.linker).map(|one| one.file.as_raw_fd())
    }

    /// Closes the files. Returns what programs that it has loaded still read: it must not be dropped before they have ended.
    #[must_use]
    pub fn into_path(self) -> CString {
        self.absolute
    }

    /// Returns the auxiliary vector of this process.
    #[must_use]
    pub fn vector(&self) -> &[(u64, u64)] {
        &self.vector
    }

    /// Adds an entry to the auxiliary vectors of all programs that are loaded from now on.
    pub fn add_to_vector(&mut self, entry: (u64, u64)) {
        self.vector.push(entry);
    }

    /// Gives each program that is loaded from now on a stack for signal handlers of at least so many bytes; 0: none.
    pub fn add_stack_for_handlers(&mut self, bytes: u64) {
        self.handlers_bytes = layout::up(bytes);
    }

    /// Returns the length of the memory that [`Loader::load`] needs at once, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let programs = self.program.bytes() + self.linker.as_ref().map_or(0, Executable::bytes);
        // The page below the stack for signal handlers cannot be accessed.
        let handlers = if self.handlers_bytes > 0 { PAGE + self.handlers_bytes } else { 0 };
        PAGE + self.stack_bytes + ENTRIES_BYTES + programs + handlers
    }

    /// Maps the program once more, with a stack of its own, in memory of its own.
    ///
    /// ```text
    /// a page without access | stack, mapper | entries | program | dynamic linker | (a page without access | stack for signal handlers) | what they map
    /// ```
    ///
    /// The top of the stack and the program are neighbours, because they are used together: they share page tables, and often a cache line of them.
    ///
    /// `node`: the node by which debuggers find its files (`Nodes::of` in `debugging`); 0: none. This value, or its [path](Loader::into_path), must not be
    /// dropped before the program has ended.
    ///
    /// # Errors
    /// When memory cannot be mapped, or the arguments and the environment are too long.
    pub fn load(&self, start: Start, arena: &mut Arena, node: u64) -> Result<Image, LoadError> {
        let memory = arena.reserve(self.bytes()).map_err(no_memory)?;
        match self.load_into(&memory, start, arena, node) {
            Ok((entry, stack_pointer)) => {
                let end = memory.region().near.start + self.bytes();
                Ok(Image { memory, entry, stack_pointer, handlers: end - self.handlers_bytes..end })
            }
            Err(error) => {
                arena.give_back(memory);
                Err(error)
            }
        }
    }

    /// Maps the program into reserved memory. Returns its entry point and its stack pointer.
    fn load_into(&self, memory: &Memory, start: Start, arena: &Arena, node: u64) -> Result<(u64, u64), LoadError> {
        let region = memory.region();
        // An overflow of the stack meets the page without access, and ends the program that caused it.
        let stack = region.near.start + PAGE;
        let entries = stack + self.stack_bytes;
        let programs = entries + ENTRIES_BYTES;
        let mut prot = MprotectFlags::READ | MprotectFlags::WRITE;
        prot.set(MprotectFlags::EXEC, self.program.layout.executable_stack);
        // SAFETY: reserved memory that nobody uses yet.
        unsafe { mprotect(stack as *mut c_void, self.stack_bytes as usize, prot) }.map_err(no_memory)?;
        let programs_end = region.near.start + self.bytes();
        if self.handlers_bytes > 0 {
            let (at, prot) = (programs_end - self.handlers_bytes, MprotectFlags::READ | MprotectFlags::WRITE);
            // SAFETY: as above.
            unsafe { mprotect(at as *mut c_void, self.handlers_bytes as usize, prot) }.map_err(no_memory)?;
        }
        arena.map_entries(entries).map_err(no_memory)?;
        let top = entries - size_of::<Mapper>() as u64;
        let linker_at = programs + self.program.bytes();
        let first = self.linker.as_ref().map_or((&self.program, programs), |linker| (linker, linker_at));
        let listing = match first {
            (Executable { lists_at: Some(lists), .. }, at) => Listing::new(node, first.0.base(at) + lists),
            _ => Listing::none(),
        };
        // SAFETY: the end of the stack, which nobody uses yet. The mapper is used by threads of the program only, by atomics.
        let mapper = unsafe {
            (top as *mut Mapper).write(Mapper::new(
                region,
                programs_end,
                redirect::enter_address(),
                &self.absolute,
                listing,
            ));
            &*(top as *const Mapper)
        };
        let program_base = self.program.map(programs, mapper)?;
        let linker_base = self.linker.as_ref().map(|linker| linker.map(linker_at, mapper)).transpose()?;
        let entry = match (linker_base, &self.linker) {
            (Some(base), Some(linker)) => base + linker.layout.entry,
            _ => program_base + self.program.layout.entry,
        };
        let stack_pointer = self.fill_stack(top, start, (program_base, linker_base.unwrap_or(0)))?;
        Ok((entry, stack_pointer))
    }

    /// Fills the stack that ends at `top`. Returns the stack pointer.
    fn fill_stack(&self, top: u64, mut start: Start, bases: (u64, u64)) -> Result<u64, LoadError> {
        let replaced = self.instead.len().min(1).min(start.arguments.len());
        start.arguments.splice(..replaced, self.instead.iter().cloned());
        if let Some([linker, program]) = &self.through {
            let name = start.arguments.first().unwrap_or(program).clone();
            let words = [linker.clone(), c"--argv0".to_owned(), name, program.clone()];
            start.arguments.splice(..start.arguments.len().min(1), words);
        }
        let shift = start.shift;
        let contents = stack::contents(top, &self.path, &start, &self.program.layout, &self.vector, bases);
        let needed = contents.bytes.len() as u64 - shift;
        // As for execve (bprm_stack_limits).
        if needed > self.stack_bytes / 4 {
            return Err(LoadError::TooLong { needed, stack: self.stack_bytes });
        }
        // SAFETY: the stack is mapped and as long as checked above, and nobody else knows of it.
        unsafe { ptr::copy_nonoverlapping(contents.bytes.as_ptr(), contents.at as *mut u8, contents.bytes.len()) };
        Ok(contents.at)
    }
}
