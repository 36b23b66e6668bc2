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
            Form::Mask => CpuSet::from_mask(text.trim()).ok(),
            Form::List if text.trim().is_empty() => Some(CpuSet::new()),
            Form::List => text.trim().parse().ok(),
            Form::Text => None,
        }
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
}
