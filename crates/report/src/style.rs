//! How text is formatted: width, colour and character set.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What the reader's terminal supports, and how much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colours.
    pub color: bool,
    /// Use characters beyond ASCII.
    pub unicode: bool,
    /// Width of the terminal, in columns.
    pub width: usize,
    /// List every thread instead of the ten that lost most.
    pub all_threads: bool,
}

impl Default for Style {
    /// The style for a UTF-8 file: 100 columns, no colour.
    fn default() -> Style {
        Style { color: false, unicode: true, width: 100, all_threads: false }
    }
}

/// The smallest width that is used; narrower terminals wrap the lines themselves.
const NARROWEST: usize = 60;

impl Style {
    /// Returns the number of columns to use.
    pub fn columns(&self) -> usize {
        self.width.max(NARROWEST)
    }

    /// Returns text as this terminal can show it. Names come from programs, so characters that could control the terminal, or that are invisible,
    /// become `?`.
    pub fn clean(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                _ if is_unseen(character) => clean.push('?'),
                _ if self.unicode || character.is_ascii() => clean.push(character),
                '·' | '–' | '—' | '−' => clean.push('-'),
                '→' => clean.push_str("->"),
                '←' => clean.push_str("<-"),
                '…' => clean.push_str("..."),
                '×' => clean.push('x'),
                'µ' => clean.push('u'),
                '±' => clean.push_str("+/-"),
                '≥' => clean.push_str(">="),
                '’' => clean.push('\''),
                _ => clean.push('?'),
            }
        }
        clean
    }

    /// Returns text as this terminal can show it, broken at spaces into lines. The first line is indented by `first`, the others by `rest`. A word
    /// that is longer than a line is cut.
    pub fn wrapped(&self, text: &str, first: &str, rest: &str) -> Vec<String> {
        let lines = broken(&self.clean(text), self.columns(), first, rest);
        lines.iter().map(|line| shortened(line, self.columns(), "~")).collect()
    }

    /// Returns a section of a report: its heading, and the lines below it.
    pub(crate) fn section(&self, heading: &str, below: &[String]) -> Vec<String> {
        let below = below.iter().flat_map(|line| self.wrapped(line, "    ", "      "));
        self.wrapped(heading, "  ", "      ").into_iter().chain(below).collect()
    }

    /// Returns a report that stands alone: a line that names the program, and the lines below it.
    pub(crate) fn alone(&self, command: &[String], heading: &str, below: &[String]) -> String {
        let command = command.first().map_or("?", String::as_str);
        let mut lines = self.wrapped(&format!("cox: {command} · {heading}"), "", "    ");
        lines.push(String::new());
        lines.extend(below.iter().flat_map(|line| self.wrapped(line, "  ", "    ")));
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Returns `text` in an ANSI style, if colours are wanted.
    fn painted(&self, text: &str, code: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Styles the line that names the run.
    pub fn title(&self, text: &str) -> String {
        self.painted(text, "1")
    }

    /// Styles a step: something that the user can try.
    pub fn step(&self, text: &str) -> String {
        self.painted(text, "32")
    }

    /// Styles the headings of tables.
    pub fn heading(&self, text: &str) -> String {
        self.painted(text, "2")
    }

    /// Styles a warning about how far the conclusions can be trusted.
    pub fn warning(&self, text: &str) -> String {
        self.painted(text, "33")
    }
}

/// Returns whether a character is a control character, changes the direction of the following text (Unicode's Bidi_Control), or is invisible:
/// Default_Ignorable_Code_Point of Unicode 16, line separators, annotations, and the empty Braille cell. With such characters, a name could look
/// like another one.
pub(crate) fn is_unseen(character: char) -> bool {
    let unseen = matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    unseen || character.is_control()
}

/// Returns the width of a text on a terminal, in columns.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Cuts `text` to at most `most` columns, with `mark` in place of the part that was cut.
pub fn shortened(text: &str, most: usize, mark: &str) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(columns(mark));
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > room {
            break;
        }
        kept.push(character);
    }
    kept + mark
}

/// Units that stay on the same line as their number.
const UNITS: [&str; 6] = ["%", "s", "ms", "µs", "us", "ns"];

/// Splits a text into words; a number and its unit are one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_end_matches([',', ';', '.', ':', ')']);
        let number = words.last().is_some_and(|last| last.ends_with(|c: char| c.is_ascii_digit()));
        match words.last_mut() {
            Some(last) if number && UNITS.contains(&bare) => *last = format!("{last} {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Breaks `text` at spaces into lines of at most `width` columns; a longer word is not broken. The first line is indented by `first`, the others by
/// `rest`.
pub(crate) fn broken(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(&word) <= width => line.extend([" ", &word]),
            Some(_) => lines.push(format!("{rest}{word}")),
            None => lines.push(format!("{first}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_utf8_nothing_beyond_ascii_is_left() {
        let style = Style { unicode: false, ..Style::default() };
        assert_eq!(style.clean("a · b → c… 1.3–1.5× ±1 6 µs 漢\x1b[31m"), "a - b -> c... 1.3-1.5x +/-1 6 us ??[31m");
        assert_eq!(Style::default().clean("µ\n\u{202e}\u{200b}"), "µ???");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(shortened("漢字漢字", 5, "…"), "漢字…");
        assert_eq!(shortened("heat", 4, "…"), "heat");
    }

    #[test]
    fn lines_break_at_spaces_and_never_overflow() {
        assert_eq!(broken("took 34 %, or 5 ms of", 9, "", ""), ["took", "34 %, or", "5 ms of"]);
        assert_eq!(broken("one two three", 9, "  ", "    "), ["  one two", "    three"]);
        let long = format!("a {} b", "verylongwordindeed".repeat(9));
        let style = Style { width: 80, ..Style::default() };
        let lines = style.wrapped(&long, "", "  ");
        assert!(
            lines.len() == 3 && lines.iter().all(|line| columns(line) <= 80) && lines[1].ends_with('~'),
            "{lines:?}"
        );
    }

    #[test]
    fn colour_only_when_told() {
        assert_eq!(Style::default().title("x"), "x");
        assert_eq!(Style { color: true, ..Style::default() }.title("x"), "\x1b[1mx\x1b[0m");
    }
}
