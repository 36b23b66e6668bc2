//! What is read of cox's report.

use std::path::Path;

use advise::{NextStep, Verdict};
use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::result::{Printed, Told};

/// The part of the JSON of `cox run` that is read here.
#[derive(Debug, Deserialize)]
struct Document {
    verdict: Vec<Verdict>,
    #[serde(default)]
    cpus: Vec<Cpu>,
}

#[derive(Debug, Deserialize)]
struct Cpu {
    #[serde(default)]
    busy_program_ns: u64,
    #[serde(default)]
    busy_others_ns: u64,
    #[serde(default)]
    idle_ns: u64,
}

/// Reads the report in a file. `wall_s`: wall time of the observed run. Returns what it says, and its steps in their order.
///
/// # Errors
/// When the file cannot be read, is not the JSON of this version of cox, or has no verdict.
pub fn read(file: &Path, wall_s: f64) -> Result<(Told, Vec<NextStep>)> {
    let text = std::fs::read_to_string(file).context("cox wrote no report")?;
    told(&text, wall_s)
}

fn told(text: &str, wall_s: f64) -> Result<(Told, Vec<NextStep>)> {
    let document: Document = serde_json::from_str(text).context("cannot parse cox's report")?;
    let Some(verdict) = document.verdict.into_iter().next() else { bail!("cox's report has no verdict") };
    let bound = verdict.sentences.iter().find_map(|sentence| bound(&sentence.text));
    let told = Told {
        headline: verdict.headline,
        confidence: verdict.confidence,
        bound,
        wall_s,
        others: others(&document.cpus),
    };
    Ok((told, verdict.sentences.into_iter().flat_map(|sentence| sentence.next).collect()))
}

fn others(cpus: &[Cpu]) -> f64 {
    let all: u64 = cpus.iter().map(|cpu| cpu.busy_program_ns + cpu.busy_others_ns + cpu.idle_ns).sum();
    let others: u64 = cpus.iter().map(|cpu| cpu.busy_others_ns).sum();
    others as f64 / all.max(1) as f64
}

/// Reads the bound in a sentence, such as `Upper bound of the speed-up by scheduling: 1.3×.` If the sentence also has one for the present load, that
/// one counts, because the changes are measured under this load.
fn bound(sentence: &str) -> Option<Printed> {
    let (_, after) = sentence.split_once("Upper bound of the speed-up")?;
    let after = after.split_once(" at the present load").map_or(after, |(before, _)| before);
    let numbers = after.split('×').filter_map(|before| before.rsplit([' ', ':', '–']).next());
    let mut numbers = numbers.filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    let number = if sentence.contains(" at the present load") { numbers.next_back()? } else { numbers.next()? };
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    Some(Printed { value: number.replace(',', "").parse().ok()?, unit: 0.1_f64.powi(digits as i32) })
}

#[cfg(test)]
mod tests {
    use advise::{Confidence, Kind};

    use super::*;

    #[test]
    fn bounds_are_read_from_their_sentences() {
        let value = |sentence: &str| bound(sentence).map(|printed| (printed.value, (printed.unit * 1e3).round() / 1e3));
        assert_eq!(
            value("The work needs 1 s on 2 CPUs. Upper bound of the speed-up by scheduling: 1.3×."),
            Some((1.3, 0.1))
        );
        assert_eq!(value("Upper bound of the speed-up by scheduling: 1.08×."), Some((1.08, 0.01)));
        let loaded = "Upper bound of the speed-up: 2.3× on idle CPUs, 1.12× at the present load (others took 50 %).";
        assert_eq!(value(loaded), Some((1.12, 0.01)));
        let waits = "Upper bound of the speed-up: 47×, reached only if threads waited for nothing but CPUs.";
        assert_eq!(value(waits), Some((47.0, 1.0)));
        for none in ["On average 1.2 of 2 CPUs did this program's work.", "Upper bound of the speed-up: none"] {
            assert_eq!(bound(none), None);
        }
    }

    #[test]
    fn the_first_verdict_and_the_load_of_others_are_read() {
        let step =
            r#"{"action": "OMP_NUM_THREADS=2", "expected_low": 1.2, "expected_high": 1.4, "bound": 1.5, "topic": "x"}"#;
        let sentence = format!(r#"{{"text": "Said.", "evidence": [], "next": [{step}]}}"#);
        let verdict = format!(r#"{{"headline": "imbalance", "confidence": "high", "sentences": [{sentence}]}}"#);
        let cpu = r#"{"busy_program_ns": 60, "busy_others_ns": 10, "idle_ns": 30}"#;
        let (told, steps) = told(&format!(r#"{{"verdict": [{verdict}], "cpus": [{cpu}]}}"#), 2.0).unwrap();
        assert_eq!((told.headline, told.confidence, told.bound), (Kind::Imbalance, Confidence::High, None));
        assert_eq!((told.others, told.wall_s), (0.1, 2.0));
        assert_eq!(steps[0].expected_high, Some(1.4));
        assert!(super::told(r#"{"verdict": []}"#, 1.0).is_err());
        assert!(super::told("", 1.0).is_err());
    }
}
