//! The machine that a recording was made on, from the feature sections of the file
//! (tools/perf/Documentation/perf.data-file-format.txt).

use wire::layout::comm_text;

use crate::bytes::Rest;

/// Numbers of the feature sections that this module reads.
pub(crate) const FEATURES: [u64; 6] = [HOSTNAME, OSRELEASE, VERSION, NRCPUS, CPUDESC, COMMAND];
const HOSTNAME: u64 = 3;
const OSRELEASE: u64 = 4;
const VERSION: u64 = 5;
const NRCPUS: u64 = 7;
const CPUDESC: u64 = 8;
const COMMAND: u64 = 11;

/// Maximum length of a name, in characters. A host name or kernel release has at most 64 bytes; a CPU model name can be
/// a little longer.
const LONGEST_NAME: usize = 256;
/// Maximum number of words of a command line.
const MOST_WORDS: u32 = 4096;

/// The machine that a recording was made on. Facts that the recording lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Host name.
    pub host: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of perf.
    pub perf: Option<String>,
    /// Number of CPUs that were online.
    pub cpus: Option<u32>,
    /// Model name of the CPUs.
    pub cpu_model: Option<String>,
    /// Command line of perf.
    pub command: Vec<String>,
}

impl About {
    /// Reads one feature section. Ignores a section that is damaged or not needed here.
    pub(crate) fn take(&mut self, feature: u64, bytes: &[u8]) {
        let mut rest = Rest(bytes);
        match feature {
            HOSTNAME => self.host = name(&mut rest),
            OSRELEASE => self.kernel = name(&mut rest),
            VERSION => self.perf = name(&mut rest),
            // The first number counts the possible CPUs, the second the online ones.
            NRCPUS => self.cpus = rest.u32().and_then(|_| rest.u32()),
            CPUDESC => self.cpu_model = name(&mut rest),
            COMMAND => {
                let words = rest.u32().unwrap_or(0).min(MOST_WORDS);
                self.command = (0..words).map_while(|_| text(&mut rest)).collect();
            }
            _ => {}
        }
    }
}

/// Reads a name: a string that is not empty, cut to the maximum length.
fn name(rest: &mut Rest<'_>) -> Option<String> {
    let name: String = text(rest)?.chars().take(LONGEST_NAME).collect();
    Some(name).filter(|name| !name.is_empty())
}

/// Reads a string: its padded length, then its bytes.
fn text(rest: &mut Rest<'_>) -> Option<String> {
    let length = rest.u32()?;
    rest.take(length.into()).map(comm_text)
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
        about.take(OSRELEASE, &string("", 64));
        about.take(NRCPUS, &[8, 0, 0, 0, 4]);
        about.take(COMMAND, &u32::MAX.to_le_bytes());
        assert_eq!(about, About::default());
        about.take(CPUDESC, &string(&"x".repeat(5000), 6000));
        assert_eq!(about.cpu_model.map(|model| model.len()), Some(LONGEST_NAME));
    }
}
