//! Account, facts and verdict → what people and programs read. Pure: formats into a
//! [`fmt::Write`](std::fmt::Write), does no I/O.
//!
//! - [`json`]: the document of `cox run --json`, and its schema. Text is made from the same document, so
//!   the two cannot disagree.
//! - [`reading`]: a document that was written before, by this version or an older one.
//! - [`text`]: the report on the terminal. [`html`]: the same as a page, with pictures over time.
//! - [`comparison`]: runs side by side, as text and JSON; [`heat`]: as a table of colours.
//! - [`guide`]: the pages of docs/, for `cox explain` and for what a page refers to.
//! - [`style`]: width, colour, and what to do without UTF-8.
//! - [`round`]: printed parts add up exactly to their printed whole.
#![forbid(unsafe_code)]

pub mod advice;
mod busy;
mod checks;
pub mod comparison;
pub mod guide;
pub mod heat;
pub mod html;
pub mod json;
mod markup;
pub mod overlap;
pub mod pack;
pub mod reading;
pub mod round;
pub mod simulation;
mod state;
pub mod style;
mod table;
pub mod text;

pub use json::Document;
pub use style::Style;
