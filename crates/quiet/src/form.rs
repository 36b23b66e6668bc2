//! The forms in which the kernel's files have their values. Values are compared by their meaning, because the kernel prints one value in several
//! ways: "3" and "00000003" are one mask, "0,1" and "0-1" are one list.

use machine::CpuSet;

/// The form of a file's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A hexadecimal mask of CPUs, 32 of them in each comma-separated word.
    Mask,
    /// A list of CPUs: `0-3,8`.
    List,
    /// A number or a word.
    Text,
}

impl Form {
    /// Returns the CPUs of a value; `None` if it has none of the two forms for CPUs, or cannot be read.
    #[must_use]
    pub fn cpus(self, text: &str) -> Option<CpuSet> {
        match self {
            Form::Mask => mask(text.trim()),
            Form::List if text.trim().is_empty() => Some(CpuSet::new()),
            Form::List => text.trim().parse().ok(),
            Form::Text => None,
        }
    }

    /// Returns CPUs in this form, as they are written to the file and shown.
    #[must_use]
    pub fn of_cpus(self, cpus: &CpuSet) -> String {
        if self == Form::Mask { hexadecimal(cpus) } else { cpus.to_string() }
    }

    /// Returns the value of a file as it is compared and shown: CPUs as a list.
    #[must_use]
    pub fn normal(self, text: &str) -> String {
        let text = text.trim();
        match self {
            Form::Mask | Form::List => self.cpus(text).map_or_else(|| text.to_owned(), |cpus| cpus.to_string()),
            Form::Text => text.to_owned(),
        }
    }
}

/// The first word has the highest CPUs.
fn mask(text: &str) -> Option<CpuSet> {
    let words: Option<Vec<u32>> = text.split(',').map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let bits = |(at, word): (usize, u32)| {
        (0..32).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at as u32 * 32 + bit)
    };
    Some(words?.into_iter().rev().enumerate().flat_map(bits).collect())
}

fn hexadecimal(cpus: &CpuSet) -> String {
    let mut words = vec![0u32; cpus.last().map_or(1, |last| last as usize / 32 + 1)];
    for cpu in cpus.iter() {
        words[cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let mut words = words.into_iter().rev();
    let first = words.next().map_or_else(String::new, |word| format!("{word:x}"));
    words.fold(first, |text, word| format!("{text},{word:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_meaning_is_one_value() {
        for (form, texts, normal) in [
            (Form::Mask, &["3", "00000003", "00000000,00000003\n", "0,3"][..], "0-1"),
            (Form::Mask, &["ffffffff,00000000"], "32-63"),
            (Form::Mask, &["0", "00000000,00000000"], ""),
            (Form::List, &["0,1", "0-1", "0-1\n"], "0-1"),
            (Form::List, &["", "\n"], ""),
            (Form::Text, &["120\n", "120"], "120"),
        ] {
            assert!(texts.iter().all(|text| form.normal(text) == normal), "{form:?} {texts:?}");
        }
        assert_eq!((Form::Mask.cpus("3g"), Form::Text.cpus("3")), (None, None));
    }

    #[test]
    fn masks_are_read_back() {
        for cpus in ["0", "1-3", "31-32", "0,63-64,100"] {
            let cpus: CpuSet = cpus.parse().unwrap();
            assert_eq!(Form::Mask.cpus(&Form::Mask.of_cpus(&cpus)), Some(cpus));
        }
        assert_eq!(Form::Mask.of_cpus(&"0,32".parse().unwrap()), "1,00000001");
        assert_eq!(
            (Form::Mask.of_cpus(&CpuSet::new()), Form::List.of_cpus(&"0,1".parse().unwrap())),
            ("0".into(), "0-1".into())
        );
    }
}
