//! Quanta and steps as histograms, and what fixed time quanta lost.

use interference::buckets::buckets;
use interference::spectrum::{self, Peak};
use noise::Loop;
use noise::clock::Clock;
use noise::loops::Series;
use report::noise as doc;

/// Decimals of amplitudes in the document: a part of 10⁻⁹ of a quantum is far below what a loop can see.
const PRECISION: f64 = 1e9;

/// What is known about a thread's quanta or steps, for the loops that have them.
#[derive(Debug, Default)]
pub struct Samples {
    pub lengths: Option<Vec<(u64, u64)>>,
    pub quanta: Option<Vec<(u64, u64)>>,
    pub steps: Option<Vec<(u64, u64)>>,
    pub until_barrier: Option<Vec<(u64, u64)>>,
    pub loss: Option<doc::Loss>,
    pub spectrum: Option<doc::Spectrum>,
}

impl Samples {
    /// Returns what the samples of a thread show.
    pub fn of(series: &Series, measuring: Loop, clock: &Clock) -> Samples {
        let histogram = |lengths: &[u64]| Some(buckets(lengths.iter().map(|ticks| clock.length_ns(*ticks))));
        match measuring {
            Loop::Detour => {
                let of_ns = series.lengths.buckets().map(|(ticks, count)| (clock.length_ns(ticks), count));
                Samples { lengths: Some(of_ns.collect()), ..Samples::default() }
            }
            Loop::Fwq(..) => Samples { quanta: histogram(&series.samples), ..Samples::default() },
            Loop::Bsp(_) => Samples {
                steps: histogram(&series.samples),
                until_barrier: histogram(&series.compute),
                ..Samples::default()
            },
            Loop::Ftq(quantum) => {
                let (loss, lost) = lost(&series.samples).unzip();
                let spectrum = lost.and_then(|lost| spectrum::spectrum(&lost, quantum.as_nanos() as f64));
                Samples { loss, spectrum: spectrum.map(in_document), ..Samples::default() }
            }
        }
    }
}

/// Returns how much of the quanta was lost, in sum and of each one; `None` if none of them had any work. `units`: the units of work in each.
fn lost(units: &[u64]) -> Option<(doc::Loss, Vec<f64>)> {
    let most_units = units.iter().copied().max().filter(|most| *most > 0)?;
    let lost: Vec<f64> = units.iter().map(|units| 1.0 - *units as f64 / most_units as f64).collect();
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    let max = lost.iter().copied().fold(0.0, f64::max);
    Some((doc::Loss { most_units, mean, max }, lost))
}

fn in_document(found: spectrum::Spectrum) -> doc::Spectrum {
    let round = |amplitude: &f64| (amplitude * PRECISION).round() / PRECISION;
    let peak = |peak: &Peak| doc::Peak { hz: peak.hz, amplitude: peak.amplitude, above_floor: peak.above_floor };
    doc::Spectrum {
        step_hz: found.step_hz,
        segments: found.segments as u64,
        amplitudes: found.amplitudes.iter().map(round).collect(),
        peaks: found.peaks.iter().map(peak).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_relative_to_the_best_quantum() {
        let (loss, each) = lost(&[100, 75, 100, 0]).unwrap();
        assert_eq!(each, [0.0, 0.25, 0.0, 1.0]);
        assert_eq!(loss, doc::Loss { most_units: 100, mean: 0.3125, max: 1.0 });
        assert_eq!(lost(&[]), None);
        assert_eq!(lost(&[0, 0]), None, "no quantum had work, so nothing is known");
    }
}
