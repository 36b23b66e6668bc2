//! Sets of CPUs and their list form, `0-3,8`.
//!
//! The form is the kernel's (`%*pbl`): ranges and single numbers, ascending, separated by commas. The parser also
//! accepts what users write: any order, overlaps, blanks around the parts.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The largest CPU number accepted. Today Linux supports at most 8,192 CPUs; the limit prevents a typing error from
/// allocating a huge set.
pub const MAX_CPU: u32 = (1 << 20) - 1;

const WORD_BITS: u32 = u64::BITS;

/// A set of CPUs (hardware threads), by kernel number.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuSet {
    /// Bit n of word w is CPU 64w + n. The last word is never zero, so that equal sets compare equal.
    words: Vec<u64>,
}

/// Reason why a text is not a CPU list or mask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCpuSetError {
    /// A part is neither `N` nor `N-M`.
    #[error("invalid CPU list '{}': expected numbers and ranges such as 0-3,8", .0.escape_default())]
    NotAList(String),
    /// A text is not a mask of hexadecimal words.
    #[error("invalid CPU mask '{}': expected hexadecimal words such as ff,ffffffff", .0.escape_default())]
    NotAMask(String),
    /// The first number of a range is above the last.
    #[error("invalid CPU range {0:?}: the first number is above the last")]
    Descending(String),
    /// A number above [`MAX_CPU`].
    #[error("{0:?}: CPU numbers end at {MAX_CPU}")]
    TooLarge(String),
}

impl CpuSet {
    /// Returns the empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a CPU. Ignores numbers above [`MAX_CPU`].
    pub fn insert(&mut self, cpu: u32) {
        if cpu > MAX_CPU {
            return;
        }
        let word = (cpu / WORD_BITS) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % WORD_BITS);
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: u32) {
        if let Some(word) = self.words.get_mut((cpu / WORD_BITS) as usize) {
            *word &= !(1 << (cpu % WORD_BITS));
            self.trim();
        }
    }

    /// Returns whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / WORD_BITS) as usize).is_some_and(|word| word & (1 << (cpu % WORD_BITS)) != 0)
    }

    /// Returns the number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether no CPU is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Returns the highest CPU.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let top = self.words.last()?;
        Some((self.words.len() as u32 - 1) * WORD_BITS + top.ilog2())
    }

    /// Returns the CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..WORD_BITS).filter(move |bit| word & (1 << bit) != 0).map(move |bit| index as u32 * WORD_BITS + bit)
        })
    }

    /// Returns the set as sched_setaffinity(2) takes it: bit n of word w is CPU 64w + n. The last word is not zero. The kernel
    /// takes a mask of any length: CPUs beyond its end are not in it.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the set that sched_getaffinity(2) has written as words.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self { words: words.to_vec() };
        set.trim();
        set
    }

    /// Returns the CPUs in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let mut words = long.words.clone();
        for (word, more) in words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        Self { words }
    }

    /// Returns the CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    /// Returns the CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        let mut set = Self { words };
        set.trim();
        set
    }

    /// Returns whether every CPU of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<u32> for CpuSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Reads a list. An empty text is the empty set, as in `/sys/devices/system/cpu/offline`.
    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let part = part.trim();
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (cpu_number(first, text)?, cpu_number(last, text)?),
                None => {
                    let cpu = cpu_number(part, text)?;
                    (cpu, cpu)
                }
            };
            if first > last {
                return Err(ParseCpuSetError::Descending(part.to_owned()));
            }
            set.extend(first..=last);
        }
        Ok(set)
    }
}

/// Serialised as a list: `"0-3,8"`.
impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Reads one number of the list `whole`. A sign is not a digit.
fn cpu_number(digits: &str, whole: &str) -> Result<u32, ParseCpuSetError> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseCpuSetError::NotAList(whole.to_owned()));
    }
    match digits.parse() {
        Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
        _ => Err(ParseCpuSetError::TooLarge(digits.to_owned())),
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(out, "{separator}{first}")?;
            if last > first {
                write!(out, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().expect("a CPU list")
    }

    #[test]
    fn reads_and_prints_lists() {
        assert_eq!(set("0-3,8").iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(set(" 8 , 0-2,1-3\n").to_string(), "0-3,8");
        assert_eq!(set("").to_string(), "");
        assert_eq!(set("63-64,4095").to_string(), "63-64,4095");
        assert_eq!(set("0,2,4").to_string(), "0,2,4");
    }

    #[test]
    fn refuses_what_is_no_list() {
        for text in ["x", "1-", "-1", "1,,2", "0-3:2", "1 2", "+1", "1-2-3", "0x3", "a-3", ","] {
            assert!(matches!(text.parse::<CpuSet>(), Err(ParseCpuSetError::NotAList(_))), "{text:?} must be refused");
        }
        assert_eq!("3-1".parse::<CpuSet>(), Err(ParseCpuSetError::Descending("3-1".into())));
        for text in ["0-4000000000", "99999999999999999999", "1048576"] {
            assert!(matches!(text.parse::<CpuSet>(), Err(ParseCpuSetError::TooLarge(_))));
        }
        assert_eq!(set("1048575").len(), 1);
    }

    #[test]
    fn words_have_each_cpu_at_its_bit() {
        let words = |list: &str| set(list).words().to_vec();
        assert_eq!((words(""), words("0,63"), words("64")), (vec![], vec![1 << 63 | 1], vec![0, 1]));
        let mut long = vec![0; 24];
        (long[0], long[23]) = (1, 1 << 28);
        assert_eq!(words("0,1500"), long);
        long.push(0);
        assert_eq!(CpuSet::from_words(&long), set("0,1500"));
    }

    #[test]
    fn removing_the_highest_cpu_leaves_an_equal_set() {
        let mut cpus = set("1,200");
        cpus.remove(200);
        cpus.remove(7000);
        assert_eq!(cpus, set("1"));
        cpus.remove(1);
        assert!(cpus.is_empty());
        assert_eq!(cpus.last(), None);
    }

    fn model() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(prop_oneof![0u32..8, 0u32..200, 0u32..9000], 0..40)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(a in model(), b in model(), probe in 0u32..9100) {
            let (left, right): (CpuSet, CpuSet) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(left.iter().collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(left.len(), a.len());
            prop_assert_eq!(left.is_empty(), a.is_empty());
            prop_assert_eq!(left.first(), a.first().copied());
            prop_assert_eq!(left.last(), a.last().copied());
            prop_assert_eq!(left.contains(probe), a.contains(&probe));
            prop_assert_eq!(left.union(&right), a.union(&b).copied().collect());
            prop_assert_eq!(left.intersection(&right), a.intersection(&b).copied().collect());
            prop_assert_eq!(left.difference(&right), a.difference(&b).copied().collect());
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            prop_assert_eq!(left == right, a == b);
        }

        #[test]
        fn printing_and_reading_are_inverse(a in model()) {
            let cpus: CpuSet = a.into_iter().collect();
            prop_assert_eq!(cpus.to_string().parse::<CpuSet>(), Ok(cpus));
        }

        #[test]
        fn any_text_is_a_list_or_an_error(text in "[0-9,\\- x]{0,12}") {
            if let Ok(cpus) = text.parse::<CpuSet>() {
                prop_assert_eq!(cpus.to_string().parse::<CpuSet>(), Ok(cpus));
            }
        }
    }
}
