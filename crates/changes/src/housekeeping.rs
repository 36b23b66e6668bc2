//! CPUs that several sessions keep free: the value of a knob that all of them share ([`Claim::Without`](crate::Claim)). Pure functions.

use machine::CpuSet;

use crate::knob::Knob;

/// A knob's CPUs before any session changed it, and those that replace them where none is left.
pub(crate) struct Base<'b> {
    pub(crate) original: &'b CpuSet,
    pub(crate) otherwise: &'b CpuSet,
    /// The CPUs that the kernel lets the knob have at present; `None` if it lets it have all.
    pub(crate) possible: Option<Possible>,
    /// Whether an empty set means that the CPUs are not chosen yet, as in a new cpuset, and not that there are none, as
    /// in `rps_cpus`.
    pub(crate) is_open: bool,
}

/// CPUs that the kernel lets an affinity have. It takes those of a partition from a mask that somebody sets, although a thread
/// of the kernel may have been created with them. Whether it keeps CPUs that are offline depends on its version and the cpuset.
pub(crate) struct Possible {
    /// The online CPUs that it lets the mask have.
    pub(crate) cpus: CpuSet,
    /// All online CPUs.
    pub(crate) online: CpuSet,
}

impl<'b> Base<'b> {
    pub(crate) fn of(knob: &Knob, original: &'b CpuSet, otherwise: &'b CpuSet) -> Base<'b> {
        Base { original, otherwise, possible: None, is_open: matches!(knob, Knob::CpuList(_)) }
    }

    /// Takes into account what the kernel lets the knob have.
    pub(crate) fn within(self, possible: Option<Possible>) -> Base<'b> {
        Base { possible, ..self }
    }

    /// Returns the original without the CPUs of `claims`. If that leaves nothing, returns the replacing CPUs without them.
    pub(crate) fn without<'c>(&self, claims: impl IntoIterator<Item = &'c CpuSet>) -> CpuSet {
        let free = claims.into_iter().fold(CpuSet::new(), |free, cpus| free.union(cpus));
        let rest = self.original.difference(&free);
        let is_chosen = !self.original.is_empty() || self.is_open;
        if rest.is_empty() && is_chosen { self.otherwise.difference(&free) } else { rest }
    }

    /// Returns whether sessions with `claims` have set the value `now`: it lacks the CPUs of some of them, and nothing
    /// else. It may be of some of them only, because a session was killed before it wrote the value for all.
    pub(crate) fn is_without(&self, now: &CpuSet, claims: &[&CpuSet]) -> bool {
        let lacking: Vec<&CpuSet> = claims.iter().copied().filter(|cpus| now.intersection(cpus).is_empty()).collect();
        let set = self.without(lacking.iter().copied());
        !lacking.is_empty() && (set == *now || self.is_shown(now, &set))
    }

    /// Returns what the kernel shows after these CPUs were set; offline ones may be missing.
    pub(crate) fn shown(&self, set: &CpuSet) -> CpuSet {
        let Some(Possible { cpus, online }) = &self.possible else { return set.clone() };
        set.difference(&online.difference(cpus))
    }

    /// Returns whether the kernel may show `now` after the CPUs `set` were set.
    fn is_shown(&self, now: &CpuSet, set: &CpuSet) -> bool {
        let shown = self.shown(set);
        let is_offline = |missing: &CpuSet| {
            self.possible.as_ref().is_some_and(|possible| missing.intersection(&possible.online).is_empty())
        };
        *now == shown || (!now.is_empty() && now.is_subset(&shown) && is_offline(&shown.difference(now)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn what_is_left_is_never_empty_unless_it_was() {
        let (online, some, none) = (cpus("0-7"), cpus("2-4"), cpus(""));
        let base = |original, is_open| Base { original, otherwise: &online, possible: None, is_open };
        assert_eq!(base(&some, false).without([&cpus("3"), &cpus("7")]), cpus("2,4"));
        assert_eq!(base(&some, false).without([&cpus("2-4")]), cpus("0-1,5-7"));
        assert_eq!(base(&none, false).without([&cpus("2-4")]), cpus(""));
        assert_eq!(base(&none, true).without([&cpus("2-4")]), cpus("0-1,5-7"));
    }

    proptest! {
        /// Whichever sessions have written last, their value is recognised; one with less CPUs is somebody else's.
        #[test]
        fn a_value_of_some_sessions_is_recognised(original in 0u32..256, one in 0u32..256, two in 0u32..256, which in 1..4) {
            let set = |bits: u32| -> CpuSet { (0..8).filter(|cpu| bits & (1 << cpu) != 0).collect() };
            let (original, online) = (set(original), set(255));
            let (one, two) = (set(one), set(two & !one));
            let base = Base { original: &original, otherwise: &online, possible: None, is_open: false };
            let claims = [&one, &two];
            let of_some: Vec<&CpuSet> = (0..2).filter(|at| which & (1 << at) != 0).map(|at| claims[at as usize]).collect();
            let now = base.without(of_some);
            prop_assert!(base.is_without(&now, &claims));
            let free = one.union(&two);
            let less: CpuSet = now.iter().skip(1).collect();
            if now.intersection(&free).is_empty() && less != base.without(claims) && !now.is_empty() {
                prop_assert!(!base.is_without(&less, &claims));
            }
        }
    }
}
