//! Lookup of command-line values by name.

/// Returns the item whose name is `name`.
///
/// # Errors
/// `say`, followed by all names, if no item has this name.
pub fn by_name<T>(
    all: impl IntoIterator<Item = T> + Clone,
    name_of: impl Fn(&T) -> String,
    name: &str,
    say: &str,
) -> Result<T, String> {
    all.clone().into_iter().find(|one| name_of(one) == name).ok_or_else(|| {
        let names: Vec<String> = all.into_iter().map(|one| name_of(&one)).collect();
        format!("{say} {}", names.join(", "))
    })
}
