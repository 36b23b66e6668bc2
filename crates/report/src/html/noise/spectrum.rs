//! The amplitude spectrum of the loss in each quantum, with its peaks.

use advise::numbers::{count, counted};

use super::super::plot::{self, LEFT, WIDTH};
use super::super::{scale, table};
use crate::markup::{Markup, Safe};
use crate::noise::{Cpu, Spectrum, small_percent};
use crate::style::Style;
use crate::table::{Align, Table};

const HEIGHT: u64 = 220;
/// Room for the names of peaks, pixels.
const TOP: u64 = 20;
const AXIS: u64 = 38;
/// Width of the curve. The rest is room for the last mark's name.
const PLOT: u64 = WIDTH - LEFT - 20;
/// The smallest amplitude that is drawn, as a part of the largest one.
const LEAST: f64 = 1e-4;
/// Two names of peaks have at least this distance, pixels.
const APART: f64 = 64.0;

pub(super) fn write(out: &mut Markup, cpu: &Cpu) {
    let Some(spectrum) = &cpu.spectrum else {
        if cpu.loss.is_some() {
            out.push_str("<p class=\"none\">There are too few quanta for a spectrum.</p>\n");
        }
        return;
    };
    let last_hz = spectrum.step_hz * (spectrum.amplitudes.len().saturating_sub(1)).max(1) as f64;
    let note = format!(
        "How much the loss of a quantum varies at each frequency, on a logarithmic scale; the mean of {}, frequencies {:.2} Hz apart. \
         A disturbance of more than {} Hz appears at a lower frequency: a shorter --quantum shows it.",
        counted(spectrum.segments, "segment"),
        spectrum.step_hz,
        count(last_hz as u64)
    );
    plot::caption(out, "Periodic disturbances", &note);
    let says = "amplitude spectrum of the loss; the table below names its peaks";
    let (bottom, height) = (TOP + HEIGHT, TOP + HEIGHT + AXIS);
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{says}\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{says}\">\
         <rect class=\"ground\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{PLOT}\" height=\"{HEIGHT}\"/>"
    );
    let most = spectrum.amplitudes.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let least = most * LEAST;
    let y = |amplitude: f64| {
        let part = (amplitude.max(least) / least).ln() / (most / least).ln();
        bottom as f64 - part * HEIGHT as f64
    };
    let x = |hz: f64| LEFT as f64 + hz / last_hz * PLOT as f64;
    out.push_str("<g class=\"axis\">");
    let first = least.log10().ceil() as i32;
    for amplitude in (first..first + 4).map(|power| 10_f64.powi(power)) {
        plot::line(out, (LEFT, PLOT), y(amplitude), &small_percent(amplitude));
    }
    let step = scale::step(last_hz, 9.0);
    let decimals = if step >= 1.0 { 0 } else { 1 };
    for hz in (0..=(last_hz / step * 1.0001) as u64).map(|mark| mark as f64 * step) {
        let x = x(hz);
        write!(out, "<path d=\"M{x:.1} {bottom}v5\"/><text x=\"{x:.1}\" y=\"{}\">{hz:.decimals$}</text>", bottom + 16);
    }
    writeln!(out, "<text x=\"{}\" y=\"{}\">frequency, Hz</text></g>", LEFT + PLOT / 2, bottom + 33);
    let mut path = Markup::default();
    for (at, (hz, amplitude)) in drawn(spectrum).into_iter().enumerate() {
        write!(path, "{}{:.1} {:.1}", if at == 0 { "M" } else { "L" }, x(hz), y(amplitude));
    }
    writeln!(out, "<path class=\"curve\" d=\"{}\"/>", path.0);
    name_peaks(out, spectrum, x);
    out.push_str("</svg></div></figure>\n");
    peaks(out, spectrum);
}

/// Returns the points of the curve. If there are more frequencies than pixels, each point is the largest amplitude of several.
fn drawn(spectrum: &Spectrum) -> Vec<(f64, f64)> {
    let each = spectrum.amplitudes.len().div_ceil(PLOT as usize).max(1);
    let largest = |(at, part): (usize, &[f64])| {
        let (place, amplitude) =
            part.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or((0, 0.0), |(at, a)| (at, *a));
        ((at * each + place) as f64 * spectrum.step_hz, amplitude)
    };
    spectrum.amplitudes.chunks(each).enumerate().map(largest).collect()
}

/// Writes the frequencies of peaks above the picture, the largest first, as far as there is room.
fn name_peaks(out: &mut Markup, spectrum: &Spectrum, x: impl Fn(f64) -> f64) {
    let mut named: Vec<f64> = Vec::new();
    out.push_str("<g class=\"axis\">");
    for peak in &spectrum.peaks {
        let at = x(peak.hz).min((WIDTH - 34) as f64);
        if named.iter().all(|other| (other - at).abs() >= APART) {
            named.push(at);
            write!(
                out,
                "<path d=\"M{:.1} {}v5\"/><text x=\"{at:.1}\" y=\"{}\">{:.1} Hz</text>",
                x(peak.hz),
                TOP - 5,
                TOP - 8,
                peak.hz
            );
        }
    }
    out.push_str("</g>\n");
}

fn peaks(out: &mut Markup, spectrum: &Spectrum) {
    if spectrum.peaks.is_empty() {
        writeln!(out, "<p>{}</p>", Safe(spectrum.sentence()));
        return;
    }
    let style = Style::default();
    let mut listed = Table::new(&style);
    listed.column("frequency", Align::Right, 0, spectrum.peaks.iter().map(|peak| format!("{:.1} Hz", peak.hz)));
    listed.column("amplitude", Align::Right, 0, spectrum.peaks.iter().map(|peak| small_percent(peak.amplitude)));
    listed.column(
        "above the floor",
        Align::Right,
        0,
        spectrum.peaks.iter().map(|peak| format!("{:.0}×", peak.above_floor)),
    );
    table::write(out, &listed, "");
    out.push_str("<p class=\"detail\">The amplitude is a part of a quantum. The floor is the median of the frequencies around the peak. \
                  A short disturbance has peaks also at multiples of its frequency.</p>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_keeps_the_largest_amplitudes() {
        let mut amplitudes = vec![0.001; 4_097];
        amplitudes[1_234] = 0.5;
        let points = drawn(&Spectrum { step_hz: 0.5, segments: 7, amplitudes, peaks: Vec::new() });
        assert!(points.len() <= PLOT as usize, "{}", points.len());
        assert!(points.contains(&(617.0, 0.5)), "at its frequency");
    }
}
