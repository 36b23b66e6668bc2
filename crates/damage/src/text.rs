//! What happens to numbers and lines of a text, which stays one.

use crate::Random;

/// Puts other numbers in the place of some of the `numbers` of a text.
pub fn change_numbers(text: &mut String, random: &mut Random) {
    let numbers: Vec<std::ops::Range<usize>> = numbers(text);
    for _ in 0..=random.below(4) {
        // From the end: what was found before it stays where it is.
        let Some(range) = numbers.get(random.below(numbers.len())).cloned() else { return };
        let Some(old) = text.get(range.clone()).filter(|old| old.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        let new = match random.below(8) {
            0 => format!("-{}", random.nasty()),
            1 => format!("{}.{}", random.nasty(), random.nasty()),
            2 => format!("{}e{}", random.below(10), random.below(310)),
            // As long as it was, so that as many others as possible can be changed too, and a narrow field can hold it.
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

/// Puts lines in another order, twice, or leaves them out.
pub fn change_lines(text: &mut String, random: &mut Random) {
    let mut lines: Vec<&str> = text.lines().collect();
    for _ in 0..=random.below(3) {
        change_order(&mut lines, random);
    }
    *text = lines.iter().flat_map(|line| [*line, "\n"]).collect();
}

/// Exchanges two items, copies one to another place, or drops one.
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
