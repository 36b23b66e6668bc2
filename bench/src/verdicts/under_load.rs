//! Whether a verdict stands if another program uses a CPU: cox observes a situation alone and beside a hog, and the two verdicts are compared.

use advise::Kind;
use serde::Serialize;

use super::limits::share;
use super::result::Told;
use crate::verdict::Verdict;

/// The verdicts on one situation, alone and beside the other program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The situation, as `Situation::key` returns it.
    pub key: String,
    /// The verdict on the run alone.
    pub alone: Told,
    /// The verdict on the run beside the other program.
    pub under_load: Told,
}

impl Pair {
    fn is_same(&self) -> bool {
        self.alone.headline == self.under_load.headline
    }

    /// Returns whether the other program became the headline.
    fn names_the_other(&self) -> bool {
        !self.is_same() && self.under_load.headline == Kind::CpuHog
    }

    /// Returns whether the same headline has a higher confidence. Another headline is another claim, with a confidence of its own.
    fn is_surer(&self) -> bool {
        self.is_same() && self.under_load.confidence > self.alone.confidence
    }

    /// Returns the line of the pair: both headlines with their confidence, and what is wrong.
    pub fn line(&self) -> String {
        let told = |told: &Told| format!("{} ({})", told.headline, told.confidence);
        let changed = match () {
            () if self.is_same() => "",
            () if self.names_the_other() => "  names the other program",
            () => "  another headline",
        };
        let surer = if self.is_surer() { "  more confident" } else { "" };
        format!(
            "{}: {}, beside another program {}{changed}{surer}",
            self.key,
            told(&self.alone),
            told(&self.under_load)
        )
    }
}

/// Compares the pairs with the limits. A headline may become "another program uses the CPUs", because the other program is then a loss like any
/// other, and can be the largest one.
pub fn verdicts(pairs: &[Pair]) -> Vec<Verdict> {
    let count = |is: fn(&Pair) -> bool| pairs.iter().filter(|pair| is(pair)).count();
    let kept = count(|pair| pair.is_same() || pair.names_the_other());
    let named = count(Pair::names_the_other);
    let mut same = share("same headline, or the other program's", kept, pairs.len(), 0.8, true);
    same.text = format!("{}; of these, {named} name the other program", same.text);
    let (compared, surer) = (count(Pair::is_same), count(Pair::is_surer));
    vec![same, share("same or lower confidence in the same headline", compared - surer, compared, 0.95, true)]
}

#[cfg(test)]
mod tests {
    use advise::Confidence::{self, High, Low, Medium};

    use super::*;
    use crate::verdict::Outcome;

    fn pair(alone: (Kind, Confidence), under_load: (Kind, Confidence)) -> Pair {
        let told = |(headline, confidence)| Told { headline, confidence, bound: None, wall_s: 1.0, others: 0.0 };
        Pair { key: "cg n=2 plain".to_owned(), alone: told(alone), under_load: told(under_load) }
    }

    #[test]
    fn headlines_and_confidence_have_limits() {
        let same = || pair((Kind::Serial, High), (Kind::Serial, Low));
        let hog = || pair((Kind::Serial, Medium), (Kind::CpuHog, Medium));
        let other = || pair((Kind::Serial, High), (Kind::Imbalance, High));
        let surer = || pair((Kind::Serial, Low), (Kind::Serial, High));
        let outcomes = |pairs: &[Pair]| verdicts(pairs).iter().map(|verdict| verdict.outcome).collect::<Vec<_>>();
        assert_eq!(outcomes(&[same(), hog()]), [Outcome::Pass, Outcome::Pass]);
        assert_eq!(outcomes(&[same(), same(), same(), hog(), other()]), [Outcome::Pass, Outcome::Pass], "four of five");
        assert_eq!(outcomes(&[same(), same(), hog(), other()]), [Outcome::Fail, Outcome::Pass]);
        assert_eq!(outcomes(&[same(), surer()]), [Outcome::Pass, Outcome::Fail]);
        assert_eq!(outcomes(&[]), [Outcome::NotMeasured, Outcome::NotMeasured]);
        assert!(verdicts(&[same(), hog()])[0].text.ends_with("; of these, 1 name the other program"));
    }

    #[test]
    fn a_line_says_what_changed() {
        let line = |alone, under_load| pair(alone, under_load).line();
        let same = line((Kind::Serial, High), (Kind::Serial, Low));
        assert_eq!(same, "cg n=2 plain: serial (high), beside another program serial (low)");
        assert!(line((Kind::Serial, Low), (Kind::Serial, High)).ends_with("serial (high)  more confident"));
        let worse = line((Kind::Serial, Low), (Kind::Imbalance, High));
        assert!(worse.ends_with("imbalance (high)  another headline"), "{worse}");
        assert!(line((Kind::Serial, High), (Kind::CpuHog, High)).ends_with("names the other program"));
    }
}
