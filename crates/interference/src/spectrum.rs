//! The amplitude spectrum of samples that are evenly spaced in time, and its peaks: what disturbs a loop periodically, and how often.
//!
//! Welch's method: the samples are divided into segments that overlap by one half; each segment loses its mean, is weighted with a Hann window and
//! transformed; the powers are averaged over the segments. A sine of amplitude `a` shows as `a`, at its frequency.
//!
//! A periodic disturbance is shorter than its period, so it has harmonics. Those above half the sampling rate appear at wrong, lower frequencies.

/// Longest segment, samples.
const LONGEST: usize = 8192;
/// Shortest segment, samples: with fewer, no peak could stand out.
const SHORTEST: usize = 32;
/// The series has at least this many segment lengths, so at least seven segments that overlap by one half.
const LENGTHS: usize = 4;
/// How often a spectrum of noise may have a peak.
const FALSE_PEAKS: f64 = 1e-3;
/// How many segments count as one independent spectrum: they overlap, and disturbances come in bursts, so that a few segments have most of the power.
const SEGMENTS_PER_SPECTRUM: f64 = 2.0;
/// Bins to each side, whose median is the floor.
const AROUND: usize = 32;
/// Largest number of peaks.
const PEAKS: usize = 8;
/// Noise bandwidth of the Hann window, bins.
const BANDWIDTH: f64 = 1.5;
/// Bins that the main lobe of the Hann window reaches to each side.
const LOBE: usize = 2;
/// Largest ratio to the floor that is stated: a series without noise has a floor of rounding errors.
const MOST_ABOVE: f64 = 1e6;

/// An amplitude spectrum.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// Distance of two frequencies, Hz. The first one is 0.
    pub step_hz: f64,
    /// Number of segments that were averaged.
    pub segments: usize,
    /// Amplitude at each frequency, in the unit of the samples.
    pub amplitudes: Vec<f64>,
    /// The largest peaks, the largest first.
    pub peaks: Vec<Peak>,
}

/// A frequency at which the samples vary more than at the frequencies around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Its frequency, interpolated between the spectrum's frequencies, Hz.
    pub hz: f64,
    /// The amplitude of a sine that has this peak, in the unit of the samples.
    pub amplitude: f64,
    /// How many times the median amplitude around it.
    pub above_floor: f64,
}

/// Returns the spectrum of samples that are `interval_ns` apart; `None` if there are too few.
#[must_use]
pub fn spectrum(samples: &[f64], interval_ns: f64) -> Option<Spectrum> {
    let most = samples.len() / LENGTHS;
    if most < SHORTEST || interval_ns <= 0.0 {
        return None;
    }
    let length = (1_usize << most.ilog2()).min(LONGEST);
    let window: Vec<f64> = (0..length).map(|at| hann(at, length)).collect();
    let gain: f64 = window.iter().sum();
    let half = length / 2;
    let mut power = vec![0.0; half + 1];
    let mut segments = 0_u32;
    for begin in (0..=samples.len() - length).step_by(half) {
        let segment = &samples[begin..begin + length];
        let mean = segment.iter().sum::<f64>() / length as f64;
        let mut values: Vec<[f64; 2]> =
            segment.iter().zip(&window).map(|(value, weight)| [(value - mean) * weight, 0.0]).collect();
        transform(&mut values);
        power.iter_mut().zip(&values).for_each(|(sum, [re, im])| *sum += re * re + im * im);
        segments += 1;
    }
    // Each frequency but the first and the last one stands for two: itself and its negative.
    let sides = |at: usize| if at == 0 || at == half { 1.0 } else { 2.0 };
    let amplitudes: Vec<f64> =
        power.iter().enumerate().map(|(at, sum)| (sum / f64::from(segments)).sqrt() * sides(at) / gain).collect();
    let step_hz = 1e9 / interval_ns / length as f64;
    Some(Spectrum {
        step_hz,
        segments: segments as usize,
        peaks: peaks(&amplitudes, step_hz, threshold(segments, half)),
        amplitudes,
    })
}

fn hann(at: usize, length: usize) -> f64 {
    let turn = std::f64::consts::TAU * at as f64 / length as f64;
    0.5 - 0.5 * turn.cos()
}

/// Fourier transform of a power of two of complex numbers (real, imaginary), in place: radix 2, decimation in time (Cooley and Tukey 1965).
fn transform(values: &mut [[f64; 2]]) {
    let length = values.len();
    debug_assert!(length.is_power_of_two());
    if length < 2 {
        return;
    }
    let unused = usize::BITS - length.ilog2();
    for at in 0..length {
        let mirrored = at.reverse_bits() >> unused;
        if at < mirrored {
            values.swap(at, mirrored);
        }
    }
    let mut size = 2;
    while size <= length {
        let turn = -std::f64::consts::TAU / size as f64;
        let twiddles: Vec<(f64, f64)> = (0..size / 2).map(|at| (turn * at as f64).sin_cos()).collect();
        for block in values.chunks_exact_mut(size) {
            let (low, high) = block.split_at_mut(size / 2);
            for ((low, high), (sin, cos)) in low.iter_mut().zip(high).zip(&twiddles) {
                let turned = [high[0] * cos - high[1] * sin, high[0] * sin + high[1] * cos];
                *high = [low[0] - turned[0], low[1] - turned[1]];
                *low = [low[0] + turned[0], low[1] + turned[1]];
            }
        }
        size *= 2;
    }
}

/// Returns how many times the power of the floor a peak has at least, so that one spectrum of noise in a thousand has a peak.
///
/// The mean of `k` powers of noise is distributed like a Gamma variable of shape `k`, of which a part of at most exp(−k (t − 1 − ln t)) is above `t` times its
/// mean (Chernoff's bound). The floor is a median, which is (1 − 1/9k)³ times the mean (Wilson and Hilferty 1931).
fn threshold(segments: u32, frequencies: usize) -> f64 {
    let k = (f64::from(segments) / SEGMENTS_PER_SPECTRUM).max(1.0);
    let wanted = (frequencies as f64 / FALSE_PEAKS).ln() / k;
    let (mut low, mut high) = (1.0, 2.0 * wanted + 4.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if middle - 1.0 - middle.ln() < wanted { low = middle } else { high = middle }
    }
    high / (1.0 - 1.0 / (9.0 * k)).powi(3)
}

/// Finds the peaks: local maxima that have at least `threshold` times the power of the floor, and are not side lobes of a larger peak.
fn peaks(amplitudes: &[f64], step_hz: f64, threshold: f64) -> Vec<Peak> {
    let at = |bin: usize| amplitudes.get(bin).copied().unwrap_or(0.0);
    // The lowest frequencies hold what the window makes of drifts.
    let mut maxima: Vec<usize> =
        (LOBE + 1..amplitudes.len()).filter(|bin| at(*bin) > at(bin - 1) && at(*bin) >= at(bin + 1)).collect();
    maxima.sort_by(|a, b| at(*b).total_cmp(&at(*a)));
    let mut found: Vec<(f64, f64, Peak)> = Vec::new();
    for bin in maxima {
        if found.len() == PEAKS {
            break;
        }
        let floor = floor(amplitudes, bin);
        let above_floor = if floor > 0.0 { (at(bin) / floor).min(MOST_ABOVE) } else { MOST_ABOVE };
        let place = bin as f64 + offset(at(bin - 1), at(bin), at(bin + 1));
        let is_lobe = found.iter().any(|(other, amplitude, _)| at(bin) < 2.0 * amplitude * side_lobe(place - other));
        if above_floor * above_floor < threshold || is_lobe {
            continue;
        }
        let lobe =
            amplitudes[bin - LOBE..amplitudes.len().min(bin + LOBE + 1)].iter().map(|amplitude| amplitude * amplitude);
        // Of the last frequency, the lobe's other half is that of the negative frequency.
        let last = bin + 1 == amplitudes.len();
        let amplitude = if last { at(bin) } else { (lobe.sum::<f64>() / BANDWIDTH).sqrt() };
        found.push((place, at(bin), Peak { hz: place * step_hz, amplitude, above_floor }));
    }
    found.into_iter().map(|(.., peak)| peak).collect()
}

/// The median amplitude around a frequency.
fn floor(amplitudes: &[f64], bin: usize) -> f64 {
    let mut around = amplitudes[bin.saturating_sub(AROUND).max(1)..amplitudes.len().min(bin + AROUND + 1)].to_vec();
    around.sort_by(f64::total_cmp);
    around[around.len() / 2]
}

/// By how many bins a sine's frequency lies beside the largest bin, from the amplitudes of the bin and its neighbours. Exact for a Hann window.
fn offset(before: f64, middle: f64, after: f64) -> f64 {
    let (neighbour, side) = if after > before { (after, 1.0) } else { (before, -1.0) };
    if after == 0.0 || middle <= 0.0 {
        return 0.0;
    }
    let ratio = neighbour / middle;
    side * ((2.0 * ratio - 1.0) / (ratio + 1.0)).clamp(0.0, 0.5)
}

/// Bound of the Hann window's side lobes at a distance in bins, as a part of the main lobe. Within the main lobe it is infinite.
fn side_lobe(distance: f64) -> f64 {
    let distance = distance.abs();
    if distance <= LOBE as f64 {
        f64::INFINITY
    } else {
        1.0 / (std::f64::consts::PI * distance * (distance * distance - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    /// Pseudorandom numbers from −1 to 1.
    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        }
    }

    #[test]
    fn the_fast_transform_is_the_direct_one() {
        let mut random = noise(1);
        for length in [1, 2, 4, 8, 64, 256] {
            let values: Vec<[f64; 2]> = (0..length).map(|_| [random(), random()]).collect();
            let mut fast = values.clone();
            transform(&mut fast);
            for (k, [re, im]) in fast.iter().enumerate() {
                let (mut direct_re, mut direct_im) = (0.0, 0.0);
                for (n, [x, y]) in values.iter().enumerate() {
                    let (sin, cos) = (-TAU * (k * n % length) as f64 / length as f64).sin_cos();
                    direct_re += x * cos - y * sin;
                    direct_im += x * sin + y * cos;
                }
                assert!((re - direct_re).abs() < 1e-9 && (im - direct_im).abs() < 1e-9, "{k} of {length}");
            }
        }
    }

    #[test]
    fn a_sine_has_one_peak_at_its_frequency_with_its_amplitude() {
        // At and between the frequencies of the spectrum.
        for hz in [100.0 / 1.024, 97.0, 123.45, 312.9] {
            let samples: Vec<f64> = (0..5000).map(|n| 0.2 + 0.03 * (TAU * hz * f64::from(n) / 1000.0).sin()).collect();
            let found = spectrum(&samples, 1e6).unwrap();
            let [peak] = found.peaks[..] else { panic!("{hz}: {:?}", found.peaks) };
            assert!((peak.hz - hz).abs() < 0.02, "{hz}: {peak:?}");
            assert!((peak.amplitude - 0.03).abs() < 0.0005, "{hz}: {peak:?}");
        }
    }

    #[test]
    fn a_tick_shows_with_its_harmonics_in_noise() {
        // A tick of 100 Hz takes 0.5 % of every tenth quantum of 1 ms.
        let mut random = noise(7);
        let samples: Vec<f64> =
            (0..10_000).map(|n| if n % 10 == 3 { 0.005 } else { 0.0 } + 0.0005 * random()).collect();
        let found = spectrum(&samples, 1e6).unwrap();
        let mut hz: Vec<i64> = found.peaks.iter().map(|peak| peak.hz.round() as i64).collect();
        hz.sort_unstable();
        assert_eq!(hz, [100, 200, 300, 400, 500]);
        // Each harmonic of a pulse of height h in one of ten samples has the amplitude h / 5; at half the sampling rate, h / 10.
        for peak in &found.peaks {
            let expected = if peak.hz > 499.0 { 0.0005 } else { 0.001 };
            assert!((peak.amplitude - expected).abs() < 0.00005, "{peak:?}");
        }
    }

    #[test]
    fn more_segments_show_smaller_peaks() {
        // Solutions of t − 1 − ln t = ln(N / 0.001) / k, by another program.
        for (segments, frequencies, above_mean, k) in [(7, 256, 6.417, 3.5), (13, 2048, 4.806, 6.5)] {
            let median: f64 = 1.0 - 1.0 / (9.0 * k);
            let found: f64 = threshold(segments, frequencies);
            assert!((found * median.powi(3) - above_mean).abs() < 0.01, "{segments}: {found}");
        }
        // A tick of 5 % of every fourth quantum, while one quantum in thirty is lost as a whole: it shows after 30 s, not after 3 s.
        let mut random = noise(11);
        let mut tick = |n: u32| if random() > 0.933 { 1.0 } else { f64::from(u8::from(n.is_multiple_of(4))) * 0.05 };
        let samples: Vec<f64> = (0..30_000).map(&mut tick).collect();
        let peaks = |samples: &[f64]| {
            spectrum(samples, 1e6).unwrap().peaks.iter().map(|peak| peak.hz.round()).collect::<Vec<_>>()
        };
        assert_eq!(peaks(&samples[..3_000]), [0.0; 0]);
        let found = peaks(&samples);
        assert!(found.contains(&250.0), "{found:?}");
    }

    #[test]
    fn noise_has_no_peaks() {
        for seed in 0..50 {
            let mut random = noise(seed);
            let samples: Vec<f64> = (0..3000).map(|_| random()).collect();
            let found = spectrum(&samples, 1e6).unwrap();
            assert_eq!((found.segments, found.amplitudes.len(), found.peaks.len()), (10, 257, 0), "{seed}");
        }
    }

    #[test]
    fn a_short_series_has_no_spectrum() {
        assert_eq!(spectrum(&[0.5; 127], 1e6), None);
        let constant = spectrum(&[0.5; 128], 1e6).unwrap();
        assert_eq!((constant.segments, constant.peaks.len()), (7, 0));
        assert!(constant.amplitudes.iter().all(|amplitude| *amplitude < 1e-12));
    }
}
