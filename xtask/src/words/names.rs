//! Finds the names that a file declares, and the texts that it shows to users.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use proc_macro2::{Ident, Span};
use syn::visit::{self, Visit};
use syn::{
    Attribute, ExprMacro, Field, Fields, ItemEnum, ItemFn, ItemMod, ItemStruct, ItemTrait, ItemType, LitStr, Variant,
};

use crate::for_tests::is_for_tests;

/// The kinds of things that have names, and two kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A crate's folder, a file or `mod`.
    Module,
    /// A struct, enum, trait or alias; also a variant.
    Type,
    /// A field that is neither written to JSON nor an option.
    Field,
    /// A function or method.
    Function,
    /// An option of a command: a field of a struct that clap parses, or its `long` name.
    Option,
    /// A key that serde writes, or its new name in `rename`.
    Json,
    /// A string in the code, except in attributes.
    Message,
    /// A line of README.md or of a page in docs.
    Page,
}

/// The kinds with their names in the table.
const KINDS: [(Kind, &str); 8] = [
    (Kind::Module, "module"),
    (Kind::Type, "type"),
    (Kind::Field, "field"),
    (Kind::Function, "function"),
    (Kind::Option, "option"),
    (Kind::Json, "json"),
    (Kind::Message, "message"),
    (Kind::Page, "page"),
];

impl Kind {
    /// Returns the kind with this name in the table.
    #[must_use]
    pub fn of(name: &str) -> Option<Kind> {
        KINDS.into_iter().find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.into_iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// A name, or a text that users see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Kind of the named thing: a module, a type, a field, and so on.
    pub kind: Kind,
    /// The name or the text, as written in the file.
    pub text: String,
    /// Line number.
    pub line: usize,
}

/// Splits a name into words in lower case: `TookCpu` and `took_cpu` both give `took` and `cpu`.
pub(super) fn words_of(name: &Name) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.text.chars() {
        let begins = c.is_uppercase() && was_lower;
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        if !c.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the lines of a page.
#[must_use]
pub fn of_page(text: &str) -> Vec<Name> {
    let line = |(at, line): (usize, &str)| Name { kind: Kind::Page, text: line.trim().to_owned(), line: at + 1 };
    text.lines().enumerate().map(line).collect()
}

/// Returns the names in a Rust source. The file's name counts as a module name; for a crate's root, the crate's folder does.
///
/// # Errors
/// When the source is not valid Rust.
pub fn of_rust(file: &Path, text: &str) -> Result<Vec<Name>> {
    let mut names = Names { found: Vec::new(), fields: Kind::Field };
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let above = |levels| file.ancestors().nth(levels).and_then(Path::file_name).and_then(|name| name.to_str());
    let module = match stem {
        "lib" | "main" => above(2),
        "mod" => above(1),
        _ => Some(stem),
    };
    names.found.extend(module.map(|module| Name { kind: Kind::Module, text: module.to_owned(), line: 1 }));
    names.visit_file(&syn::parse_file(text)?);
    Ok(names.found)
}

struct Names {
    found: Vec<Name>,
    /// Kind of the fields of the struct or enum that is being visited.
    fields: Kind,
}

impl Names {
    fn add(&mut self, kind: Kind, text: String, span: Span) {
        self.found.push(Name { kind, text, line: span.start().line });
    }

    fn name(&mut self, kind: Kind, ident: &Ident) {
        self.add(kind, ident.to_string(), ident.span());
    }

    /// Adds the names that attributes give to fields: the values of `rename = "…"` (serde) and `long = "…"` (clap).
    fn given(&mut self, attributes: &[Attribute]) {
        for attribute in attributes {
            let kind = match () {
                () if attribute.path().is_ident("serde") => Kind::Json,
                () if attribute.path().is_ident("arg") => Kind::Option,
                () => continue,
            };
            // Other attribute items are ignored. Parse errors are ignored, too, because rustc reports them.
            let _ = attribute.parse_nested_meta(|meta| {
                let given = meta.value().and_then(|value| value.parse::<LitStr>());
                if let (true, Ok(given)) = (meta.path.is_ident("rename") || meta.path.is_ident("long"), given) {
                    self.add(kind, given.value(), given.span());
                }
                Ok(())
            });
        }
    }
}

/// Returns the kind of the fields, which depends on the derived traits.
fn kind_of_fields(attributes: &[Attribute]) -> Kind {
    let mut kind = Kind::Field;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let _ = attribute.parse_nested_meta(|meta| {
            match meta.path.segments.last().map(|segment| segment.ident.to_string()).as_deref() {
                Some("Args" | "Parser" | "Subcommand") => kind = Kind::Option,
                Some("Serialize" | "Deserialize") => kind = Kind::Json,
                _ => {}
            }
            Ok(())
        });
    }
    kind
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_for_tests(&item.attrs) {
            self.name(Kind::Module, &item.ident);
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.name(Kind::Type, &item.ident);
        self.given(&item.attrs);
        self.fields = kind_of_fields(&item.attrs);
        self.visit_fields(&item.fields);
        self.fields = Kind::Field;
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.name(Kind::Type, &item.ident);
        self.given(&item.attrs);
        self.fields = kind_of_fields(&item.attrs);
        item.variants.iter().for_each(|variant| self.visit_variant(variant));
        self.fields = Kind::Field;
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        self.name(Kind::Type, &variant.ident);
        self.given(&variant.attrs);
        self.visit_fields(&variant.fields);
    }

    fn visit_fields(&mut self, fields: &'ast Fields) {
        fields.iter().for_each(|field| self.visit_field(field));
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if let Some(ident) = &field.ident {
            self.name(self.fields, ident);
        }
        self.given(&field.attrs);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.name(Kind::Type, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.name(Kind::Type, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.name(Kind::Function, &signature.ident);
        visit::visit_signature(self, signature);
    }

    fn visit_lit_str(&mut self, text: &'ast LitStr) {
        self.add(Kind::Message, text.value(), text.span());
    }

    /// Finds the strings in `format!` and similar macros among their tokens, because syn does not parse the arguments of macros.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        for token in flat(item.tokens.clone()) {
            if let Ok(syn::Lit::Str(text)) = syn::parse_str::<syn::Lit>(&token.to_string()) {
                self.add(Kind::Message, text.value(), token.span());
            }
        }
    }

    fn visit_expr_macro(&mut self, item: &'ast ExprMacro) {
        self.visit_macro(&item.mac);
    }

    // Strings in attributes are not messages.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn flat(tokens: proc_macro2::TokenStream) -> Vec<proc_macro2::TokenTree> {
    let inner = |token: proc_macro2::TokenTree| match token {
        proc_macro2::TokenTree::Group(group) => flat(group.stream()),
        token => vec![token],
    };
    tokens.into_iter().flat_map(inner).collect()
}
