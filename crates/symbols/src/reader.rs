//! One file's code: what is at an offset, and does it wait?

use std::collections::HashMap;

use arch::wait_loop::WaitLoops;
use wire::Waiting;

use crate::elf::Image;
use crate::known;

/// What is known of one offset in a module.
#[derive(Clone, Default)]
pub(crate) struct Meaning {
    pub function: Option<String>,
    pub waiting: Option<Waiting>,
}

/// Reads one module.
pub(crate) struct Reader {
    name: String,
    image: Image,
    /// By start of the function.
    loops: HashMap<u64, WaitLoops>,
}

impl Reader {
    /// A reader of the file `name`, without folders.
    pub fn new(name: String, image: Image) -> Reader {
        Reader { name, image, loops: HashMap::new() }
    }

    /// Known names come before machine code: a name tells which runtime it is.
    pub fn meaning(&mut self, offset: u64) -> Meaning {
        let Some(address) = self.image.address(offset) else { return Meaning::default() };
        let Some(function) = self.image.function_at(address) else { return Meaning::default() };
        let by_name = function.name.as_deref().and_then(known::by_name);
        let waiting = by_name.or_else(|| {
            if !self.image.is_of_this_processor() {
                return None;
            }
            let image = &self.image;
            let loops = self.loops.entry(function.start).or_insert_with(|| image.wait_loops(&function));
            let is_stub = |name: &String| name.ends_with("@plt");
            let named = function.name.as_ref().is_some_and(|name| !is_stub(name));
            known::by_code(&self.name, named, loops, loops.verdict(address))
        });
        Meaning { function: function.name, waiting }
    }
}
