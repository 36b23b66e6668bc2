//! What ticks did, as a table.

use interference::ticks::{Group, Part};
use report::noise::{TickGroup, TickPart};

/// Returns a group as a row.
pub fn row(group: Group) -> TickGroup {
    let Group { what, lengths_ns, parts } = group;
    let part = |Part { what, class, sum_ns }| TickPart { what, class: class.to_owned(), sum_ns };
    TickGroup {
        what,
        count: lengths_ns.len() as u64,
        sum_ns: lengths_ns.iter().sum(),
        median_ns: lengths_ns.get(lengths_ns.len() / 2).copied().unwrap_or(0),
        max_ns: lengths_ns.last().copied().unwrap_or(0),
        parts: parts.into_iter().map(part).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_a_sum_a_median_and_a_maximum() {
        let part = |what: &str, class, sum_ns| Part { what: what.to_owned(), class, sum_ns };
        let parts = vec![part("tick function", "tick", 8_000), part("entry and exit", "entry", 3_500)];
        let group = Group { what: "tick alone".to_owned(), lengths_ns: vec![1_500, 2_000, 8_000], parts };
        let row = row(group);
        assert_eq!((row.count, row.sum_ns, row.median_ns, row.max_ns), (3, 11_500, 2_000, 8_000));
        assert_eq!(row.parts.iter().map(|part| part.sum_ns).sum::<u64>(), row.sum_ns);
    }
}
