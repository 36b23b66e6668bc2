//! Gives libFuzzer's inputs to a parser. libFuzzer changes inputs so that they reach more of the parser's code.
//!
//! `COX_FUZZ_PARSER` names the parser. If `COX_FUZZ_SEEDS` names a folder, the program first writes valid inputs of that parser there.

#![no_main]
#![allow(clippy::unwrap_used, reason = "a fuzzer that cannot go on has failed")]

mod parsers;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

use parsers::{PARSERS, Parser};

/// Returns the parser that `COX_FUZZ_PARSER` names.
fn parser() -> &'static Parser {
    static PARSER: OnceLock<&Parser> = OnceLock::new();
    PARSER.get_or_init(|| {
        let name = std::env::var("COX_FUZZ_PARSER").unwrap_or_default();
        let names = || PARSERS.iter().map(|parser| parser.name).collect::<Vec<_>>().join(" ");
        PARSERS
            .iter()
            .find(|parser| parser.name == name)
            .unwrap_or_else(|| panic!("COX_FUZZ_PARSER: one of {}", names()))
    })
}

/// Writes the parser's valid inputs to the folder `COX_FUZZ_SEEDS`.
fn write_seeds() {
    let Some(folder) = std::env::var_os("COX_FUZZ_SEEDS") else { return };
    for (number, seed) in (parser().seeds)().iter().enumerate() {
        fs::write(Path::new(&folder).join(format!("seed-{number}")), seed).unwrap();
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| (parser().read)(input));
