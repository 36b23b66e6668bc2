//! A program in memory, as the kernel's `execve` would have prepared it (fs/binfmt_elf.c in Linux).
//!
//! [`script`] finds the interpreter of a script, [`layout`] reads what a file wants to be mapped, [`auxv`] and [`stack`] compute the stack of a new
//! program; these four are pure, as is [`check`], which says what is different for a
//! program. [`image`] maps the program, its dynamic linker and its stack into this address space.

pub mod auxv;
pub mod check;
pub mod image;
pub mod layout;
pub mod script;
pub mod stack;
