//! Looks up one file's code: the function at an offset, and whether the code there waits.

use std::collections::HashMap;
use std::path::Path;

use arch::wait_loop::WaitLoops;
use machine::Root;
use wire::Waiting;

use crate::elf::Image;
use crate::known;
use crate::modules::{ModuleId, Modules};

/// The function at one offset of a module, and what the code there waits for, if it waits.
#[derive(Clone, Default)]
pub(crate) struct Meaning {
    pub function: Option<String>,
    /// Address at which the function starts. Functions without a name have one, too.
    pub start: Option<u64>,
    pub waiting: Option<Waiting>,
}

/// Looks up code in one module.
pub(crate) struct Reader {
    /// The file name without folders.
    name: String,
    image: Image,
    /// The small loops of each function, by the function's start.
    loops: HashMap<u64, WaitLoops>,
}

impl Reader {
    /// Makes a reader of a module. `None` if the module has no file, or one that is not an ELF file.
    pub fn open(modules: &Modules, id: ModuleId, root: &Root) -> Option<Reader> {
        let module = modules.get(id);
        let path = module.path.as_deref().unwrap_or(Path::new(""));
        let image = Image::open(modules.file(id, root)?, path, root).ok()?;
        Some(Reader { name: module.name.clone(), image, loops: HashMap::new() })
    }

    /// Returns the function at a file offset, and whether the code there waits. A known name takes precedence over the machine code,
    /// because it tells which runtime waits.
    pub fn meaning(&mut self, offset: u64) -> Meaning {
        let Some(address) = self.image.address(offset) else { return Meaning::default() };
        let Some(function) = self.image.function_at(address) else { return Meaning::default() };
        let by_name = function.name.as_deref().and_then(known::by_name);
        let waiting = by_name.or_else(|| {
            if !self.image.is_of_this_processor {
                return None;
            }
            let image = &self.image;
            let loops = self.loops.entry(function.start).or_insert_with(|| image.wait_loops(&function));
            let is_stub = |name: &String| name.ends_with("@plt");
            let named = function.name.as_ref().is_some_and(|name| !is_stub(name));
            known::by_code(&self.name, named, loops, loops.verdict(address))
        });
        Meaning { function: function.name, start: Some(function.start), waiting }
    }
}
