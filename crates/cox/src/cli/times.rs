//! Times on the command line.

use std::time::Duration;

/// Parses a scheduling period, from 20 us to 1 s.
pub(super) fn period(text: &str) -> Result<Duration, String> {
    let length = match text.strip_suffix("us") {
        Some(number) => {
            let us: f64 = number.parse().map_err(|_| "not a number; use the form 500us or 0.5ms".to_owned())?;
            Duration::try_from_secs_f64(us / 1e6).map_err(|error| error.to_string())?
        }
        None => duration(text)?,
    };
    if (Duration::from_micros(20)..=Duration::from_secs(1)).contains(&length) {
        Ok(length)
    } else {
        Err("a scheduling period must be from 20us to 1s".to_owned())
    }
}

/// Parses a time: `10s`, `500ms`, `2m`, `1h`, or plain seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit '{unit}'; use ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().map_err(|_| "not a number; use the form 10s or 500ms".to_owned())? * scale;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|length| !length.is_zero())
        .ok_or_else(|| "must be more than 0 and not too large".to_owned())
}

/// Parses a time that may be short: `100ns`, `500us`, or as [`duration`]. It may be 0, which the plan refuses with the reason.
pub(super) fn short_time(text: &str) -> Result<Duration, String> {
    let short = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6)];
    if let Some((number, scale)) = short.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale))) {
        let number: f64 = number.parse().map_err(|_| "not a number; use the form 500ns, 10us or 1ms".to_owned())?;
        return Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string());
    }
    if text.trim_end_matches(char::is_alphabetic).parse() == Ok(0.0) {
        return Ok(Duration::ZERO);
    }
    duration(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in ["", "s", "-1s", "0s", "10 parsecs", "1e400s", "1..2s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn short_times() {
        assert_eq!(short_time("100ns"), Ok(Duration::from_nanos(100)));
        assert_eq!(short_time("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(short_time("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(short_time("0ms"), Ok(Duration::ZERO));
        for bad in ["", "ns", "-1us", "5 parsecs"] {
            assert!(short_time(bad).is_err(), "{bad}");
        }
    }
}
