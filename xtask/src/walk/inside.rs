//! Runs the steps of the walk in the prepared root file system, within its namespaces.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::options::{Options, Part};
use super::places::Places;
use super::steps::{self, Step, Who};
use super::table::{self, Outcome, Row};
use crate::supervise::{DEFAULT_SIGNALS, watch};

/// Name of the unprivileged user and of its group.
pub const STRANGER: &str = "stranger";

/// Variables of this machine's environment that package clients need: proxies and certificates.
const PASSED_ON: [&str; 10] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
];

/// Shell script that replaces the root file system by pivot_root(8). chroot(2) would not do, because the kernel creates no user namespace for a
/// process in a chroot.
const PIVOT: &str = r#"cd "$0" && pivot_root . mnt && cd / && umount -l /mnt && exec "$@""#;

/// Runs all chosen parts and prints the table. Returns whether every step succeeded.
///
/// # Errors
/// When steps cannot be read or started, or logs cannot be written.
pub fn walk(options: &Options, places: &Places) -> Result<bool> {
    let readme = fs::read_to_string(places.readme()).with_context(|| format!("{}", places.readme().display()))?;
    let mut rows: Vec<Row> = Vec::new();
    let mut lost = false;
    for part in options.parts() {
        let steps = steps::of(part, &readme, options.tests.as_deref())?;
        let is_wanted = |step: &Step| {
            if step.of_readme { !(options.again && part == Part::Root) } else { options.takes(part, &step.name) }
        };
        let steps = steps.into_iter().filter(is_wanted);
        for (number, step) in steps.enumerate() {
            let started = Instant::now();
            // If a command of README.md has failed for root, the later steps are not run. The part `test` is an exception, because it has its own
            // clone and needs nothing that other parts install.
            let outcome = if lost && part != Part::Test {
                Outcome::NotWalked
            } else {
                println!("walk: {} · {}", part.name(), step.name);
                run(&step, places, &places.logs.join(step.log(part, number + 1)))?
            };
            lost |= step.of_readme && part == Part::Root && outcome != Outcome::Good;
            rows.push(Row { part: part.name(), step: step.name, outcome, time: started.elapsed() });
        }
    }
    print!("\n{}", table::text(&rows));
    println!("logs: {}", places.logs.display());
    Ok(table::all_good(&rows))
}

/// Runs one step. Its output goes to its log; if the step fails, the end of the log is printed, too.
fn run(step: &Step, places: &Places, log: &Path) -> Result<Outcome> {
    let file = File::create(log).with_context(|| format!("{}", log.display()))?;
    let mut command = command(step, &places.root);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let watched = watch(&mut command, step.limit)?;
    let said = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let why = match watched.status {
        None => Some(format!("took more than {} s", step.limit.as_secs())),
        Some(status) if !status.success() => Some(status.to_string()),
        Some(_) if said.contains("panicked at") => Some("a panic".to_owned()),
        Some(_) if !watched.left.is_empty() => {
            Some(format!("left behind: {}", watched.left.values().cloned().collect::<Vec<_>>().join(", ")))
        }
        Some(_) => None,
    };
    let lines: Vec<&str> = said.lines().collect();
    for line in lines.iter().filter(|line| line.contains("skipped: ")) {
        println!("  {line}");
    }
    if why.is_some() {
        for line in &lines[lines.len().saturating_sub(20)..] {
            println!("  | {line}");
        }
    }
    Ok(why.map_or(Outcome::Good, Outcome::Failed))
}

/// Returns the command that runs a step's script: in the new root, as the step's user, with the environment and signal actions that a login gives.
fn command(step: &Step, root: &Path) -> Command {
    let home = if step.who == Who::Root { "/root".to_owned() } else { format!("/home/{STRANGER}") };
    let user = if step.who == Who::Root { "root" } else { STRANGER };
    let mut words: Vec<OsString> = ["--mount", "sh", "-c", PIVOT].map(OsString::from).into();
    words.push(root.into());
    if step.who != Who::Root {
        words.extend(["setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--init-groups"].map(OsString::from));
    }
    if step.who == Who::Container {
        let namespaces = "unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc";
        words.extend(namespaces.split(' ').map(OsString::from));
    }
    words.extend(["env", DEFAULT_SIGNALS, "-i", "--chdir"].map(OsString::from));
    words.push(format!("{home}/{}", step.folder).into());
    words.push(format!("HOME={home}").into());
    words.push(format!("USER={user}").into());
    words.push(format!("LOGNAME={user}").into());
    words.push(format!("PATH={home}/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").into());
    words.extend(["SHELL=/bin/bash", "TERM=xterm", "LANG=C.UTF-8"].map(OsString::from));
    for name in PASSED_ON {
        if let Some(value) = env::var_os(name) {
            let mut word = OsString::from(format!("{name}="));
            word.push(value);
            words.push(word);
        }
    }
    words.extend(["bash", "-euo", "pipefail", "-c"].map(OsString::from));
    words.push(step.text().into());
    let mut command = Command::new("unshare");
    command.args(words);
    command
}
