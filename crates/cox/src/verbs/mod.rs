//! One module per command: options → engines → session → output.

pub mod advise;
pub mod bench;
pub mod changes;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod once;
pub mod pack;
pub mod pages;
pub mod report;
pub mod run;
pub mod series;
pub mod simulate;
