//! Formats numbers for people: `1,204`, `5.41 s`, `0.3 %`, `1.3–1.5×`.

/// Formats a count in groups of three digits: `812,440`.
pub fn count(value: u64) -> String {
    if value < 1000 { value.to_string() } else { format!("{},{:03}", count(value / 1000), value % 1000) }
}

/// Formats a time in a unit that suits its size: `640 ns`, `6.2 µs`, `21 ms`, `0.84 s`, `12.41 s`, `1,204 s`. Times from 0.1 s on are in seconds,
/// because the tables nearby are in seconds.
pub fn duration(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    if ns < 1_000 {
        format!("{ns} ns")
    } else if us < 999.5 {
        short(us, "µs")
    } else if us < 99_950.0 {
        short(us / 1e3, "ms")
    } else {
        seconds(ns)
    }
}

/// Formats with one decimal below ten, without decimals above.
fn short(value: f64, unit: &str) -> String {
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Formats seconds: two decimals below 100, one below 1,000, none above.
pub fn seconds(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    if s < 99.995 {
        format!("{s:.2} s")
    } else if s < 999.95 {
        format!("{s:.1} s")
    } else {
        format!("{} s", count(s.round() as u64))
    }
}

/// Formats milliseconds, unrounded: `0.25 ms`.
pub fn milliseconds(ns: u64) -> String {
    format!("{} ms", ns as f64 / 1e6)
}

/// Formats a fraction as per cent: `32.7 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a fraction for a sentence: `75 %`, but `0.4 %` if small.
pub fn about_percent(share: f64) -> String {
    if share > 0.0 && share < 0.0995 { percent(share) } else { format!("{:.0} %", share * 100.0) }
}

/// Formats a factor, rounded down: `1.5×`. Below 1.2 it has two decimals, as in `1.08×`, because one would hide the gain.
pub fn factor(value: f64) -> String {
    format!("{}×", factor_digits(value, value))
}

/// Formats a range of factors, both rounded down: `1.3–1.5×`, or one number if both look the same.
pub fn factor_range(low: f64, high: f64) -> String {
    let (low, high) = (factor_digits(low, high), factor_digits(high, high));
    if low == high { format!("{high}×") } else { format!("{low}–{high}×") }
}

/// Formats `value`, rounded down, with as many digits as suit `scale`.
fn factor_digits(value: f64, scale: f64) -> String {
    let cut = |scaled: f64| (scaled + 1e-6).floor();
    if scale < 1.2 {
        format!("{:.2}", cut(value * 100.0) / 100.0)
    } else if value < 10.0 {
        format!("{:.1}", cut(value * 10.0) / 10.0)
    } else {
        format!("{:.0}", cut(value))
    }
}

/// Formats a count with its noun: `1 thread`, `3 threads`.
pub fn counted(value: u64, noun: &str) -> String {
    if value == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(value)) }
}

/// Formats an amount of memory: `640 B`, `6.2 KiB`, `21 MiB`.
pub fn memory(bytes: u64) -> String {
    match bytes as f64 / 1024.0 {
        kib if kib < 1.0 => format!("{bytes} B"),
        kib if kib < 1023.5 => short(kib, "KiB"),
        kib if kib < 1023.5 * 1024.0 => short(kib / 1024.0, "MiB"),
        kib => short(kib / 1024.0 / 1024.0, "GiB"),
    }
}

/// Formats CPU numbers as a list: `0-3,8`.
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let range = |range: &[u32]| match range {
        [first, .., last] => format!("{first}-{last}"),
        _ => range[0].to_string(),
    };
    sorted.chunk_by(|cpu, next| next - cpu == 1).map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_thin_groups() {
        let texts: Vec<String> = [0, 999, 1_000, 812_440, 4_294_967_296].map(count).into();
        assert_eq!(texts, ["0", "999", "1,000", "812,440", "4,294,967,296"]);
    }

    #[test]
    fn memory_takes_the_unit_that_suits() {
        assert_eq!([0, 1023, 106 << 10].map(memory), ["0 B", "1023 B", "106 KiB"]);
        assert_eq!([1_048_000, 6_920_601, 3 << 30].map(memory), ["1023 KiB", "6.6 MiB", "3.0 GiB"]);
        assert_eq!([1_048_575, 1 << 30].map(memory), ["1.0 MiB", "1.0 GiB"]);
    }

    #[test]
    fn durations_take_the_unit_that_suits() {
        let ns = [0, 640, 6_200, 21_400, 999_600, 2_100_000, 21_000_000, 99_960_000, 840_000_000, 12_411_000_000];
        let texts: Vec<String> = ns.map(duration).into();
        assert_eq!(
            texts,
            ["0 ns", "640 ns", "6.2 µs", "21 µs", "1.0 ms", "2.1 ms", "21 ms", "0.10 s", "0.84 s", "12.41 s"]
        );
        assert_eq!(duration(u64::MAX), "18,446,744,074 s");
    }

    #[test]
    fn long_runs_lose_decimals() {
        let texts: Vec<String> = [5_410_000_000, 99_996_000_000, 999_960_000_000].map(seconds).into();
        assert_eq!(texts, ["5.41 s", "100.0 s", "1,000 s"]);
    }

    #[test]
    fn factors_never_round_up() {
        assert_eq!(factor(1.599), "1.5×");
        assert_eq!(factor(1.089), "1.08×");
        assert_eq!(factor(66.9), "66×");
        assert_eq!(factor_range(1.0, 1.536), "1.0–1.5×");
        assert_eq!(factor_range(1.31, 1.36), "1.3×");
        assert_eq!(factor_range(2.2, 14.3), "2.2–14×");
    }

    #[test]
    fn shares_and_lists() {
        assert_eq!(
            (percent(0.327), about_percent(0.7512), about_percent(0.004)),
            ("32.7 %".into(), "75 %".into(), "0.4 %".into())
        );
        assert_eq!(cpu_list(&[8, 0, 1, 3, 2, 2]), "0-3,8");
        assert_eq!(
            (cpu_list(&[]), counted(1, "thread"), counted(3, "thread")),
            ("".into(), "1 thread".into(), "3 threads".into())
        );
    }
}
