//! The mask form of sets of CPUs: hexadecimal words of 32 bits, the highest first, separated by commas (`3`,
//! `00000001,80000000`). Files such as `smp_affinity` and `rps_cpus` have this form; Documentation/core-api/irq.

use std::fmt::Write;

use crate::cpulist::{CpuSet, MAX_CPU, ParseCpuSetError};

/// Bits of a word between two commas.
const WORD_BITS: u32 = 32;

impl CpuSet {
    /// Reads a mask. Zeros at its beginning mean nothing, and an empty text is not a mask.
    ///
    /// # Errors
    /// When the text is not hexadecimal, or names a CPU above [`MAX_CPU`].
    pub fn from_mask(text: &str) -> Result<CpuSet, ParseCpuSetError> {
        let mut cpus = CpuSet::new();
        for (place, word) in (0..).zip(text.trim().rsplit(',')) {
            let is_word = (1..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bits = u32::from_str_radix(word, 16).ok().filter(|_| is_word);
            let bits = bits.ok_or_else(|| ParseCpuSetError::NotAMask(text.to_owned()))?;
            for bit in (0..WORD_BITS).filter(|bit| bits & (1 << bit) != 0) {
                match place * WORD_BITS + bit {
                    cpu if cpu <= MAX_CPU => cpus.insert(cpu),
                    _ => return Err(ParseCpuSetError::TooLarge(text.to_owned())),
                }
            }
        }
        Ok(cpus)
    }

    /// Returns the set as a mask, without zeros at its beginning; the empty set is `0`.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let mut words = vec![0u32; self.last().map_or(1, |last| (last / WORD_BITS) as usize + 1)];
        for cpu in self.iter() {
            words[(cpu / WORD_BITS) as usize] |= 1 << (cpu % WORD_BITS);
        }
        let mut words = words.into_iter().rev();
        let mut text = words.next().map_or_else(String::new, |first| format!("{first:x}"));
        for word in words {
            // Writing to a string does not fail.
            let _ = write!(text, ",{word:08x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(mask: &str) -> String {
        CpuSet::from_mask(mask).unwrap().to_string()
    }

    #[test]
    fn masks_that_differ_in_zeros_are_equal() {
        assert_eq!(
            (list("3"), list("00000003\n"), list("00000000,00000003")),
            ("0-1".into(), "0-1".into(), "0-1".into())
        );
        assert_eq!((list("0"), list("1,80000000")), (String::new(), "31-32".into()));
        assert_eq!(CpuSet::new().to_mask(), "0");
        assert_eq!("31-32".parse::<CpuSet>().unwrap().to_mask(), "1,80000000");
    }

    #[test]
    fn what_is_no_mask_is_refused() {
        for text in ["", ",", "0x3", "+3", "1,", "g", "3 1", "123456789", "0-1"] {
            assert!(matches!(CpuSet::from_mask(text), Err(ParseCpuSetError::NotAMask(_))), "{text:?}");
        }
        let long = format!("1{}", ",00000000".repeat(1 << 15));
        assert!(matches!(CpuSet::from_mask(&long), Err(ParseCpuSetError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn a_mask_and_its_set_are_the_same(cpus in prop::collection::btree_set(0u32..300, 0..40)) {
            let cpus: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(CpuSet::from_mask(&cpus.to_mask()), Ok(cpus));
        }

        #[test]
        fn any_text_is_a_mask_or_an_error(text in "[0-9a-f,x ]{0,20}") {
            if let Ok(cpus) = CpuSet::from_mask(&text) {
                prop_assert_eq!(CpuSet::from_mask(&cpus.to_mask()), Ok(cpus));
            }
        }
    }

    #[test]
    fn masks_are_read_back() {
        for cpus in ["0", "1-3", "31-32", "0,63-64,100"] {
            let cpus: CpuSet = cpus.parse().unwrap();
            assert_eq!(CpuSet::from_mask(&cpus.to_mask()), Ok(cpus));
        }
        assert_eq!("0,32".parse::<CpuSet>().unwrap().to_mask(), "1,00000001");
        assert_eq!(CpuSet::new().to_mask(), "0");
    }
}
