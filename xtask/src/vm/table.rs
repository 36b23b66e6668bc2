//! Prints what the kernels had, as a table with a row for each check and a column for each boot.

use super::expected::Compared;

/// A column of the table.
#[derive(Debug)]
pub struct Column {
    /// The kernel's release and its boot line.
    pub name: String,
    /// The checks.
    pub compared: Vec<Compared>,
}

impl Column {
    /// Returns whether the kernel had all that was expected.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.compared.iter().all(Compared::is_good) && !self.compared.is_empty()
    }
}

/// Returns the table. A value that differs from the expected one is marked with `!`.
#[must_use]
pub fn text(columns: &[Column]) -> String {
    let mut checks: Vec<&str> = Vec::new();
    for compared in columns.iter().flat_map(|column| &column.compared) {
        if !checks.contains(&compared.check.as_str()) {
            checks.push(&compared.check);
        }
    }
    let mut lines = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        lines.push(format!("[{}] {}", number + 1, column.name));
    }
    let wide = checks.iter().map(|check| check.len()).max().unwrap_or(0);
    let head = (1..=columns.len()).map(|number| format!(" {:>5}", format!("[{number}]"))).collect::<String>();
    lines.push(format!("{:wide$}{head}", ""));
    for check in checks {
        let cells = columns.iter().map(|column| format!(" {:>5}", cell(column, check))).collect::<String>();
        lines.push(format!("{check:wide$}{cells}"));
    }
    lines.join("\n")
}

fn cell(column: &Column, check: &str) -> String {
    let Some(compared) = column.compared.iter().find(|compared| compared.check == check) else { return "-".to_owned() };
    let value = compared.found.as_ref().map_or("none", |found| &found.value);
    format!("{}{value}", if compared.is_good() { "" } else { "!" })
}

#[cfg(test)]
mod tests {
    use super::super::facts::Fact;
    use super::*;

    #[test]
    fn differences_are_marked() {
        let compared = |check: &str, expected: &str, value: Option<&str>| Compared {
            check: check.to_owned(),
            expected: expected.to_owned(),
            found: value.map(|value| Fact { value: value.to_owned(), detail: String::new() }),
        };
        let columns = [
            Column {
                name: "6.1".to_owned(),
                compared: vec![compared("a", "yes", Some("yes")), compared("b", "0", None)],
            },
            Column { name: "6.12 x".to_owned(), compared: vec![compared("a", "yes", Some("no"))] },
        ];
        assert_eq!(text(&columns), "[1] 6.1\n[2] 6.12 x\n    [1]   [2]\na   yes   !no\nb !none     -");
    }
}
