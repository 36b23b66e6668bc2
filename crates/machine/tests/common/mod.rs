//! The trees in `tests/fixtures`.

use machine::Root;

/// The root of one tree.
pub fn tree(name: &str) -> Root {
    Root::at(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")))
}
