//! What an input does to a parser, for libFuzzer, which changes inputs so that they reach more code.
//!
//! `COX_FUZZ_PARSER` names the parser. Before the first input its seeds are written to the folder `COX_FUZZ_SEEDS`: files that it reads well.

#![no_main]
#![allow(clippy::unwrap_used, reason = "a fuzzer that cannot go on has failed")]

mod parsers;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

use parsers::{PARSERS, Parser};

fn parser() -> &'static Parser {
    static PARSER: OnceLock<&Parser> = OnceLock::new();
    PARSER.get_or_init(|| {
        let name = std::env::var("COX_FUZZ_PARSER").unwrap_or_default();
        let names = || PARSERS.iter().map(|parser| parser.name).collect::<Vec<_>>().join(" ");
        PARSERS.iter().find(|parser| parser.name == name).unwrap_or_else(|| panic!("COX_FUZZ_PARSER: one of {}", names()))
    })
}

fn plant() {
    let Some(folder) = std::env::var_os("COX_FUZZ_SEEDS") else { return };
    for (number, seed) in (parser().seeds)().iter().enumerate() {
        fs::write(Path::new(&folder).join(format!("seed-{number}")), seed).unwrap();
    }
}

fuzz_target!(init: plant(), |input: &[u8]| (parser().read)(input));
