//! Text from outside, made harmless for HTML and SVG.

use std::fmt::{self, Display, Formatter, Write};

use crate::style::is_unseen;

/// HTML or SVG that is being written. Writing cannot fail, so `write!` and `writeln!` return nothing here.
#[derive(Default)]
pub(crate) struct Markup(pub String);

impl Markup {
    pub(crate) fn push_str(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Implements `write!` and `writeln!`.
    pub(crate) fn write_fmt(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(markup);
    }
}

/// Text that is shown literally, in elements and in quoted attributes of HTML and SVG. Names come from programs: markup characters are escaped,
/// and characters that are invisible or change the direction of the following text become `?`.
pub(crate) struct Safe<T>(pub T);

impl<T: AsRef<str>> Display for Safe<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.as_ref().chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ if is_unseen(character) => f.write_char('?')?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Keeps a number and its unit on one line, by a no-break space.
pub(crate) fn unbroken(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(' ') {
        let unit: String = after.chars().take_while(|c| c.is_alphabetic() || *c == '%').collect();
        let is_one =
            before.ends_with(|c: char| c.is_ascii_digit()) && ["%", "s", "ms", "µs", "ns"].contains(&unit.as_str());
        kept.push_str(before);
        kept.push(if is_one { '\u{a0}' } else { ' ' });
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::{Safe, unbroken};

    #[test]
    fn units_stay_with_their_numbers() {
        assert_eq!(unbroken("50 % for 2 CPUs, 3 s (5 ms)."), "50\u{a0}% for 2 CPUs, 3\u{a0}s (5\u{a0}ms).");
        assert_eq!(unbroken("50"), "50");
    }

    #[test]
    fn names_cannot_be_markup() {
        let name = Safe("</script><b onclick='x()'>&\"\u{1b}[31m\u{202e}");
        assert_eq!(name.to_string(), "&lt;/script&gt;&lt;b onclick=&#39;x()&#39;&gt;&amp;&quot;?[31m?");
        assert_eq!(Safe("温度 é").to_string(), "温度 é");
    }

    #[test]
    fn names_that_look_alike_are_told_apart() {
        let directions = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain(['\u{61c}']);
        let invisible =
            ('\u{200b}'..='\u{200f}').chain(['\u{feff}', '\u{ad}', '\u{2060}', '\u{2028}', '\u{2029}', '\u{e0041}']);
        let controls = ('\0'..=' ').filter(|c| *c != ' ').chain('\u{7f}'..='\u{9f}');
        for character in directions.chain(invisible).chain(controls) {
            assert_eq!(Safe(format!("a{character}b")).to_string(), "a?b", "{:x}", u32::from(character));
        }
        // What is not invisible stays, also what stands beside it.
        for character in
            ['\u{a0}', '\u{ac}', '\u{ae}', '\u{200a}', '\u{2010}', '\u{202f}', '\u{2070}', '\u{301}', '\u{2801}']
        {
            assert_eq!(Safe(character.to_string()).to_string(), character.to_string());
        }
    }
}
