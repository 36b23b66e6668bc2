//! How large the page of a run is, and how long a browser takes to open it: `cox run --html` of one thread and of thousands, beside a page that
//! is nearly empty.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
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

/// What `cox-bench page` understands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench page --seconds 20 --runs 5")]
pub struct Options {
    /// How often each page is opened
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Threads of the larger run
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// How long it runs, seconds
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    #[command(flatten)]
    common: Common,
}

const BYTES_LIMIT: u64 = 5_000_000;
const MS_LIMIT: f64 = 2_000.0;
/// For a browser that does not open a page at all.
const PATIENCE: Duration = Duration::from_secs(60);
const SAID: &str = "opened after ms: ";
/// Two frames after everything was loaded: the first of them has been drawn when the second is asked for. The clock begins with the navigation.
const PROBE: &str = r#"<script>
addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => console.log("opened after ms: " + performance.now()))));
</script></body>"#;
/// What the browser takes for itself.
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

/// Measure and print. 1 if a page is too large, or opens too late beyond doubt.
///
/// # Errors
/// When nothing could be measured, or not be written.
pub fn page(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let browser = in_path("chromium").context("chromium is not installed (Debian: chromium)")?;
    let scratch = tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?;
    let bench = Bench { tools, browser, scratch, interrupt };
    let (threads, seconds) = (options.threads, options.seconds);
    let pages = [
        ("empty".to_owned(), bench.keep("empty", EMPTY)?),
        ("1 thread, 1 s".to_owned(), bench.record("one", 1, 1)?),
        (format!("{threads} threads, {seconds} s"), bench.record("many", threads, seconds)?),
    ];
    let opened = in_turns(pages.len(), options.runs.into(), |at| bench.open(&pages[at].1.file))?;
    let rows = pages.into_iter().zip(opened);
    let rows = rows.map(|((page, kept), opened_ms)| Row { page, bytes: kept.bytes, opened_ms }).collect();
    let report = Report { header: json::Header::new("page")?, rows };
    options.common.print(&table(&report.rows))?;
    options.common.write(&report)?;
    Ok(u8::from(report.rows.iter().any(Row::is_too_much)))
}

/// A page that tells when it is open.
struct Kept {
    file: PathBuf,
    /// Without the probe.
    bytes: u64,
}

struct Bench<'a> {
    tools: Tools,
    browser: PathBuf,
    scratch: TempDir,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// The page of so many threads that meet at barriers.
    fn record(&self, name: &str, threads: u32, seconds: u32) -> Result<Kept> {
        self.interrupt.check()?;
        eprintln!("cox-bench: page: {threads} threads for {seconds} s");
        let file = self.scratch.path().join("page.html");
        let mut cox = Command::new(self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?);
        cox.args(["run", "--quiet", "--html"]).arg(&file).arg("--").arg(self.tools.workload("barriers")?);
        cox.args(["--threads", &threads.to_string(), "--seconds", &seconds.to_string()]);
        let limit = PATIENCE + Duration::from_secs(2 * u64::from(seconds));
        let ended = run_within(cox.stdin(Stdio::null()).stdout(Stdio::null()), limit, || self.interrupt.is_set());
        let ended = ended.context("cannot start cox")?;
        self.interrupt.check()?;
        if !ended.status.success() {
            bail!("{cox:?}: {}", ending(ended.status));
        }
        self.keep(name, &fs::read_to_string(&file).context("cox has written no page")?)
    }

    fn keep(&self, name: &str, page: &str) -> Result<Kept> {
        let file = self.scratch.path().join(name).with_extension("html");
        fs::write(&file, page.replace("</body>", PROBE)).context("cannot write a page")?;
        Ok(Kept { file, bytes: page.len() as u64 })
    }

    /// Milliseconds from asking for a page until it was drawn.
    fn open(&self, page: &Path) -> Result<f64> {
        self.interrupt.check()?;
        let said = self.scratch.path().join("said");
        let mut browser = Command::new(&self.browser);
        browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        browser.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        browser.args(["--window-size=1280,1000", "--enable-logging=stderr", "--timeout=30000"]);
        // Only who takes a picture draws.
        browser.arg(format!("--screenshot={}", self.scratch.path().join("picture.png").display()));
        browser.arg(format!("--user-data-dir={}", self.scratch.path().join("profile").display()));
        browser.arg(format!("file://{}", page.display())).stdin(Stdio::null()).stdout(Stdio::null());
        let log = fs::File::create(&said).context("cannot write what the browser says")?;
        let ended = run_within(browser.stderr(log), PATIENCE, || self.interrupt.is_set());
        let ended = ended.context("cannot start chromium")?;
        self.interrupt.check()?;
        let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
        opened_ms(&said)
            .with_context(|| format!("chromium has not opened {} ({})", page.display(), ending(ended.status)))
    }
}

/// What the probe has said, among all that a browser says.
fn opened_ms(said: &str) -> Option<f64> {
    let (_, after) = said.split_once(SAID)?;
    after.split(['"', ',', ' ']).next()?.parse().ok()
}

impl Row {
    fn opened(&self) -> Estimate {
        median_estimate(&self.opened_ms)
    }

    fn is_too_much(&self) -> bool {
        self.bytes > BYTES_LIMIT || at_most(&self.opened(), MS_LIMIT) == Outcome::Fail
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:24}{:>8}  opened after ms (median, 95 % interval)\n", "page of", "KB");
    for row in rows {
        let mark = if row.is_too_much() { "  !" } else { "" };
        text.push_str(&format!("{:24}{:>8}  {}{mark}\n", row.page, row.bytes / 1_000, table::whole(&row.opened())));
    }
    text + &format!("limits: {} KB, {MS_LIMIT:.0} ms\n", BYTES_LIMIT / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_heard_among_other_words() {
        assert!(PROBE.contains(SAID));
        let said = "[1:2:3] WARNING: no GPU\n[1:2:4:INFO:CONSOLE:7] \"opened after ms: 512.4000000059\", source: file:///x (7)\n";
        assert_eq!(opened_ms(said), Some(512.400_000_005_9));
        assert_eq!(opened_ms("[1:2:3] WARNING: no GPU"), None);
    }

    #[test]
    fn too_large_or_too_late_is_marked() {
        let row = |bytes, ms: f64| Row { page: String::new(), bytes, opened_ms: vec![ms; 9] };
        assert!(!row(BYTES_LIMIT, MS_LIMIT).is_too_much());
        assert!(row(BYTES_LIMIT + 1, 1.0).is_too_much() && row(1, MS_LIMIT + 1.0).is_too_much());
        assert!(table(&[row(1, 3_000.0)]).contains("3000 (3000 .. 3000)  !"));
    }
}
