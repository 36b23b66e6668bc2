//! Decides, while a program runs, whether the code at an address waits for other threads.
//!
//! Uses the rules of [`crate::Symboliser`], but answers for each address immediately, instead of counting samples and looking them up at the end.
//! Files are read once and stay open; a program has some dozens.

use std::collections::HashMap;
use std::time::Instant;

use machine::Root;
use wire::Waiting;

use crate::modules::ModuleId;
use crate::processes::Processes;
use crate::reader::Reader;

/// Decides for addresses in running programs whether the code there waits for other threads.
pub struct Judge {
    processes: Processes,
    /// The readers of modules; `None` if the module has no file, or one that cannot be read.
    readers: HashMap<ModuleId, Option<Reader>>,
}

impl Judge {
    /// Makes a judge that reads /proc and files below `root`.
    #[must_use]
    pub fn new(root: Root) -> Judge {
        Judge { processes: Processes::new(root), readers: HashMap::new() }
    }

    /// Returns, for each user address of a process, why the code there waits for other threads, or `Some(None)` if it does not wait. Code
    /// that cannot be read counts as not waiting. `None` means that no mapping of the address is known yet: ask again later.
    pub fn waits(&mut self, tgid: u32, ips: &[u64]) -> Vec<Option<Option<Waiting>>> {
        let now = Instant::now();
        self.processes.look(tgid, now);
        ips.iter().map(|&ip| self.waits_at(tgid, ip, now)).collect()
    }

    fn waits_at(&mut self, tgid: u32, ip: u64, now: Instant) -> Option<Option<Waiting>> {
        let (_, range) = self.processes.locate(tgid, ip, now)?;
        let range = range?;
        let Processes { modules, root, .. } = &self.processes;
        let reader = self.readers.entry(range.module).or_insert_with(|| Reader::open(modules, range.module, root));
        Some(reader.as_mut().and_then(|reader| reader.meaning(range.file_offset(ip)).waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobodys_code_does_not_wait() {
        assert_eq!(Judge::new(Root::live()).waits(0, &[1, 2]), [None, None]);
        let work = nobodys_code_does_not_wait as *const () as u64;
        assert_eq!(Judge::new(Root::live()).waits(std::process::id(), &[work, 8]), [Some(None), None]);
    }
}
