//! A forecast of noise as a document.

use std::path::Path;

use forecast::{Comparison, Forecast, Kind, Question, Slowdown, Verdict};
use report::noise as doc;

use crate::recordings::noise::Noise;

/// Returns what the document says about a recording.
pub fn source(file: &Path, noise: &Noise, left: u32) -> doc::Source {
    let cpus = &noise.recording.cpus;
    doc::Source {
        file: file.display().to_string(),
        cpus: cpus.iter().map(|cpu| cpu.cpu).collect(),
        left,
        length_ns: noise.recording.length_ns,
        measured_ns: noise.measured_ns,
        detours: cpus.iter().map(|cpu| cpu.detours.len() as u64).sum(),
    }
}

/// Returns what the document says about the program whose phases are the works.
pub fn phases_of((file, phases): (&Path, doc::Phases)) -> doc::PhasesOf {
    doc::PhasesOf { file: file.display().to_string(), count: phases.count, between: phases.between }
}

/// Returns the document.
pub fn document(
    sources: Vec<doc::Source>,
    question: &Question,
    answer: &Forecast,
    compared: &[Comparison],
    causes: &[String],
) -> doc::ForecastReport {
    let slowdowns = |scales: &[Slowdown]| scales.iter().map(slowdown).collect();
    doc::ForecastReport {
        schema_version: doc::FORECAST_SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        sources,
        ranks_per_node: question.ranks_per_node,
        sync_ns: question.sync_ns,
        seed: question.seed,
        phases_of: None,
        works: answer
            .works
            .iter()
            .map(|at| doc::AtWork {
                work_ns: at.work_ns,
                phases: at.phases,
                tail_shape: at.tail_shape,
                scales: slowdowns(&at.scales),
                co_scheduled: slowdown(&at.co_scheduled),
            })
            .collect(),
        worst: answer.worst.clone(),
        causes_at: answer.causes_at,
        without: answer
            .without
            .iter()
            .map(|without| doc::Without {
                cause: causes.get(usize::from(without.cause)).cloned().unwrap_or_default(),
                times: without.times,
                seldom: without.seldom,
                scales: slowdowns(&without.scales),
            })
            .collect(),
        causes_left_out: answer.causes_left_out as u64,
        leave: compared.iter().zip(question.ranks.iter().cycle()).map(leave).collect(),
    }
}

fn slowdown(of: &Slowdown) -> doc::Slowdown {
    doc::Slowdown {
        ranks: of.ranks,
        nodes: of.nodes,
        kind: match of.kind {
            Kind::Measured => "measured",
            Kind::Extrapolated => "extrapolated",
            Kind::None => "none",
        }
        .to_owned(),
        slowdown: of.estimate.map(|estimate| estimate.value),
        interval: of.estimate.map(|estimate| (estimate.low, estimate.high)),
        at_least: of.at_least,
    }
}

/// A comparison, and the number of ranks that it is for: comparisons come by work, then by number of ranks.
fn leave((compared, ranks): (&Comparison, &u64)) -> doc::Leave {
    let choices = compared.choices.iter().map(|choice| doc::LeaveChoice {
        left: choice.cpus_left,
        throughput: choice.throughput.map(|estimate| estimate.value),
        interval: choice.throughput.map(|estimate| (estimate.low, estimate.high)),
        at_most: choice.at_most,
    });
    doc::Leave {
        work_ns: compared.work_ns,
        ranks: *ranks,
        choices: choices.collect(),
        best: match compared.verdict {
            Verdict::Leave(left) => Some(left),
            Verdict::NoSignificantDifference | Verdict::NotDecided => None,
        },
    }
}
