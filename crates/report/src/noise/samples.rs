//! What the equal intervals of fixed time quanta show: how much of them was lost, and what is periodic.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of frequencies in a sentence.
const NAMED: usize = 3;

/// How much of the quanta was lost. Of a quantum with `w` units of work, `1 - w / most_units` is lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Most units of work in a quantum.
    pub most_units: u64,
    /// Mean loss, as a part of a quantum.
    pub mean: f64,
    /// Largest loss, as a part of a quantum.
    pub max: f64,
}

/// The amplitude spectrum of the loss in each quantum. Amplitudes are parts of a quantum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spectrum {
    /// Distance of two frequencies, Hz.
    pub step_hz: f64,
    /// Number of segments that were averaged (Welch's method: Hann window, one half of overlap).
    pub segments: u64,
    /// Amplitude at each frequency, from 0 to half the rate of the quanta. Disturbances of higher frequencies appear at lower ones.
    pub amplitudes: Vec<f64>,
    /// The largest peaks, the largest first; at most 8.
    pub peaks: Vec<Peak>,
}

/// A frequency at which the loss varies more than at the frequencies around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// Its frequency, Hz.
    pub hz: f64,
    /// The amplitude of a sine that has this peak, as a part of a quantum.
    pub amplitude: f64,
    /// How many times the median amplitude around it.
    pub above_floor: f64,
}

impl Spectrum {
    /// Names the largest peaks: `periodic: 250.0 Hz (0.21 % of a quantum), 500.0 Hz (0.10 %)`.
    pub(crate) fn sentence(&self) -> String {
        let named = |(at, peak): (usize, &Peak)| {
            let unit = if at == 0 { " of a quantum" } else { "" };
            format!("{:.1} Hz ({}{unit})", peak.hz, small_percent(peak.amplitude))
        };
        let named: Vec<String> = self.peaks.iter().take(NAMED).enumerate().map(named).collect();
        if named.is_empty() {
            "periodic: nothing stands out".to_owned()
        } else {
            format!("periodic: {}", named.join(", "))
        }
    }
}

/// Formats a share that may be far below one percent: `12.3 %`, `0.21 %`, `0.0042 %`.
pub(crate) fn small_percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals =
        if percent >= 9.95 || percent <= 0.0 { 1 } else { (1.0 - percent.log10().floor()).clamp(1.0, 6.0) as usize };
    format!("{percent:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_keep_two_digits() {
        let shares = [0.0, 0.000_000_42, 0.000_042, 0.002_1, 0.099_4, 0.123, 1.0];
        assert_eq!(
            shares.map(small_percent),
            ["0.0 %", "0.000042 %", "0.0042 %", "0.21 %", "9.9 %", "12.3 %", "100.0 %"]
        );
    }

    #[test]
    fn the_largest_peaks_are_named() {
        let peak = |hz, amplitude| Peak { hz, amplitude, above_floor: 20.0 };
        let peaks = vec![peak(250.02, 0.0021), peak(499.98, 0.001), peak(100.0, 0.0005), peak(1.0, 0.0001)];
        let mut spectrum = Spectrum { step_hz: 1.0, segments: 7, amplitudes: Vec::new(), peaks };
        assert_eq!(
            spectrum.sentence(),
            "periodic: 250.0 Hz (0.21 % of a quantum), 500.0 Hz (0.10 %), 100.0 Hz (0.050 %)"
        );
        spectrum.peaks.clear();
        assert_eq!(spectrum.sentence(), "periodic: nothing stands out");
    }
}
