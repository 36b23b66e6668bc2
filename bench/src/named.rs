//! What the command line chooses by name.

/// The one of this name.
///
/// # Errors
/// `say` and the names there are.
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
