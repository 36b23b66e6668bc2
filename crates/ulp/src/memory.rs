//! The memory of each ULP: it has addresses of its own, and what it maps lies there. So all of it can be unmapped at once when it has ended.
//!
//! The kernel chooses the address of a mapping, and does not say afterwards whose it is. So the system calls that map memory get an address: in the
//! dynamic linker and in each C library that it loads, the few places that make these calls are replaced by a jump to [`redirect`]. What does not go through
//! them (other languages' own system calls, addresses that a program chooses itself) works as ever, and stays when the ULP ends.
//!
//! - [`regions`]: which addresses a ULP has.
//! - [`arena`]: reserves and unmaps them.
//! - [`mapper`]: which of them its next mapping gets.
//! - [`redirect`]: makes the redirected system calls.
//! - [`files`]: which places in which file are replaced.

pub mod arena;
pub mod files;
pub mod mapper;
pub mod redirect;
pub mod regions;
