//! Reads the commands that README.md tells a newcomer to run, so that the walk and README.md cannot differ.

use anyhow::{Result, ensure};

/// The heading of README.md's section for newcomers.
pub const SECTION: &str = "Start";

/// Returns the commands in the code blocks of a section: each line of `sh` blocks, and the text after `$ ` in `console` blocks. A line that ends with
/// a backslash continues on the next one. Trailing comments are kept, because the shell ignores them.
///
/// # Errors
/// When the section or its commands are missing.
pub fn commands(readme: &str, section: &str) -> Result<Vec<String>> {
    let heading = format!("## {section}");
    let lines = readme.lines().skip_while(|line| line.trim_end() != heading).skip(1);
    let (mut commands, mut unfinished) = (Vec::new(), String::new());
    let mut block: Option<&str> = None;
    for line in lines {
        match (block, line.trim_start().strip_prefix("```")) {
            (Some(_), Some(_)) => block = None,
            (None, Some(kind)) => block = Some(kind.trim()),
            (None, None) if line.starts_with("## ") => break,
            (Some(kind @ ("sh" | "bash" | "console")), None) => {
                let line =
                    if unfinished.is_empty() && kind == "console" { line.strip_prefix("$ ") } else { Some(line) };
                let Some(line) = line.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) else {
                    continue;
                };
                unfinished.push_str(line);
                if unfinished.ends_with('\\') {
                    unfinished.pop();
                } else {
                    commands.push(std::mem::take(&mut unfinished));
                }
            }
            _ => {}
        }
    }
    ensure!(!commands.is_empty(), "README.md has no commands in a section '{heading}'");
    ensure!(unfinished.is_empty(), "README.md's last command in '{heading}' ends with a backslash: {unfinished}");
    Ok(commands)
}

/// Returns a command without its trailing comment; this is the name of its step.
#[must_use]
pub fn name(command: &str) -> &str {
    command.split(" #").next().unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
# Title

```sh
make before
```

## Start

Text with `make inline`.

```sh
make demo      # installs
# a remark
make test A=1 \\
    B=2

```

```console
$ cox run -- ls    # see
make output
```

```json
{ \"make\": 1 }
```

## Next

```sh
make after
```
";

    #[test]
    fn commands_of_one_section_are_found_and_nothing_else() {
        let expected = ["make demo      # installs", "make test A=1 B=2", "cox run -- ls    # see"];
        assert_eq!(commands(README, "Start").unwrap(), expected);
        assert_eq!(expected.map(name), ["make demo", "make test A=1 B=2", "cox run -- ls"]);
    }

    #[test]
    fn a_section_without_commands_is_an_error() {
        assert!(commands(README, "Elsewhere").unwrap_err().to_string().contains("## Elsewhere"));
        assert!(commands("## Start\n\n```sh\nmake \\\n```\n", "Start").is_err());
    }

    #[test]
    fn the_true_readme_has_the_commands_that_the_walk_looks_for() {
        let readme = include_str!("../../../README.md");
        let commands = commands(readme, SECTION).unwrap();
        for needed in ["make demo", "make test", "make build", "sudo make install PREFIX=/usr/local"] {
            assert!(commands.iter().any(|command| name(command) == needed), "{needed}: {commands:?}");
        }
    }
}
