//! Finds out which files of a crate use which others.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::circles::modules::{Mention, Module};

/// A line of one file that uses another file of the same crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// The file that uses the other.
    pub from: PathBuf,
    /// The file that is used.
    pub to: PathBuf,
    /// Line number in `from`.
    pub line: usize,
    /// The path as written in the code.
    pub path: String,
}

/// Maximum length of a chain of imports. A longer chain means that modules import each other.
const FOLLOWED: usize = 16;

/// The target of a path, by module index.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item in that module.
    Within(usize),
}

/// Returns all lines of `modules` that use an item which another file declares, sorted.
///
/// If a file re-exports a name (`pub use`), a line that uses this name depends on the file that declares it. A line that only names a module is not
/// included; a line with a path to an item in the module is.
pub fn arrows(modules: &[Module]) -> Vec<Arrow> {
    let mut arrows = BTreeSet::new();
    for (number, module) in modules.iter().enumerate() {
        for mention in &module.mentions {
            let Some(used) = used_by(modules, number, mention) else { continue };
            let to = &modules[used].file;
            if *to != module.file {
                let (from, to) = (module.file.clone(), to.clone());
                arrows.insert(Arrow { from, to, line: mention.line, path: mention.segments.join("::") });
            }
        }
    }
    arrows.into_iter().collect()
}

fn used_by(modules: &[Module], own: usize, mention: &Mention) -> Option<usize> {
    if let [of @ .., all] = mention.segments.as_slice()
        && all == "*"
    {
        return match resolve(modules, own, of, FOLLOWED)? {
            Target::Module(module) | Target::Within(module) => Some(module),
        };
    }
    match resolve(modules, own, &mention.segments, FOLLOWED)? {
        Target::Module(_) => None,
        Target::Within(module) => Some(module),
    }
}

fn resolve(modules: &[Module], own: usize, segments: &[String], followed: usize) -> Option<Target> {
    let mut at = own;
    for (number, segment) in segments.iter().enumerate() {
        let is_last = number + 1 == segments.len();
        match segment.as_str() {
            "crate" => at = 0,
            "self" => {}
            "super" => at = modules[at].parent?,
            _ => match look_up(modules, at, segment, is_last, followed) {
                Some(Target::Module(module)) => at = module,
                Some(Target::Within(module)) => return Some(Target::Within(module)),
                // The name belongs to another crate, is a local variable, or has no declaration that this parser finds.
                None if number == 0 => return None,
                None => return Some(Target::Within(at)),
            },
        }
    }
    Some(Target::Module(at))
}

/// Looks `name` up in module `at`. A name can be a module and a function at the same time: if `::` follows, it is the module.
fn look_up(modules: &[Module], at: usize, name: &String, is_last: bool, followed: usize) -> Option<Target> {
    let followed = followed.checked_sub(1)?;
    let module = &modules[at];
    let child = module.children.get(name).map(|child| Target::Module(*child));
    let item = module.items.contains(name).then_some(Target::Within(at));
    let imported = || {
        let segments = module.imports.get(name)?;
        resolve(modules, at, segments, followed)
    };
    let by_glob = || {
        module.globs.iter().find_map(|glob| match resolve(modules, at, glob, followed)? {
            Target::Module(of) if of != at => look_up(modules, of, name, is_last, followed),
            _ => None,
        })
    };
    if is_last {
        item.or_else(imported).or(child).or_else(by_glob)
    } else {
        child.or(item).or_else(imported).or_else(by_glob)
    }
}
