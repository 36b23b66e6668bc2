//! Messages about failures of cox, one line each, on stderr.

use std::io::{self, Write};

/// Writes `text` to stderr. Errors are ignored: if stderr is full or closed, the exit code must not change.
pub fn say(text: &str) {
    let _ = io::stderr().write_all(format!("cox: {}\n", one_line(text)).as_bytes());
}

/// Returns the error text with its causes, outermost first. A cause that the text already contains is left out, because
/// many errors include their source in their own text.
#[must_use]
pub fn chain(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.contains(&cause) {
            continue;
        }
        if !said.is_empty() {
            said += ": ";
        }
        said += &cause;
    }
    said
}

/// Returns the text in one line. Control characters, which file names may contain, are escaped for the terminal.
#[must_use]
pub fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.trim_end().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let denied = io::Error::from_raw_os_error(13);
        let source = io::Error::new(denied.kind(), format!("cannot read /proc/x: {denied}"));
        let error = anyhow::Error::from(denied).context(source).context("looking at this machine");
        let said = chain(&error);
        assert_eq!(said.matches("Permission denied").count(), 1, "{said}");
        assert!(said.starts_with("looking at this machine: cannot read /proc/x: "), "{said}");
    }

    /// The alternate form of an error repeats what errors have of their source in their own text: [`chain`] does not.
    #[test]
    fn every_diagnostic_says_a_cause_once() {
        fn look(folder: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    look(&entry, found);
                    continue;
                }
                let text = std::fs::read_to_string(&entry).unwrap_or_default();
                let lines = text.lines().take_while(|line| !line.contains("mod tests {"));
                let repeats = |line: &&str| {
                    line.contains(concat!(":#", "}")) && !line.contains("panic!") && !line.contains("{document")
                };
                found.extend(lines.filter(repeats).map(|line| format!("{}: {line}", entry.display())));
            }
        }
        let mut found = Vec::new();
        for user in ["cox", "observe", "outputs", "overlap", "pack", "session"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(user).join("src");
            look(&folder, &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(one_line("cannot run 'a\nb\u{1b}[2J'\n"), "cannot run 'a\\nb\\u{1b}[2J'");
    }
}
