//! Turns an account, facts and a verdict into what people and programs read. Pure: formats into a [`fmt::Write`](std::fmt::Write), and does no
//! I/O.
//!
//! - [`json`]: the document of `cox run --json`, and its schema. The text report is made from the same document, so the two cannot disagree.
//! - [`reading`]: reads documents that this version of cox or an older one wrote.
//! - [`text`]: the report on the terminal. [`html`]: the same report as a page, with pictures over time.
//! - [`comparison`]: runs side by side, as text and JSON. [`heat`]: runs as a table of colours.
//! - [`matrix`]: tables of colours as pictures. [`html::sheet`]: pages of experiments.
//! - [`guide`]: the pages of docs/, for `cox explain` and for the pages that a report refers to.
//! - [`style`]: width, colour, and replacements where UTF-8 is not available.
//! - [`round`]: rounds parts such that the printed parts add up exactly to the printed whole.
#![forbid(unsafe_code)]

pub mod advice;
mod busy;
mod checks;
pub mod comparison;
pub mod guide;
pub mod heat;
pub mod html;
pub mod json;
pub mod loops;
mod markup;
pub mod matrix;
pub mod noise;
pub mod overlap;
pub mod pack;
pub mod quiet;
pub mod reading;
pub mod round;
pub mod simulation;
mod state;
pub mod style;
mod table;
pub mod text;
pub mod ulp;

pub use json::Document;
pub use style::Style;
