//! What a recording says of where it was made: features of its head (tools/perf/Documentation/perf.data-file-format.txt).

use crate::bytes::Rest;

/// The features that are read, by their numbers.
pub(crate) const FEATURES: [u64; 6] = [HOSTNAME, OSRELEASE, VERSION, NRCPUS, CPUDESC, COMMAND];
const HOSTNAME: u64 = 3;
const OSRELEASE: u64 = 4;
const VERSION: u64 = 5;
const NRCPUS: u64 = 7;
const CPUDESC: u64 = 8;
const COMMAND: u64 = 11;

/// Words of a command line.
const MOST_WORDS: u32 = 4096;

/// Where a recording was made. What it does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Name of the machine.
    pub host: Option<String>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Version of perf.
    pub perf: Option<String>,
    /// How many CPUs were online.
    pub cpus: Option<u32>,
    /// Model of its CPUs.
    pub cpu_model: Option<String>,
    /// perf's own command line.
    pub command: Vec<String>,
}

impl About {
    /// Takes a feature; of others, and of what has no sense in it, nothing.
    pub(crate) fn take(&mut self, feature: u64, bytes: &[u8]) {
        let mut rest = Rest(bytes);
        match feature {
            HOSTNAME => self.host = text(&mut rest),
            OSRELEASE => self.kernel = text(&mut rest),
            VERSION => self.perf = text(&mut rest),
            // Before it: how many there could be.
            NRCPUS => self.cpus = rest.u32().and_then(|_| rest.u32()),
            CPUDESC => self.cpu_model = text(&mut rest),
            COMMAND => {
                let words = rest.u32().unwrap_or(0).min(MOST_WORDS);
                self.command = (0..words).map_while(|_| text(&mut rest)).collect();
            }
            _ => {}
        }
    }
}

/// A string, whose length with its padding is told before it.
fn text(rest: &mut Rest<'_>) -> Option<String> {
    let length = rest.u32()?;
    let padded = rest.take(length.into())?;
    let end = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    Some(String::from_utf8_lossy(&padded[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str, padded: usize) -> Vec<u8> {
        let mut bytes = (padded as u32).to_le_bytes().to_vec();
        bytes.extend(text.bytes().chain(std::iter::repeat(0)).take(padded));
        bytes
    }

    #[test]
    fn features_say_where_it_was_made() {
        let mut about = About::default();
        about.take(HOSTNAME, &string("node17", 64));
        about.take(OSRELEASE, &string("6.12.48", 64));
        about.take(VERSION, &string("6.1.0", 64));
        about.take(NRCPUS, &[8, 0, 0, 0, 4, 0, 0, 0]);
        about.take(CPUDESC, &string("Fast CPU", 64));
        about.take(COMMAND, &[2u32.to_le_bytes().to_vec(), string("perf", 64), string("sched", 64)].concat());
        about.take(99, &string("x", 1));
        let text = |text: &str| Some(text.to_owned());
        let expected = About {
            host: text("node17"),
            kernel: text("6.12.48"),
            perf: text("6.1.0"),
            cpus: Some(4),
            cpu_model: text("Fast CPU"),
            command: vec!["perf".into(), "sched".into()],
        };
        assert_eq!(about, expected);
    }

    #[test]
    fn what_is_cut_off_says_nothing() {
        let mut about = About::default();
        about.take(HOSTNAME, &string("node17", 64)[..20]);
        about.take(NRCPUS, &[8, 0, 0, 0, 4]);
        about.take(COMMAND, &u32::MAX.to_le_bytes());
        assert_eq!(about, About::default());
    }
}
