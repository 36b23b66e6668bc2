//! The ratio of threads to CPUs, written `3/2`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A number of threads and a smaller number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Number of threads of the program.
    pub threads: usize,
    /// Number of CPUs for the program.
    pub cpus: usize,
}

impl Ratio {
    /// Returns the time that the CPUs need for the work of all threads, in units of one thread's work.
    pub fn ideal(self) -> f64 {
        self.threads as f64 / self.cpus as f64
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| (1..=64).contains(number));
        let (threads, cpus) = text
            .split_once('/')
            .and_then(|(threads, cpus)| Some((number(threads)?, number(cpus)?)))
            .ok_or("expected THREADS/CPUS, such as 3/2, each from 1 to 64")?;
        if threads <= cpus {
            return Err("there must be more threads than CPUs".to_owned());
        }
        Ok(Ratio { threads, cpus })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.threads, self.cpus)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_and_nonsense_is_refused() {
        let ratio: Ratio = "5/2".parse().unwrap();
        assert_eq!((ratio.threads, ratio.cpus, ratio.ideal()), (5, 2, 2.5));
        assert_eq!(ratio.to_string(), "5/2");
        for bad in ["", "3", "3/", "/2", "3/0", "2/2", "2/3", "3/2/1", "-3/2", "99/2", "3 / 2", "a/b"] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
    }
}
