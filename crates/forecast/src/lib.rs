//! x
#![forbid(unsafe_code)]
pub mod bound;
mod chain;
pub mod cluster;
mod draws;
pub mod forecast;
mod lane;
pub mod largest;
pub mod laws;
pub mod levels;
pub mod nodes;
pub mod observed;
pub mod pareto;
pub mod question;
pub mod recording;
pub mod replay;
pub mod tail;
pub mod timeline;
