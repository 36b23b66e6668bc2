//! Multithreaded programs from Debian packages: with cox, their output must be the same and they must be no slower than with taskset.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::field::{Confined, Field};
use super::judge::{self, Series};
use super::part::{Part, progress};
use super::ratio::Ratio;
use super::text;
use crate::data::{write_picture, write_words};
use crate::rounds::in_turns;
use crate::stopwatch;
use crate::tools::in_path;
use crate::verdict::{Outcome, Verdict};

const LIMIT: Duration = Duration::from_secs(600);
const DGEMM: &str = include_str!("dgemm.c");
/// Path of the BLAS with OpenMP threads, relative to the architecture's library folder.
const BLAS: &str = "openblas-openmp/libopenblas.so.0";

/// A program that is ready to run.
struct Ready {
    command: Vec<OsString>,
    /// The file that the program writes.
    output: PathBuf,
}

/// A program from a Debian package.
struct Package {
    name: &'static str,
    debian: &'static str,
    /// Prepares a run in a folder, with a number of threads and a share of the default work. Returns `None` if the program is not installed.
    prepare: fn(&Path, usize, f64) -> Result<Option<Ready>>,
}

const PACKAGES: [Package; 3] = [
    Package { name: "GraphicsMagick", debian: "graphicsmagick", prepare: graphics_magick },
    Package { name: "pigz", debian: "pigz", prepare: pigz },
    Package { name: "OpenBLAS", debian: "libopenblas0-openmp", prepare: openblas },
];

#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    ratio: Ratio,
    /// Wall time of the program with taskset, s.
    taskset_s: Series,
    /// Wall time of the program with cox, s.
    cox_s: Series,
    /// Wall time of the program with cox ÷ its wall time with taskset, by round.
    program_ratio: Series,
    /// Wall time of the whole command with cox (including cox's start and end) ÷ wall time of the whole command with taskset, by round.
    command_ratio: Series,
    /// True if all runs wrote the same output, byte by byte.
    same_output: bool,
}

fn words(command: &[&str]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().context("a path is not valid UTF-8")
}

/// Prepares GraphicsMagick: enlarge and blur a picture.
fn graphics_magick(folder: &Path, threads: usize, scale: f64) -> Result<Option<Ready>> {
    let Some(program) = in_path("gm") else { return Ok(None) };
    let (picture, output) = (folder.join("picture.ppm"), folder.join("blurred.ppm"));
    write_picture(&picture, (3_000.0 * scale.sqrt()) as usize + 16).context("cannot write the picture")?;
    let threads = threads.to_string();
    let command = words(&[
        text_of(&program)?,
        "convert",
        "-limit",
        "threads",
        &threads,
        text_of(&picture)?,
        "-resize",
        "150%",
        "-blur",
        "0x6",
        text_of(&output)?,
    ]);
    Ok(Some(Ready { command, output }))
}

/// Prepares pigz: compress a text.
fn pigz(folder: &Path, threads: usize, scale: f64) -> Result<Option<Ready>> {
    let Some(program) = in_path("pigz") else { return Ok(None) };
    let data = folder.join("words");
    write_words(&data, (220e6 * scale) as usize).context("cannot write the text to compress")?;
    let threads = threads.to_string();
    let command = words(&[text_of(&program)?, "-n", "-k", "-f", "-p", &threads, text_of(&data)?]);
    Ok(Some(Ready { command, output: data.with_extension("gz") }))
}

/// Prepares OpenBLAS: multiply matrices. Compiles dgemm.c.
fn openblas(folder: &Path, threads: usize, scale: f64) -> Result<Option<Ready>> {
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let Some(library) = libraries.map(|entry| entry.path().join(BLAS)).find(|file| file.is_file()) else {
        return Ok(None);
    };
    let (source, program, output) = (folder.join("dgemm.c"), folder.join("dgemm"), folder.join("product"));
    fs::write(&source, DGEMM).context("cannot write dgemm.c")?;
    let beside = text_of(library.parent().context("the library's path has no folder")?)?;
    let built = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source, &library])
        // Other variants of the library have the same file name; the rpath selects this one.
        .arg(format!("-Wl,-rpath,{beside}"))
        .output()
        .context("cannot start gcc")?;
    if !built.status.success() {
        bail!("gcc: {}", String::from_utf8_lossy(&built.stderr).trim());
    }
    let products = ((30.0 * scale) as usize).max(1);
    let (threads, products) = (threads.to_string(), products.to_string());
    let command = words(&[text_of(&program)?, &threads, "1500", &products, text_of(&output)?]);
    Ok(Some(Ready { command, output }))
}

/// Runs the program once. Returns the wall time of the program and of the command, s, and the output.
fn run_once(field: &Field<'_>, ratio: Ratio, ready: &Ready, confined: &Confined) -> Result<(f64, f64, Vec<u8>)> {
    // Remove the previous run's output, so that it is not read as this run's.
    let _ = fs::remove_file(&ready.output);
    let time = field.scratch.path().join("time");
    let mut line = vec![field.tools.own.clone().into_os_string(), "stopwatch".into(), time.clone().into(), "--".into()];
    line.extend(ready.command.iter().cloned());
    let run = field.run(ratio.cpus, confined, &line, LIMIT)?;
    if run.cut_short {
        bail!("the program did not end within {} s", LIMIT.as_secs());
    }
    let output = fs::read(&ready.output).context("the program wrote no output file")?;
    Ok((stopwatch::take(&time)?.wall_ns as f64 / 1e9, run.wall_s, output))
}

fn measure(field: &Field<'_>, name: &'static str, ratio: Ratio, ready: &Ready, rounds: usize) -> Result<Row> {
    let treatments = [Confined::Taskset, Confined::packed("")];
    // Warm up: this run is not measured, but it reads the program and its data from disk. Its output is what the other runs must write.
    let (.., expected) = run_once(field, ratio, ready, &treatments[0])?;
    let all = in_turns(2, rounds, |treatment| {
        let (program_s, command_s, output) = run_once(field, ratio, ready, &treatments[treatment])?;
        Ok((program_s, command_s, output == expected))
    })?;
    let series =
        |treatment: usize, of: fn(&(f64, f64, bool)) -> f64| Series::of(all[treatment].iter().map(of).collect());
    let (taskset_s, cox_s) = (series(0, |run| run.0), series(1, |run| run.0));
    Ok(Row {
        program: name,
        ratio,
        program_ratio: cox_s.over(&taskset_s),
        command_ratio: series(1, |run| run.1).over(&series(0, |run| run.1)),
        taskset_s,
        cox_s,
        same_output: all.iter().flatten().all(|(.., same)| *same),
    })
}

fn verdict(row: &Row) -> Verdict {
    let estimate = &row.program_ratio.estimate;
    let outcome = if row.same_output { judge::no_worse(estimate) } else { Outcome::Fail };
    let output = if row.same_output { "the same output" } else { "ANOTHER OUTPUT" };
    let name = row.program;
    let text = format!(
        "{name}: the same output, and at most 2 % slower than taskset (measured: {output}, {} times as long)",
        text::estimate(estimate)
    );
    Verdict { outcome, text }
}

/// Returns the expected duration of the part `packages` of the experiment, s.
pub fn expected_s(rounds: usize, scale: f64) -> f64 {
    PACKAGES.len() as f64 * rounds as f64 * 2.0 * (3.0 * scale + 0.3)
}

/// Measures and reports the part `packages` of the experiment.
pub fn part(field: &Field<'_>, ratio: Ratio, rounds: usize) -> Result<Part> {
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    for package in &PACKAGES {
        progress(&format!("packages: {}", package.name));
        let folder = tempfile::tempdir_in(field.scratch.path()).context("cannot make a temporary folder")?;
        let measured = match (package.prepare)(folder.path(), ratio.threads, field.scale) {
            Ok(None) => Err(anyhow::anyhow!("the package {} is not installed", package.debian)),
            Ok(Some(ready)) => measure(field, package.name, ratio, &ready, rounds),
            Err(error) => Err(error),
        };
        match measured {
            Ok(row) => {
                verdicts.push(verdict(&row));
                rows.push(row);
            }
            Err(error) => {
                field.interrupt.check()?;
                verdicts.push(judge::not_measured(package.name, &format!("{error:#}")));
            }
        }
    }
    let cells = rows.iter().map(|row| {
        vec![
            format!("{} {}", row.program, row.ratio),
            text::estimate(&row.taskset_s.estimate),
            text::estimate(&row.cox_s.estimate),
            text::estimate(&row.program_ratio.estimate),
            text::estimate(&row.command_ratio.estimate),
            if row.same_output { "same".to_owned() } else { "DIFFERENT".to_owned() },
        ]
    });
    let headings = ["program", "taskset, s", "cox pack, s", "cox / taskset", "whole command", "output"];
    Part::new("packages", "multithreaded programs from Debian packages")
        .with_table(text::table(&headings, 1, cells.collect()))
        .with_notes(vec![
            "times of the program alone; 'whole command' also includes the start and end of cox".to_owned(),
        ])
        .with_verdicts(verdicts)
        .with_lines(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, same_output: bool) -> Row {
        let series = |value: f64| Series::of(vec![value; 15]);
        Row {
            program: "pigz",
            ratio: Ratio { threads: 3, cpus: 2 },
            taskset_s: series(2.0),
            cox_s: series(2.0 * ratio),
            program_ratio: series(ratio),
            command_ratio: series(ratio + 0.1),
            same_output,
        }
    }

    #[test]
    fn speed_and_output_both_count() {
        assert_eq!(verdict(&row(1.01, true)).outcome, Outcome::Pass);
        assert_eq!(verdict(&row(1.05, true)).outcome, Outcome::Fail);
        assert_eq!(verdict(&row(1.01, false)).outcome, Outcome::Fail);
        assert!(verdict(&row(1.01, false)).text.contains("ANOTHER OUTPUT"));
    }
}
