//! The stack with which a program starts: arguments, environment and auxiliary vector (System V ABI for x86-64, section 3.4.1).
//!
//! From the stack pointer upwards: the number of arguments, their addresses, 0, the addresses of the environment, 0, the auxiliary vector, and above
//! that the strings themselves.

use std::ffi::{CStr, CString};

use super::auxv::{self, Places};
use super::layout::Layout;

/// Alignment of the stack pointer at a program's start, bytes.
const ALIGN: u64 = 16;

/// What a program is started with.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The arguments, beginning with the program's name.
    pub arguments: Vec<CString>,
    /// The environment, as `NAME=value`.
    pub environment: Vec<CString>,
    /// Sixteen random bytes of its own.
    pub random: [u8; 16],
    /// Distance between the strings and the rest, bytes (see [`shift`]).
    pub shift: u64,
}

/// Returns how far the stack of ULP `number` is shifted, bytes. Without it, the stacks of all ULPs would use the same few sets of the caches, because those
/// are chosen by the address within a page. The kernel, too, shifts stacks by up to 8 KiB (arch_align_stack), by a random number; these are spread evenly.
#[must_use]
pub fn shift(number: usize) -> u64 {
    const LINE: usize = 64;
    const LINES: usize = 8192 / LINE;
    // An odd factor, so that all lines have their turn; neighbours are more than a stack frame apart.
    (number * 13 % LINES * LINE) as u64
}

/// The contents of a new stack.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The bytes below the top.
    pub bytes: Vec<u8>,
    /// Address of the first of these bytes: the stack pointer at the start.
    pub at: u64,
}

/// Returns the contents of a stack that ends at `top`, a multiple of 16. `own` is the auxiliary vector of this process; `bases` are the addresses of the
/// program and of its dynamic linker (0: none). `path` is the program's file.
#[must_use]
pub fn contents(
    top: u64,
    path: &CStr,
    start: &Start,
    layout: &Layout,
    own: &[(u64, u64)],
    bases: (u64, u64),
) -> Contents {
    let mut strings = Strings { top, bytes: Vec::new() };
    let path = strings.push(path.to_bytes_with_nul());
    // The kernel puts arguments and environment one after the other; programs that change their title (setproctitle) rely on it.
    let environment = strings.push_all(&start.environment);
    let arguments = strings.push_all(&start.arguments);
    let random = strings.push(&start.random);
    let vector = auxv::of_program(own, layout, Places { program: bases.0, linker: bases.1, random, path });

    let mut words = vec![arguments.len() as u64];
    words.extend(arguments);
    words.push(0);
    words.extend(environment);
    words.push(0);
    words.extend(vector.into_iter().flat_map(|(key, value)| [key, value]));
    words.extend([auxv::entry::NULL, 0]);

    let strings_at = strings.at();
    let at = (strings_at - start.shift - 8 * words.len() as u64) & !(ALIGN - 1);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize((strings_at - at) as usize, 0);
    bytes.extend(strings.bytes.iter().rev());
    Contents { bytes, at }
}

/// Strings below the top of a stack, growing downwards.
struct Strings {
    top: u64,
    /// The bytes from the top downwards, so in reverse order.
    bytes: Vec<u8>,
}

impl Strings {
    fn at(&self) -> u64 {
        self.top - self.bytes.len() as u64
    }

    /// Adds bytes below those that are there. Returns their address.
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.extend(bytes.iter().rev());
        self.at()
    }

    /// Adds strings so that the first one is lowest. Returns their addresses.
    fn push_all(&mut self, all: &[CString]) -> Vec<u64> {
        let mut places: Vec<u64> = all.iter().rev().map(|one| self.push(one.to_bytes_with_nul())).collect();
        places.reverse();
        places
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a stack as a program does.
    struct Reader<'c>(&'c Contents);

    impl Reader<'_> {
        fn word(&self, at: u64) -> u64 {
            let from = (at - self.0.at) as usize;
            u64::from_ne_bytes(self.0.bytes[from..from + 8].try_into().unwrap())
        }

        fn string(&self, at: u64) -> CString {
            CStr::from_bytes_until_nul(&self.0.bytes[(at - self.0.at) as usize..]).unwrap().to_owned()
        }

        /// Reads addresses up to a 0. Returns the strings, and the address behind the 0.
        fn strings(&self, mut at: u64) -> (Vec<CString>, u64) {
            let mut all = Vec::new();
            while self.word(at) != 0 {
                all.push(self.string(self.word(at)));
                at += 8;
            }
            (all, at + 8)
        }
    }

    fn strings() -> impl Strategy<Value = Vec<CString>> {
        let string = "[a-z=]{0,12}".prop_map(|text| CString::new(text).unwrap());
        prop::collection::vec(string, 0..9)
    }

    proptest! {
        #[test]
        fn a_program_finds_what_it_was_started_with(
            arguments in strings(),
            environment in strings(),
            random: [u8; 16],
            number in 0..1000_usize,
        ) {
            let layout = Layout::of(&std::fs::read("/bin/sh").unwrap()[..]).unwrap();
            let start = Start { arguments, environment, random, shift: shift(number) };
            let top = 0x7000_0000_0000;
            let own = [(6, 4096), (auxv::entry::RANDOM, 0), (auxv::entry::EXECFN, 0)];
            let contents = contents(top, c"/bin/sh", &start, &layout, &own, (0x1000, 0));
            prop_assert_eq!(contents.at % 16, 0);
            prop_assert_eq!(contents.at + contents.bytes.len() as u64, top);
            let reader = Reader(&contents);
            prop_assert_eq!(reader.word(contents.at), start.arguments.len() as u64);
            let (arguments, at) = reader.strings(contents.at + 8);
            let (environment, mut at) = reader.strings(at);
            prop_assert_eq!((arguments, environment), (start.arguments, start.environment));
            let mut vector = Vec::new();
            while reader.word(at) != 0 {
                vector.push((reader.word(at), reader.word(at + 8)));
                at += 16;
            }
            prop_assert_eq!(vector[0], (6, 4096));
            let from = (vector[1].1 - contents.at) as usize;
            prop_assert_eq!(&contents.bytes[from..from + 16], &random);
            prop_assert_eq!(reader.string(vector[2].1), CString::from(c"/bin/sh"));
        }
    }
}
