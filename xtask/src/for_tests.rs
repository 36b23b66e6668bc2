//! Recognises code that is compiled for tests only.

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Returns whether an item with these attributes is a test or is compiled for tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => list.parse_args().is_ok_and(|meta| only_in_tests(&meta)),
        _ => false,
    })
}

/// Returns whether a `cfg` condition holds in tests only.
fn only_in_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let parts = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(list.tokens.clone());
    let Ok(parts) = parts else { return false };
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("all") => parts.iter().any(only_in_tests),
        Some("any") => parts.iter().all(only_in_tests),
        _ => false,
    }
}
