//! One module per verb.

pub mod bench;
pub mod changes;
pub mod doctor;
pub mod pages;
pub mod run;
