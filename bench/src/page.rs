//! The size of a run's HTML page, and how long a browser takes to open it: pages of `cox run --html` for one thread and for thousands, compared with
//! a nearly empty page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use ledger::summary;
use report::Document;
use serde::Serialize;
use tempfile::TempDir;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::process::{ending, run_within};
use crate::rounds::in_turns;
use crate::stats::{Estimate, median_estimate};
use crate::table;
use crate::tools::{Tools, in_path};
use crate::verdict::{Outcome, at_most};

/// Options of `cox-bench page`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  cox-bench page --seconds 20 --runs 6\n\nExit codes: 0 no limit was exceeded, 1 a limit was exceeded, 125 not measured"
)]
pub struct Options {
    /// How many times each page is opened; a verdict needs at least 6
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Threads of the larger run
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Duration of the larger run, seconds
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    #[command(flatten)]
    common: Common,
}

const BYTES_LIMIT: u64 = 5_000_000;
const MS_LIMIT: f64 = 2_000.0;
/// Time limit for a browser that does not open a page at all.
const PATIENCE: Duration = Duration::from_secs(60);
const SAID: &str = "opened after (ms): ";
/// A script that reports the time from the navigation until the page is open, in ms. The page counts as open when the second frame after the load
/// event begins: the first frame has then been laid out and submitted for drawing.
const PROBE: &str = r#"<script>
addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => console.log("opened after (ms): " + performance.now()))));
</script></body>"#;
/// A nearly empty page: it measures the browser's own time.
const EMPTY: &str = "<!doctype html><html lang=en><title>empty</title><body><p>Nothing.</p></body></html>";

#[derive(Debug, Serialize)]
struct Row {
    page: String,
    bytes: u64,
    opened_ms: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    rows: Vec<Row>,
}

/// Measures all pages and prints the results. Returns 1 if a page is too large, or significantly too slow to open.
///
/// # Errors
/// When a page cannot be measured, or the results cannot be written.
pub fn page(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let browser = in_path("chromium").context("chromium is not installed (Debian: chromium)")?;
    let scratch = tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?;
    let bench = Bench { tools, browser, scratch, interrupt };
    let (threads, seconds) = (options.threads, options.seconds);
    let empty = bench.keep("empty", EMPTY)?;
    // Check that the browser works before minutes are spent on recording.
    if bench.open(&empty.file)?.is_none() {
        bail!("chromium did not open an empty page; its last message: {}", bench.last_words());
    }
    let pages = [
        ("empty".to_owned(), empty),
        ("1 thread, 1 s".to_owned(), bench.record("one", 1, 1)?),
        (format!("{threads} threads, {seconds} s"), bench.record("many", threads, seconds)?),
    ];
    let opened = in_turns(pages.len(), options.runs.into(), |at| {
        // If a page did not open, its time counts as the time limit, which is a lower bound.
        Ok(bench.open(&pages[at].1.file)?.unwrap_or(PATIENCE.as_secs_f64() * 1e3))
    })?;
    let rows = pages.into_iter().zip(opened);
    let rows = rows.map(|((page, kept), opened_ms)| Row { page, bytes: kept.bytes, opened_ms }).collect();
    let report = Report { header: json::Header::new("page")?, rows };
    options.common.print(&table(&report.rows))?;
    options.common.write(&report)?;
    Ok(u8::from(report.rows.iter().any(Row::is_too_much)))
}

/// A file with an HTML page to which the probe (the script that reports the opening time) was added.
struct Kept {
    file: PathBuf,
    /// Size of the page without the added script, in bytes.
    bytes: u64,
}

struct Bench<'a> {
    tools: Tools,
    browser: PathBuf,
    scratch: TempDir,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Runs `threads` threads that wait for each other at barriers under `cox run --html`, and keeps the HTML page of this run.
    fn record(&self, name: &str, threads: u32, seconds: u32) -> Result<Kept> {
        self.interrupt.check()?;
        eprintln!("cox-bench: page: {threads} threads for {seconds} s");
        let [file, json] = ["cox.html", "json"].map(|kind| self.scratch.path().join(format!("{name}.{kind}")));
        let mut cox = Command::new(self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?);
        cox.args(["run", "--quiet", "--html"]).arg(&file).arg("--json").arg(&json);
        cox.arg("--").arg(self.tools.workload("barriers")?);
        cox.args(["--threads", &threads.to_string(), "--seconds", &seconds.to_string()]);
        let limit = PATIENCE + Duration::from_secs(2 * u64::from(seconds));
        let ended = run_within(cox.stdin(Stdio::null()).stdout(Stdio::null()), limit, || self.interrupt.is_set());
        let ended = ended.context("cannot start cox")?;
        self.interrupt.check()?;
        if !ended.status.success() {
            bail!("{cox:?}: {}", ending(ended.status));
        }
        let account = fs::read(&json).context("cannot read cox's JSON account")?;
        let document: Document = serde_json::from_slice(&account).context("cannot parse cox's JSON account")?;
        // Tolerate that some pairs of a waking and a woken thread are missing: thousands of threads make millions of such pairs, more than the table
        // holds.
        let (seen, lost) = (summary::threads(&document.account).count(), &document.account.lost);
        if seen != threads as usize || lost.trace_events > 0 || lost.spoil_accounts() {
            bail!("the page is incomplete: {seen} of {threads} threads, losses: {lost:?}");
        }
        self.keep(name, &fs::read_to_string(&file).context("cannot read cox's HTML page")?)
    }

    fn keep(&self, name: &str, page: &str) -> Result<Kept> {
        let file = self.scratch.path().join(name).with_extension("html");
        fs::write(&file, page.replace("</body>", PROBE))
            .context("cannot write the copy of the page that contains the timing script")?;
        Ok(Kept { file, bytes: page.len() as u64 })
    }

    /// Returns the milliseconds from the navigation to the page's second frame, or `None` if that frame never began.
    fn open(&self, page: &Path) -> Result<Option<f64>> {
        self.interrupt.check()?;
        let mut browser = Command::new(&self.browser);
        browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        browser.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        browser.args(["--window-size=1280,1000", "--enable-logging=stderr"]);
        // A screenshot forces the browser to draw.
        browser.arg(format!("--screenshot={}", self.scratch.path().join("picture.png").display()));
        browser.arg(format!("--user-data-dir={}", self.scratch.path().join("profile").display()));
        browser.arg(format!("file://{}", page.display())).stdin(Stdio::null()).stdout(Stdio::null());
        let log = fs::File::create(self.log()).context("cannot create the browser's log")?;
        run_within(browser.stderr(log), PATIENCE, || self.interrupt.is_set()).context("cannot start chromium")?;
        self.interrupt.check()?;
        Ok(opened_ms(&self.said()))
    }

    fn log(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// Returns the browser's log.
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    fn last_words(&self) -> String {
        self.said().lines().last().unwrap_or("nothing").to_owned()
    }
}

/// Finds the probe's message in the browser's log.
fn opened_ms(said: &str) -> Option<f64> {
    let (_, after) = said.split_once(SAID)?;
    after.split(['"', ',', ' ']).next()?.parse().ok()
}

impl Row {
    fn opened(&self) -> Estimate {
        median_estimate(&self.opened_ms)
    }

    fn in_time(&self) -> Outcome {
        at_most(&self.opened(), MS_LIMIT)
    }

    fn is_too_much(&self) -> bool {
        self.bytes > BYTES_LIMIT || self.in_time() == Outcome::Fail
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:24}{:>8}  ms to open the page (median, 95 % interval)\n", "page of", "KB");
    for row in rows {
        let mark = match row.in_time() {
            _ if row.is_too_much() => "  !",
            Outcome::Pass => "",
            _ => "  ?",
        };
        text.push_str(&format!("{:24}{:>8}  {}{mark}\n", row.page, row.bytes / 1_000, table::whole(&row.opened())));
    }
    text + &format!(
        "limits: {} KB, {MS_LIMIT:.0} ms; '!' marks a value beyond a limit, '?' an undecided one\n",
        BYTES_LIMIT / 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_heard_among_other_words() {
        assert!(PROBE.contains(SAID));
        let said = "[1:2:3] WARNING: no GPU\n[1:2:4:INFO:CONSOLE:7] \"opened after (ms): 512.4000000059\", source: file:///x (7)\n";
        assert_eq!(opened_ms(said), Some(512.400_000_005_9));
        assert_eq!(opened_ms("[1:2:3] WARNING: no GPU"), None);
    }

    #[test]
    fn too_large_or_too_late_is_marked() {
        let row = |bytes, ms: f64| Row { page: String::new(), bytes, opened_ms: vec![ms; 9] };
        assert!(!row(BYTES_LIMIT, MS_LIMIT).is_too_much());
        assert!(row(BYTES_LIMIT + 1, 1.0).is_too_much() && row(1, MS_LIMIT + 1.0).is_too_much());
        assert!(table(&[row(1, 3_000.0)]).contains("3000 (3000 .. 3000)  !\n"));
        assert!(table(&[row(1, 1_000.0)]).contains("1000 (1000 .. 1000)\n"));
        let few = Row { opened_ms: vec![3_000.0; 5], ..row(1, 0.0) };
        assert!(!few.is_too_much() && table(&[few]).contains("3000 (too few)  ?\n"));
    }
}
