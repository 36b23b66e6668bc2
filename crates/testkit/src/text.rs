//! Random changes to the numbers and lines of a text, which stays valid text.

use std::collections::BTreeSet;

use crate::Random;

/// Replaces some numbers of a text by other numbers.
pub fn change_numbers(text: &mut String, random: &mut Random) {
    let numbers: Vec<std::ops::Range<usize>> = numbers(text);
    if numbers.is_empty() {
        return;
    }
    // Replace from the end, so that the ranges before it stay valid.
    let chosen: BTreeSet<usize> = (0..=random.below(4)).map(|_| random.below(numbers.len())).collect();
    for at in chosen.into_iter().rev() {
        let range = numbers[at].clone();
        let old = &text[range.clone()];
        let new = match random.below(8) {
            0 => format!("-{}", random.nasty()),
            1 => format!("{}.{}", random.nasty(), random.nasty()),
            2 => format!("{}e{}", random.below(10), random.below(310)),
            // Of the same length or shorter, so that the new number fits into a narrow field.
            3 | 4 => {
                let new = random.nasty().to_string();
                new[..new.len().min(old.len())].to_owned()
            }
            _ => random.nasty().to_string(),
        };
        text.replace_range(range, &new);
    }
}

fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut ranges, mut from) = (Vec::new(), None);
    for (at, byte) in text.bytes().chain([0]).enumerate() {
        match (byte.is_ascii_digit(), from) {
            (true, None) => from = Some(at),
            (false, Some(start)) => {
                ranges.push(start..at);
                from = None;
            }
            _ => {}
        }
    }
    ranges
}

/// Swaps, repeats or removes lines.
pub fn change_lines(text: &mut String, random: &mut Random) {
    let mut lines: Vec<&str> = text.lines().collect();
    for _ in 0..=random.below(3) {
        change_order(&mut lines, random);
    }
    *text = lines.iter().flat_map(|line| [*line, "\n"]).collect();
}

/// Swaps two items, copies one to another position, or removes one.
pub(crate) fn change_order<T: Clone>(items: &mut Vec<T>, random: &mut Random) {
    if items.is_empty() {
        return;
    }
    let (one, other) = (random.below(items.len()), random.below(items.len()));
    match random.below(3) {
        0 => items.swap(one, other),
        1 => items.insert(other, items[one].clone()),
        _ => {
            items.remove(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_changed_and_nothing_else() {
        let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit() || "-.e".contains(c), "");
        let text = (0..20).map(|n| format!("k{n} [{}];", n * 1_000_003)).collect::<String>();
        for seed in 0..500 {
            let mut changed = text.clone();
            change_numbers(&mut changed, &mut Random::new(seed));
            assert_eq!(shape(&changed), shape(&text), "{seed}: {changed}");
            // Five numbers at most, each wherever it is.
            let differ = changed.split(';').zip(text.split(';')).filter(|(new, old)| new != old).count();
            assert!(differ <= 5, "{seed}: {changed}");
        }
        let mut none = "no number".to_owned();
        change_numbers(&mut none, &mut Random::new(1));
        assert_eq!(none, "no number");
    }
}
