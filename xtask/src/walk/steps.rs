//! The steps of each part: README.md's commands, and shell scripts in xtask/walk.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::options::Part;
use super::readme;

/// Who runs a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Root without sudo, as in a container or a rescue shell.
    Root,
    /// A user without privileges.
    Stranger,
    /// The unprivileged user, mapped to root in a new user namespace, as in a rootless container.
    Container,
}

/// A step of the walk: a script, whose result is one row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name in the table.
    pub name: String,
    /// The user who runs the step.
    pub who: Who,
    /// Folder in which the step runs, relative to the user's home.
    pub folder: &'static str,
    /// Script for bash.
    pub script: String,
    /// Time limit.
    pub limit: Duration,
    /// True if the command is from README.md; if it fails, the later steps are not run.
    pub of_readme: bool,
}

/// Folder of the new user's clone of this repository, relative to the home.
pub const CLONE: &str = "coxswain";

/// Shell functions for all steps.
const PRELUDE: &str = include_str!("../../walk/prelude.sh");

/// A function that replaces sudo for root, because a minimal Debian does not have sudo.
const WITHOUT_SUDO: &str = "sudo() { \"$@\"; }\n";

/// Time limit for a build from scratch, including packages, on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// Time limit of other steps: about ten times what they need.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// Time limit for `make test`, whose own limit is 75 minutes without its builds.
const TEST_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Returns all steps of a part. `tests` are arguments for `cargo nextest run` instead of --workspace.
///
/// # Errors
/// When README.md has no commands, or a script is not a list of steps.
pub fn of(part: Part, readme: &str, tests: Option<&str>) -> Result<Vec<Step>> {
    let written = |who, script| scripted(who, script).with_context(|| format!("xtask/walk/{}.sh", part.name()));
    match part {
        Part::Root => {
            let mut steps = of_readme(readme, Who::Root)?;
            steps.extend(written(Who::Root, include_str!("../../walk/root.sh"))?);
            Ok(steps)
        }
        Part::User => {
            let mut steps = of_readme(readme, Who::Stranger)?;
            steps.extend(written(Who::Stranger, include_str!("../../walk/user.sh"))?);
            Ok(steps)
        }
        Part::Container => written(Who::Container, include_str!("../../walk/container.sh")),
        Part::Test => {
            let mut steps = written(Who::Root, include_str!("../../walk/test.sh"))?;
            let variables = format!("TESTS={}\n", quoted(tests.unwrap_or_default()));
            for step in &mut steps {
                step.script.insert_str(0, &variables);
                step.limit = TEST_LIMIT;
            }
            Ok(steps)
        }
    }
}

/// Returns README.md's steps for `who`. A user without privileges skips the commands that need sudo. `make test` is skipped, because it is a separate
/// part.
fn of_readme(readme: &str, who: Who) -> Result<Vec<Step>> {
    let commands = readme::commands(readme, readme::SECTION)?;
    let needs_root = |command: &str| command.split_ascii_whitespace().any(|word| word == "sudo");
    let steps = commands.into_iter().filter(|command| readme::name(command) != "make test");
    let steps = steps.filter(|command| who == Who::Root || !needs_root(command)).map(|command| Step {
        name: readme::name(&command).to_owned(),
        who,
        folder: CLONE,
        script: if who == Who::Root { format!("{WITHOUT_SUDO}{command}") } else { command },
        limit: BUILD_LIMIT,
        of_readme: true,
    });
    Ok(steps.collect())
}

/// Reads a script of steps. A line `#: NAME` begins a step; `#: NAME (as root)` also names the user.
fn scripted(who: Who, text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(head) = line.strip_prefix("#: ") {
            let (name, who) = match head.split_once(" (as ") {
                None => (head, who),
                Some((name, "root)")) => (name, Who::Root),
                Some((name, "stranger)")) => (name, Who::Stranger),
                Some((name, "container)")) => (name, Who::Container),
                Some((_, other)) => bail!("line {}: unknown user '{other}'", number + 1),
            };
            ensure!(!steps.iter().any(|step| step.name == name), "line {}: two steps are called '{name}'", number + 1);
            let name = name.to_owned();
            steps.push(Step { name, who, folder: ".", script: String::new(), limit: STEP_LIMIT, of_readme: false });
        } else if let Some(step) = steps.last_mut() {
            step.script += line;
            step.script.push('\n');
        }
    }
    ensure!(!steps.is_empty(), "no steps");
    let empty = |step: &&Step| step.script.trim().is_empty();
    if let Some(step) = steps.iter().find(empty) {
        bail!("step '{}' has no commands", step.name);
    }
    Ok(steps)
}

impl Step {
    /// Returns the script for bash: the functions for all steps, and this step's commands.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PRELUDE}\n{}\n", self.script)
    }

    /// Returns the file name of the step's log. It consists of the name of the part of the walk, and the number and name of the step, in characters
    /// that need no quoting.
    #[must_use]
    pub fn log(&self, part: Part, number: usize) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.name.chars().map(plain).collect();
        let name = name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        format!("{}-{number:02}-{}.log", part.name(), &name[..name.len().min(60)])
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = include_str!("../../../README.md");

    fn names(part: Part) -> Vec<String> {
        of(part, README, None).unwrap().into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn every_part_has_its_steps() {
        let root = names(Part::Root);
        assert_eq!(root[0], "make demo");
        assert!(root.iter().any(|name| name.starts_with("sudo make install")), "{root:?}");
        let user = names(Part::User);
        assert!(user.contains(&"make build".to_owned()) && !user.iter().any(|name| name.contains("sudo")), "{user:?}");
        for part in [Part::Root, Part::User, Part::Container, Part::Test] {
            assert!(!names(part).contains(&"make test".to_owned()) || part == Part::Test);
        }
    }

    #[test]
    fn scripts_are_divided_at_their_heads() {
        let steps =
            scripted(Who::Stranger, "# a remark\n#: one\necho 1\n\n#: two, or more (as root)\necho 2\n").unwrap();
        assert_eq!(steps.len(), 2);
        assert_eq!(
            (steps[0].name.as_str(), steps[0].who, steps[0].script.as_str()),
            ("one", Who::Stranger, "echo 1\n\n")
        );
        assert_eq!((steps[1].name.as_str(), steps[1].who), ("two, or more", Who::Root));
        assert_eq!(steps[1].log(Part::User, 3), "user-03-two-or-more.log");
        for bad in ["", "echo\n", "#: one\n\n#: two\necho\n", "#: one\na\n#: one\nb\n", "#: one (as nobody)\na\n"] {
            assert!(scripted(Who::Root, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arguments_of_tests_reach_the_shell_as_they_are() {
        let steps = of(Part::Test, README, Some("-p cox 'a b'")).unwrap();
        assert!(steps[0].script.starts_with(r"TESTS='-p cox '\''a b'\'''"), "{}", steps[0].script);
    }
}
