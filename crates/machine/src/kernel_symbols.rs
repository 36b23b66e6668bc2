//! Names of the kernel's functions, from /proc/kallsyms.
//!
//! The kernel shows addresses only to users with CAP_SYSLOG (kernel.kptr_restrict, kernel.perf_event_paranoid); to others, all addresses are 0.

use std::io::{BufRead, BufReader};

use crate::error::Error;
use crate::root::Root;

const SYMBOLS: &str = "/proc/kallsyms";

/// The kernel's functions, sorted by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    functions: Vec<(u64, Box<str>)>,
}

impl KernelSymbols {
    /// Reads the kernel's functions. The list is empty if this user may not see addresses.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(root: &Root) -> Result<KernelSymbols, Error> {
        let path = root.path(SYMBOLS);
        let failed = |source| Error::Read { path: path.clone(), source };
        let mut functions = Vec::new();
        for line in BufReader::new(std::fs::File::open(&path).map_err(failed)?).lines() {
            functions.extend(function(&line.map_err(failed)?));
        }
        functions.sort_unstable_by_key(|(address, _)| *address);
        Ok(KernelSymbols { functions })
    }

    /// Returns the name of the function that contains `address`: the last one that does not begin behind it. `None` if no function does.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<&str> {
        let behind = self.functions.partition_point(|(begin, _)| *begin <= address);
        Some(&self.functions.get(behind.checked_sub(1)?)?.1)
    }

    /// Returns whether this user may not see any address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// Parses a line: address, type, name, and for a module its name.
fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut words = line.split_ascii_whitespace();
    let (address, of) = (u64::from_str_radix(words.next()?, 16).ok()?, words.next()?);
    (address != 0 && matches!(of, "t" | "T" | "w" | "W")).then_some((address, words.next()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let text = "ffffffff81000100 T tick_nohz_handler\nffffffff81000000 t first\nffffffff81000080 d data\n\
                    ffffffffc0000000 t in_module\t[nvme]\nnonsense\n";
        std::fs::write(folder.path().join("proc/kallsyms"), text).unwrap();
        let symbols = KernelSymbols::read(&Root::at(folder.path())).unwrap();
        let name = |address| symbols.name(address);
        assert_eq!(name(0xffff_ffff_8100_00ff), Some("first"));
        assert_eq!(name(0xffff_ffff_8100_0100), Some("tick_nohz_handler"));
        assert_eq!(name(0xffff_ffff_c000_0010), Some("in_module"));
        assert_eq!(name(1), None);
    }

    #[test]
    fn hidden_addresses_give_no_names() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/kallsyms"), "0000000000000000 T tick_nohz_handler\n").unwrap();
        assert!(KernelSymbols::read(&Root::at(folder.path())).unwrap().is_empty());
    }
}
