//! Reads the modules of one crate: the names that each declares and imports, and the paths that its code mentions.
//!
//! Code that is compiled for tests only is ignored: a test may use whatever it tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Lit, Meta, UseTree};

use crate::for_tests::is_for_tests;

/// A path as written in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The names between `::`.
    pub segments: Vec<String>,
    /// Line number in the file.
    pub line: usize,
}

/// A module: a whole file, or a part of one.
#[derive(Debug, Default)]
pub struct Module {
    /// Index of the parent module; `None` for the crate's root.
    pub parent: Option<usize>,
    /// The file that contains the module.
    pub file: PathBuf,
    /// Child modules, by name.
    pub children: BTreeMap<String, usize>,
    /// Names of the items that the module declares.
    pub items: Vec<String>,
    /// Imported names, and the path of each as seen from this module.
    pub imports: BTreeMap<String, Vec<String>>,
    /// Modules imported with `*`.
    pub globs: Vec<Vec<String>>,
    /// Paths in the module's code.
    pub mentions: Vec<Mention>,
}

/// Returns the modules of the crate whose root is `file`; the root comes first.
///
/// # Errors
/// When a file cannot be read or is not valid Rust.
pub fn of(file: &Path) -> Result<Vec<Module>> {
    let folder = file.parent().context("the file's path has no folder")?;
    let mut modules = Vec::new();
    read(&mut modules, file, folder, None)?;
    Ok(modules)
}

/// Adds the module in `file`. The files of its child modules are in `folder`.
fn read(modules: &mut Vec<Module>, file: &Path, folder: &Path, parent: Option<usize>) -> Result<usize> {
    let source = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let parsed = syn::parse_file(&source).with_context(|| format!("reading {}", file.display()))?;
    add(modules, file, folder, parent, &parsed.items)
}

fn add(modules: &mut Vec<Module>, file: &Path, folder: &Path, parent: Option<usize>, items: &[Item]) -> Result<usize> {
    let own = modules.len();
    modules.push(Module { parent, file: file.to_owned(), ..Module::default() });
    for item in items.iter().filter(|item| !is_for_tests(attributes_of(item))) {
        if let Item::Mod(module) = item {
            let child = add_child(modules, file, folder, own, module)?;
            modules[own].children.insert(module.ident.to_string(), child);
            continue;
        }
        let module = &mut modules[own];
        match item {
            Item::Use(item) => import(module, item),
            _ => module.items.extend(name_of(item)),
        }
        Reader { module }.visit_item(item);
    }
    Ok(own)
}

fn add_child(modules: &mut Vec<Module>, file: &Path, folder: &Path, own: usize, module: &ItemMod) -> Result<usize> {
    let name = module.ident.to_string();
    let inner = folder.join(&name);
    if let Some((_, items)) = &module.content {
        return add(modules, file, &inner, Some(own), items);
    }
    if let Some(path) = module.attrs.iter().find_map(path_of) {
        let file = file.with_file_name(path);
        let folder = file.parent().context("the file's path has no folder")?.to_owned();
        return read(modules, &file, &folder, Some(own));
    }
    let beside = folder.join(format!("{name}.rs"));
    let within = inner.join("mod.rs");
    read(modules, if beside.exists() { &beside } else { &within }, &inner, Some(own))
}

/// Returns the value of `#[path = "…"]`.
fn path_of(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(value) = &pair.value else { return None };
    match &value.lit {
        Lit::Str(path) if pair.path.is_ident("path") => Some(path.value()),
        _ => None,
    }
}

fn import(module: &mut Module, item: &ItemUse) {
    if item.leading_colon.is_some() {
        return;
    }
    let mut names = Vec::new();
    flatten(&item.tree, &mut Vec::new(), &mut names);
    for name in names {
        match name.imported_as {
            Some(imported_as) => {
                module.imports.insert(imported_as, name.segments);
            }
            None => module.globs.push(name.segments),
        }
    }
}

/// One name imported by a `use`.
struct Used {
    segments: Vec<String>,
    /// The local name; `None` for a glob import (`*`).
    imported_as: Option<String>,
    line: usize,
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, names: &mut Vec<Used>) {
    let mut used = |ident: &syn::Ident, imported_as: String| {
        let mut segments = before.clone();
        if ident != "self" || segments.is_empty() {
            segments.push(ident.to_string());
        }
        let imported_as =
            if imported_as == "self" { segments.last().cloned().unwrap_or_default() } else { imported_as };
        names.push(Used { segments, imported_as: Some(imported_as), line: ident.span().start().line });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, names);
            before.pop();
        }
        UseTree::Name(name) => used(&name.ident, name.ident.to_string()),
        UseTree::Rename(name) => used(&name.ident, name.rename.to_string()),
        UseTree::Glob(glob) => {
            let line = glob.star_token.spans[0].start().line;
            names.push(Used { segments: before.clone(), imported_as: None, line });
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, names)),
    }
}

/// Collects the paths in an item.
struct Reader<'m> {
    module: &'m mut Module,
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    /// Re-exports are ignored: the code that uses the re-exported name has the dependency.
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() && matches!(item.vis, syn::Visibility::Inherited) {
            let mut names = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut names);
            let mentions = names.into_iter().map(|name| {
                let all = name.imported_as.is_none().then(|| "*".to_owned());
                Mention { segments: name.segments.into_iter().chain(all).collect(), line: name.line }
            });
            self.module.mentions.extend(mentions);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.module.mentions.push(Mention { segments, line: first.ident.span().start().line });
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        mentions_in(call.tokens.clone(), &mut self.module.mentions);
    }

    /// Attributes can name functions in strings, such as `serialize_with = "figures::rounded"`.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            names_in_strings(list.tokens.clone(), &mut self.module.mentions);
        }
    }
}

/// Adds the paths in the arguments of a macro, which need not be valid Rust.
fn mentions_in(tokens: TokenStream, mentions: &mut Vec<Mention>) {
    let mut tokens = tokens.into_iter().peekable();
    // True after `::` or `.`: the next name then belongs to a longer path or expression.
    let mut continued = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => mentions_in(group.stream(), mentions),
            TokenTree::Ident(ident) if !continued => {
                let mut segments = vec![ident.to_string()];
                loop {
                    let mut ahead = tokens.clone();
                    let colons = [ahead.next(), ahead.next()];
                    let is_path = colons.iter().all(|t| matches!(t, Some(TokenTree::Punct(p)) if p.as_char() == ':'));
                    let Some(TokenTree::Ident(next)) = ahead.next().filter(|_| is_path) else { break };
                    segments.push(next.to_string());
                    tokens = ahead;
                }
                mentions.push(Mention { segments, line: ident.span().start().line });
            }
            TokenTree::Punct(punct) => {
                let next_is_colon = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                continued = punct.as_char() == '.' || (punct.as_char() == ':' && (next_is_colon || continued));
                continue;
            }
            _ => {}
        }
        continued = false;
    }
}

fn names_in_strings(tokens: TokenStream, mentions: &mut Vec<Mention>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => names_in_strings(group.stream(), mentions),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let Lit::Str(text) = Lit::new(literal)
                    && let Ok(path) = text.parse::<syn::Path>()
                    && path.segments.len() > 1
                {
                    let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                    mentions.push(Mention { segments, line });
                }
            }
            _ => {}
        }
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
