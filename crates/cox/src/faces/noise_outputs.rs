//! The outputs of `cox noise`: text, JSON, and files for other tools.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use machine::CpuSet;
use outputs::{Output, of_cpu, refuse_same};
use report::html;
use report::noise::{Cpu, NoiseReport};
use trace::{hlog, netgauge, noise, paraver, perfetto};

use super::print;
use super::traces::{ENDINGS, with_ending};
use crate::cli::{self, LoopChoice};

/// Length of an interval of a `.hlog` file, ms.
const INTERVAL_MS: u64 = 1000;

/// Destinations, opened before the measurement.
pub struct Outputs {
    text: bool,
    json: Option<Output>,
    html: Option<Output>,
    hlog: Option<Output>,
    trace: Option<Output>,
    paraver: Option<[Output; 3]>,
    /// A file for each CPU, because netgauge's format knows none.
    netgauge: Vec<Output>,
}

impl Outputs {
    /// Opens the outputs that the options name.
    ///
    /// # Errors
    /// If an output cannot be written, or if several would be the same file.
    pub fn open(options: &cli::Noise, cpus: &CpuSet) -> Result<Outputs> {
        let netgauge = match &options.netgauge {
            Some(path) => {
                let (files, named): (Vec<PathBuf>, Vec<bool>) = cpus.iter().map(|cpu| of_cpu(path, cpu)).unzip();
                if files.len() > 1 && named.contains(&false) {
                    bail!(
                        "--netgauge {}: one file for each CPU is written, so the name must contain %c",
                        path.display()
                    );
                }
                files
            }
            None => Vec::new(),
        };
        let of_paraver = |ending: &str| options.paraver.as_deref().map(|prefix| with_ending(prefix, ending));
        let named = [
            ("--json", options.json.clone()),
            ("--html", options.html.clone()),
            ("--hlog", options.hlog.clone()),
            ("--trace", options.trace.clone()),
        ];
        let of_paraver = ENDINGS.map(|ending| ("--paraver", of_paraver(ending)));
        let named = named.into_iter().chain(of_paraver);
        refuse_same(named.chain(netgauge.iter().map(|file| ("--netgauge", Some(file.clone())))))?;
        let outputs = Outputs {
            text: !options.quiet,
            json: Output::wanted(options.json.as_deref())?,
            html: Output::wanted(options.html.as_deref())?,
            hlog: Output::wanted(options.hlog.as_deref())?,
            trace: Output::wanted(options.trace.as_deref())?,
            paraver: match &options.paraver {
                Some(prefix) => {
                    let [prv, pcf, row] = ENDINGS.map(|ending| Output::open(Some(&with_ending(prefix, ending))));
                    Some([prv?, pcf?, row?])
                }
                None => None,
            },
            netgauge: netgauge.iter().map(|file| Output::open(Some(file))).collect::<Result<_>>()?,
        };
        // A program that reads stdout gets what was asked for there, and no text before it.
        Ok(Outputs { text: outputs.text && !outputs.take_stdout(), ..outputs })
    }

    /// Refuses files of detours from a loop that finds none: without any, they would say that the machine is silent.
    ///
    /// # Errors
    /// The option and why it cannot be carried out.
    pub fn check(options: &cli::Noise) -> Result<()> {
        let of_detours = [
            ("--trace", options.trace.is_some()),
            ("--paraver", options.paraver.is_some()),
            ("--hlog", options.hlog.is_some()),
            ("--netgauge", options.netgauge.is_some()),
        ];
        match of_detours.iter().find(|(_, is_given)| *is_given && options.measuring == LoopChoice::Ftq) {
            Some((option, _)) => bail!("{option}: --loop ftq finds no detours; use --loop detour or fwq"),
            None => Ok(()),
        }
    }

    /// Returns whether one of the files is stdout.
    fn take_stdout(&self) -> bool {
        let files = self.json.iter().chain(&self.html).chain(&self.hlog).chain(&self.trace);
        let mut all = files.chain(self.paraver.iter().flatten()).chain(&self.netgauge);
        all.any(|output| matches!(output, Output::Stdout))
    }

    /// Writes all outputs. A failure of one does not stop the others.
    ///
    /// # Errors
    /// The first failure.
    pub fn write(self, report: &NoiseReport) -> Result<()> {
        let text = self.text.then_some(Output::Stdout);
        let mut done = print(text, false, |style| report::noise::text(report, style) + "\n");
        done = done.and(self.json.map_or(Ok(()), |output| output.write(&of_json(report)?)));
        done = done.and(self.html.map_or(Ok(()), |output| output.write(html::noise(report).as_bytes())));
        done = done.and(self.hlog.map_or(Ok(()), |output| output.write(&of_intervals(report)?)));
        let is_shown = self.trace.is_some() || self.paraver.is_some();
        let shown = if is_shown { shown(report) } else { noise::Noise::default() };
        done = done.and(self.trace.map_or(Ok(()), |output| {
            let mut bytes = Vec::new();
            perfetto::noise::write(&shown, &mut bytes).context("cannot make the trace")?;
            output.write(&bytes)
        }));
        done = done.and(self.paraver.map_or(Ok(()), |[prv, pcf, row]| {
            let (mut records, mut meanings, mut names) = (Vec::new(), Vec::new(), Vec::new());
            paraver::noise::write(&shown, &mut records, &mut meanings, &mut names).context("cannot make the trace")?;
            prv.write(&records).and(pcf.write(&meanings)).and(row.write(&names))
        }));
        for (output, cpu) in self.netgauge.into_iter().zip(&report.cpus) {
            let written = of_netgauge(report, cpu).and_then(|bytes| output.write(&bytes));
            done = done.and(written);
        }
        done
    }
}

/// Returns what viewers show.
fn shown(report: &NoiseReport) -> noise::Noise {
    // The other clocks are those of now, less the time since the begin.
    let (monotonic, boot, real) = arch::clock::three_at_once();
    let since = monotonic.saturating_sub(report.measurement.begin_ns);
    let ends = report.cpus.iter().map(|cpu| cpu.begin_ns + cpu.listed_ns());
    let of_cpu = |cpu: &Cpu| noise::Cpu {
        cpu: cpu.cpu,
        // Of a quantum, only what it took too long is a detour.
        detours: cpu.detours.iter().map(|(start, length, cause)| (*start, cpu.lost_ns(*length), *cause)).collect(),
    };
    noise::Noise {
        begin_ns: [report.measurement.begin_ns, boot.saturating_sub(since), real.saturating_sub(since)],
        length_ns: ends.max().unwrap_or(0),
        causes: report.causes.iter().map(|cause| (cause.name.clone(), cause.class.clone())).collect(),
        cpus: report.cpus.iter().map(of_cpu).collect(),
    }
}

fn of_json(report: &NoiseReport) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(report).context("cannot make the JSON")?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the start of each detour from the begin of its CPU's measurement, and its length. Of quanta, only what they took too long.
fn detours(cpu: &Cpu) -> impl Iterator<Item = (u64, u64)> + '_ {
    cpu.detours.iter().map(|(start, length, _)| (start.saturating_sub(cpu.begin_ns), cpu.lost_ns(*length)))
}

fn of_netgauge(report: &NoiseReport, cpu: &Cpu) -> Result<Vec<u8>> {
    let of = &report.measurement;
    let gap_ns = of.smallest_gap_ns.max(1);
    let facts = netgauge::Facts {
        loop_ps: Some(gap_ns * 1000),
        iterations: Some(cpu.readings),
        threshold_percent: Some(of.threshold_ns * 100 / gap_ns),
        period_ns: Some(cpu.listed_ns()),
        comments: vec![format!("cox {}, CPU {}", report.cox_version, cpu.cpu)],
    };
    let mut bytes = Vec::new();
    netgauge::write(&mut bytes, detours(cpu), &facts).context("cannot make the noise trace")?;
    Ok(bytes)
}

/// The `.hlog` file: an interval of each CPU in turn, with the CPU as its tag.
fn of_intervals(report: &NoiseReport) -> Result<Vec<u8>> {
    let head = hlog::Head { comments: vec![format!("cox {}", report.cox_version)], ..hlog::Head::default() };
    let of_cpu = |cpu: &Cpu| {
        let tag = format!("cpu{}", cpu.cpu);
        hlog::split(&tag, detours(cpu).collect::<Vec<_>>(), cpu.listed_ns(), INTERVAL_MS).collect::<Vec<_>>()
    };
    let mut intervals: Vec<hlog::Interval> = report.cpus.iter().flat_map(of_cpu).collect();
    intervals.sort_by_key(|interval| interval.start_ms);
    let mut bytes = Vec::new();
    hlog::write(&mut bytes, &head, intervals).context("cannot make the interval log")?;
    Ok(bytes)
}
