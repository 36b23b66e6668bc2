//! What the jobs print, for xtask/src/vm/facts.rs.

/// Prints a fact. The lines of the reason are what is wrong, or what cox printed.
pub fn fact(name: &str, value: &str, reason: &[String]) {
    println!("fact {name} = {value}");
    reason.iter().flat_map(|lines| lines.lines()).for_each(|line| println!("    {line}"));
}

/// Prints `yes`, or `no` with what is wrong.
pub fn is_fine(name: &str, wrong: &[String]) {
    fact(name, if wrong.is_empty() { "yes" } else { "no" }, wrong);
}
