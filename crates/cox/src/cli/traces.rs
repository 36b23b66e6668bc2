//! Options for traces: where they go, and the size of their buffer.

use std::path::PathBuf;

use clap::Args;

/// Where traces go.
#[derive(Clone, Debug, Default, Args)]
pub struct Traces {
    /// Write a trace of all scheduling events to FILE, for the Perfetto UI and for `cox report` (%p, %h, %r as for --json)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the same trace for Paraver: PREFIX.prv, .pcf and .row, and views of it: PREFIX.states.cfg, …
    #[arg(long, value_name = "PREFIX")]
    pub paraver: Option<PathBuf>,
    /// Write the report to FILE, with pictures over time, as one page of HTML that needs no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Traces {
    /// Returns whether any of them is wanted.
    pub fn are_wanted(&self) -> bool {
        self.trace.is_some() || self.paraver.is_some() || self.html.is_some()
    }
}

/// The buffer for trace events.
#[derive(Clone, Copy, Debug, Args)]
pub struct Room {
    /// Size of the buffer for trace events (64k, 32M), which cox empties while the program runs. An event has 32 bytes; cox counts events that do not fit
    #[arg(long, value_name = "BYTES", value_parser = buffer, default_value = "32M")]
    pub trace_buffer: u32,
}

/// Parses the size of the buffer: `64k`, `32M`, `1G`, or plain bytes, from 4k to 1G. Rounds up to a power of two, as ring buffers need.
fn buffer(text: &str) -> Result<u32, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return Err(format!("unknown unit '{unit}'; use k, M or G")),
    };
    let number = number.parse::<u64>().map_err(|_| "not a number; use the form 64k or 32M".to_owned())?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| (4 << 10..=1 << 30).contains(bytes));
    bytes.map(|bytes| bytes.next_power_of_two() as u32).ok_or_else(|| "must be from 4k to 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers() {
        assert_eq!(buffer("4096"), Ok(4096));
        assert_eq!(buffer("5k"), Ok(8192));
        assert_eq!(buffer("32M"), Ok(32 << 20));
        assert_eq!(buffer("1G"), Ok(1 << 30));
        for bad in ["", "k", "1k", "2G", "-4k", "4.5M", "4T", "99999999999999999999", "17179869184G"] {
            assert!(buffer(bad).is_err(), "{bad}");
        }
    }
}
