//! Function symbols by address.

use std::cmp::Reverse;

use object::{ObjectSymbol, SymbolKind};

/// A function symbol. Its name is stored in the table, in `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub address: u64,
    /// Size in bytes; 0 if the symbol has none.
    pub size: u64,
    name: (u32, u32),
    is_global: bool,
}

impl Symbol {
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

/// Symbols of one or more symbol tables.
#[derive(Default)]
pub(super) struct Table {
    symbols: Vec<Symbol>,
    /// For each index, the greatest end of the symbols up to this index. A backward search may stop when this end is not above the address.
    furthest_end: Vec<u64>,
    text: Vec<u8>,
}

impl Table {
    /// Adds the functions among `symbols`. Once the names of all functions together take 4 GiB, further functions are left out.
    pub fn add<'data>(&mut self, symbols: impl Iterator<Item = impl ObjectSymbol<'data>>) {
        for symbol in symbols {
            let is_code = match symbol.kind() {
                SymbolKind::Text => true,
                // A symbol of unknown kind is a function if it belongs to a section: assembly code without `.type`. The linker makes the other
                // symbols of unknown kind.
                SymbolKind::Unknown => symbol.section_index().is_some(),
                _ => false,
            };
            let Ok(name) = symbol.name_bytes() else { continue };
            if !is_code || symbol.is_undefined() || name.is_empty() || name.starts_with(b".L") || name.starts_with(b"$")
            {
                continue;
            }
            let (Ok(from), Ok(len)) = (u32::try_from(self.text.len()), u32::try_from(name.len())) else { continue };
            self.text.extend_from_slice(name);
            self.symbols.push(Symbol {
                address: symbol.address(),
                size: symbol.size(),
                name: (from, len),
                is_global: symbol.is_global(),
            });
        }
    }

    /// Sorts the table by address. Must be called after the last `add`. If an address has several symbols, the preferred one comes last, because
    /// searches run backwards. The preference is, in this order: has a size, smallest size, fewest leading underscores, global, shortest name.
    pub fn sort(&mut self) {
        let text = &self.text;
        self.symbols.sort_by_cached_key(|symbol| {
            let name = &text[symbol.name.0 as usize..][..symbol.name.1 as usize];
            let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
            (
                symbol.address,
                symbol.size != 0,
                Reverse(symbol.size),
                Reverse(underscores),
                symbol.is_global,
                Reverse(name.len()),
                Reverse(name.to_vec()),
            )
        });
        self.furthest_end = self
            .symbols
            .iter()
            .scan(0, |furthest, symbol| {
                *furthest = symbol.end().max(*furthest);
                Some(*furthest)
            })
            .collect();
    }

    /// Returns the symbol's name as the file has it (not demangled), but without a version suffix such as `@@GLIBC_2.34`.
    pub fn name(&self, symbol: &Symbol) -> String {
        let name = &self.text[symbol.name.0 as usize..][..symbol.name.1 as usize];
        let end = name.iter().skip(1).position(|&byte| byte == b'@').map_or(name.len(), |at| at + 1);
        String::from_utf8_lossy(&name[..end]).into_owned()
    }

    /// Returns the innermost symbol with a size that covers `address`.
    pub fn covering(&self, address: u64) -> Option<&Symbol> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        (0..behind)
            .rev()
            .take_while(|&at| self.furthest_end[at] > address)
            .map(|at| &self.symbols[at])
            .find(|symbol| address < symbol.end())
    }

    /// Returns a symbol that starts at exactly `address`.
    pub fn starting_at(&self, address: u64) -> Option<&Symbol> {
        self.before(address).map(|(symbol, _)| symbol).filter(|symbol| symbol.address == address)
    }

    /// Returns the last symbol at or before `address`, and the start of the next one.
    pub fn before(&self, address: u64) -> Option<(&Symbol, Option<u64>)> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = behind.checked_sub(1).map(|at| &self.symbols[at])?;
        Some((symbol, self.symbols.get(behind).map(|next| next.address)))
    }
}
