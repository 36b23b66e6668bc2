//! Text from outside, made harmless.

use std::fmt::{self, Display, Formatter, Write};

/// Text that is shown as it is, in elements and in quoted attributes. Names come from programs: what could be markup is escaped, and characters that
/// cannot be seen, or that turn the direction of what follows, become `?`.
pub(super) struct Safe<T>(pub T);

impl<T: AsRef<str>> Display for Safe<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.as_ref().chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_char('?')?,
                _ if character.is_control() => f.write_char('?')?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Safe;

    #[test]
    fn names_cannot_be_markup() {
        let name = Safe("</script><b onclick='x()'>&\"\u{1b}[31m\u{202e}");
        assert_eq!(name.to_string(), "&lt;/script&gt;&lt;b onclick=&#39;x()&#39;&gt;&amp;&quot;?[31m?");
        assert_eq!(Safe("温度 é").to_string(), "温度 é");
    }
}
