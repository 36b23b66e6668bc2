//! Amounts by kind, for a fixed set of kinds: a number for each cause of blocking, or for each kind of migration.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::{CAUSES, Cause, MIGRATIONS, Migration};

use super::{Amount, Value};

/// The kinds by which an amount is divided.
pub trait Kind: Copy + PartialEq + 'static {
    /// Every kind, in the order of its index.
    const ALL: &'static [Self];
    /// Whether kinds with the amount 0 are written to the JSON.
    const ZEROS: bool;
    /// The kind that gets amounts whose names this version of cox does not know, when a report is read; `None` if such amounts are dropped.
    const UNKNOWN: Option<Self>;

    /// Returns the kind's key in the JSON.
    fn name(self) -> &'static str;

    /// Returns the kind's position in [`Kind::ALL`].
    fn index(self) -> usize;
}

impl Kind for Cause {
    const ALL: &'static [Cause] = &Cause::ALL;
    const ZEROS: bool = false;
    const UNKNOWN: Option<Cause> = Some(Cause::Unspecified);

    fn name(self) -> &'static str {
        Cause::name(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl Kind for Migration {
    const ALL: &'static [Migration] = &Migration::ALL;
    const ZEROS: bool = true;
    const UNKNOWN: Option<Migration> = None;

    fn name(self) -> &'static str {
        Migration::name(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// An amount for each kind; in the JSON an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByKind<K, const N: usize> {
    amounts: [u64; N],
    kind: PhantomData<K>,
}

/// Time by the cause of blocking.
pub type ByCause = ByKind<Cause, CAUSES>;
/// Migrations by kind.
pub type ByMigration = ByKind<Migration, MIGRATIONS>;

impl<K: Kind, const N: usize> ByKind<K, N> {
    /// Creates amounts in the order of [`Kind::ALL`].
    pub const fn new(amounts: [u64; N]) -> ByKind<K, N> {
        ByKind { amounts, kind: PhantomData }
    }

    /// Returns all kinds with their amounts, including 0.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        K::ALL.iter().copied().zip(self.amounts)
    }

    /// Returns the kinds with an amount above 0.
    pub fn some(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.iter().filter(|(_, amount)| *amount > 0)
    }

    /// Returns the sum of all kinds.
    pub fn total(&self) -> u64 {
        self.of(K::ALL)
    }

    /// Returns the sum of some kinds.
    pub fn of(&self, kinds: &[K]) -> u64 {
        kinds.iter().fold(0, |sum, kind| sum.saturating_add(self[*kind]))
    }

    fn written(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.iter().filter(|(_, amount)| K::ZEROS || *amount > 0).map(|(kind, amount)| (kind.name(), amount))
    }
}

impl<K: Kind, const N: usize> Default for ByKind<K, N> {
    fn default() -> ByKind<K, N> {
        ByKind::new([0; N])
    }
}

impl<K: Kind, const N: usize> fmt::Debug for ByKind<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.written()).finish()
    }
}

impl<K: Kind, const N: usize> Index<K> for ByKind<K, N> {
    type Output = u64;

    fn index(&self, kind: K) -> &u64 {
        &self.amounts[Kind::index(kind)]
    }
}

impl<K: Kind, const N: usize> IndexMut<K> for ByKind<K, N> {
    fn index_mut(&mut self, kind: K) -> &mut u64 {
        &mut self.amounts[Kind::index(kind)]
    }
}

impl<K: Kind, const N: usize> FromIterator<(K, u64)> for ByKind<K, N> {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(amounts: I) -> ByKind<K, N> {
        let mut all = ByKind::default();
        for (kind, amount) in amounts {
            all[kind].sum(&amount);
        }
        all
    }
}

impl<K: Kind, const N: usize> Amount for ByKind<K, N> {
    fn sum(&mut self, other: &ByKind<K, N>) {
        for (all, one) in self.amounts.iter_mut().zip(&other.amounts) {
            all.sum(one);
        }
    }
}

impl<K: Kind, const N: usize> Value for ByKind<K, N> {
    fn number(&self) -> Option<u64> {
        Some(self.total())
    }
}

impl<K: Kind, const N: usize> Serialize for ByKind<K, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.written())
    }
}

impl<'de, K: Kind, const N: usize> Deserialize<'de> for ByKind<K, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByKind<K, N>, D::Error> {
        let amounts = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let kind = |name: &str| K::ALL.iter().copied().find(|kind| kind.name() == name).or(K::UNKNOWN);
        Ok(amounts.into_iter().filter_map(|(name, amount)| Some((kind(&name)?, amount))).collect())
    }
}

impl<K: Kind, const N: usize> JsonSchema for ByKind<K, N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ByKind".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_by_name_and_read_again() {
        let by: ByCause = [(Cause::Futex, 5), (Cause::PageFault, 7)].into_iter().collect();
        let json = serde_json::to_string(&by).unwrap();
        assert_eq!(json, r#"{"futex":5,"page_fault":7}"#);
        assert_eq!(serde_json::from_str::<ByCause>(&json).unwrap(), by);
        let none = serde_json::to_string(&ByMigration::default()).unwrap();
        assert_eq!(none, r#"{"at_wakeup":0,"while_queued":0,"by_affinity":0}"#);
    }

    #[test]
    fn a_cause_that_this_version_does_not_know_is_not_lost() {
        let by: ByCause = serde_json::from_str(r#"{"futex":5,"gpu":7,"dma":2}"#).unwrap();
        assert_eq!((by[Cause::Futex], by[Cause::Unspecified], by.total()), (5, 9, 14));
        let by: ByMigration = serde_json::from_str(r#"{"at_wakeup":5,"by_magic":7}"#).unwrap();
        assert_eq!(by, ByMigration::new([5, 0, 0]), "a kind of migration is left out");
    }

    #[test]
    fn each_kind_stands_at_its_index() {
        fn check<K: Kind + std::fmt::Debug>() {
            for (at, kind) in K::ALL.iter().enumerate() {
                assert_eq!(kind.index(), at, "{kind:?}");
            }
        }
        check::<Cause>();
        check::<Migration>();
    }
}
