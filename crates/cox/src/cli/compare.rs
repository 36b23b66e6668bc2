//! The command line of `cox compare`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Compare groups of runs: which figures differ significantly, and by how much.
///
/// Each GROUP is a set of reports of `cox run --json` of the same program: files joined by commas, or the name with %n that
/// was given to `cox run --repeat`. NAME=… names a group. cox compares every other group with the first.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("drawing").args(["svg", "html"]).multiple(true),
    override_usage = "cox compare [OPTIONS] [NAME=]FILE[,FILE]...  [NAME=]FILE[,FILE]...",
    after_help = "Example:\n  cox run --repeat 15 --json before.%n.json -q -- ./app\n  cox run --repeat 15 --json after.%n.json -q -- ./app --new\n  \
cox compare before.%n.json after.%n.json\n  \
cox compare --html page.html before.%n.json after.%n.json\n  \
cox compare --table waiting_for_cpu_ns/thread_ns --html t.html heat/static=a.%n.json heat/guided=b.%n.json\n\n\
Exit codes:\n  0    compared\n  2    wrong options\n  125  a report cannot be read, or an output cannot be written"
)]
pub struct Compare {
    /// Groups of reports
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<String>,
    /// Write the comparison as JSON to FILE ('-': stdout, and no text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the text to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write medians and changes to FILE as comma-separated values, one line per figure and group ('-': stdout, and no text)
    #[arg(long, value_name = "FILE", conflicts_with = "table")]
    pub csv: Option<PathBuf>,
    /// Write the figures of every run to FILE as comma-separated values, one line per figure, group and run ('-': stdout, and no text)
    #[arg(long, value_name = "FILE", conflicts_with = "table")]
    pub csv_runs: Option<PathBuf>,
    /// Make a table of this figure, or of the quotient A/B of two, from groups named APPLICATION/SETTING=…. The table goes to
    /// FILE of --svg or --html, and no text is printed
    #[arg(long, value_name = "FIGURE", requires = "drawing", conflicts_with_all = ["json", "output"])]
    pub table: Option<String>,
    /// Write the table to FILE as an SVG drawing
    #[arg(long, value_name = "FILE", requires = "table")]
    pub svg: Option<PathBuf>,
    /// Write the comparison to FILE as one page of HTML; with --table, the page also contains that table ('-': stdout, and no text)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
