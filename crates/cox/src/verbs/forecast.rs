//! `cox noise forecast`: what noise costs a program on many ranks.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use forecast::causes::merged;
use forecast::{Left, Question, Unanswerable};
use outputs::Output;
use outputs::diagnostics::say;
use report::noise::{ForecastReport, forecast_text};

use crate::faces::{forecast as face, print};
use crate::recordings::noise::{Noise, read};
use crate::recordings::phases;
use crate::{cli, exit};

/// Reads the recordings, computes the forecast, and writes it.
pub fn forecast(options: &cli::Forecast) -> Result<u8> {
    let json = Output::wanted(options.json.as_deref())?;
    let recordings: Vec<Noise> = options.files.iter().map(|file| read(file)).collect::<Result<_>>()?;
    let Some(first) = recordings.first() else { bail!("no recording") };
    let measured = first.recording.cpus.len() as u32;
    let phases = options.phases_of.as_deref().map(phases::read).transpose()?;
    let work_ns = match &phases {
        Some(phases) => phases.works_ns(),
        None if options.work.is_empty() => Question::default_work(first.recording.length_ns),
        None => options.work.iter().map(|work| work.as_nanos() as u64).collect(),
    };
    // In ascending order: the text shows the largest number of ranks last, and is about it.
    let ranks: BTreeSet<u64> = options.ranks.iter().copied().collect();
    let question = Question {
        ranks: ranks.into_iter().collect(),
        ranks_per_node: options.ranks_per_node.unwrap_or(measured),
        work_ns,
        sync_ns: options.sync.as_nanos() as u64,
        seed: options.seed,
    };
    let recording = merged(&first.recording);
    let answer = forecast::forecast(&recording, &question)?;
    let left = |noise: &Noise| noise.cpus_total.saturating_sub(noise.recording.cpus.len() as u32);
    let compared = if recordings.len() > 1 {
        let files: Vec<Left<'_>> = recordings
            .iter()
            .map(|noise| Left { cpus_left: left(noise), cpus_total: noise.cpus_total, recording: &noise.recording })
            .collect();
        // Only for the work that suffers most: the others would make a long table.
        let worst = Question { work_ns: vec![question.work_ns[answer.causes_at]], ..question.clone() };
        match forecast::leave(&files, &worst) {
            Err(wrong @ Unanswerable::SameCpusLeft(_)) => {
                say(&wrong.to_string());
                return Ok(exit::WRONG_OPTIONS);
            }
            compared => compared?,
        }
    } else {
        Vec::new()
    };
    let sources = options.files.iter().zip(&recordings).map(|(file, noise)| face::source(file, noise, left(noise)));
    let report = face::document(sources.collect(), &question, &answer, &compared, &recording.causes);
    let report = ForecastReport { phases_of: options.phases_of.as_deref().zip(phases).map(face::phases_of), ..report };
    let is_alone = !matches!(json, Some(Output::Stdout));
    let text = (is_alone && !options.quiet).then_some(Output::Stdout);
    print(text, false, |style| forecast_text(&report, style) + "\n")?;
    if let Some(output) = json {
        let mut bytes = serde_json::to_vec_pretty(&report)?;
        bytes.push(b'\n');
        output.write(&bytes)?;
    }
    Ok(0)
}
