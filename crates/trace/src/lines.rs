//! What the readers of text files share: lines of bounded length, decimal numbers, and errors that name the line.

use std::io::{self, BufRead, Read};

/// Maximum number of characters of a file that a message quotes.
const QUOTED: usize = 40;
/// Maximum number of digits after the decimal point that count. With 20 digits before it, the number still fits in 128 bits.
const FRACTION: usize = 18;

/// Reasons why a text file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is wrong.
    #[error("line {line}: {wrong}")]
    Line {
        /// Number of the line, counted from one.
        line: u64,
        /// What is wrong, in one sentence.
        wrong: String,
    },
    /// The file has no line with data. The field says which data.
    #[error("the file contains no {0}")]
    Empty(&'static str),
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn at(line: u64) -> impl Fn(String) -> Error {
        move |wrong| Error::Line { line, wrong }
    }
}

/// The lines of a text. One line is in memory at a time.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    line: u64,
    most_bytes: usize,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of at most `most_bytes` bytes, without the end of the line.
    pub(crate) fn new(input: R, most_bytes: usize) -> Lines<R> {
        Lines { input, buffer: Vec::new(), line: 0, most_bytes }
    }

    /// Returns the next line without its end (`\n` or `\r\n`), and its number; `None` at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>, Error> {
        self.buffer.clear();
        // Two more bytes for the end of the line.
        let most = self.most_bytes as u64 + 2;
        if self.input.by_ref().take(most).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let wrong = Error::at(self.line);
        if line.len() > self.most_bytes {
            return Err(wrong(format!("the line is longer than {} bytes", self.most_bytes)));
        }
        let text = str::from_utf8(line).map_err(|_| wrong("the line is not UTF-8 text".to_owned()))?;
        Ok(Some((self.line, text)))
    }
}

/// Parses a number that is not negative, as C's `printf` writes it (`12`, `12.50`, `1.25e+01`), and returns it multiplied by ten to the power of
/// `decimals`. Further digits are cut off.
///
/// # Errors
/// What is wrong, in one sentence.
pub(crate) fn decimal(text: &str, decimals: i32) -> Result<u128, String> {
    let no_number = || format!("{} is not a number", quoted(text));
    let too_large = || format!("{} is too large", quoted(text));
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().map_err(|_| no_number())?),
        None => (text, 0i32),
    };
    let is_negative = mantissa.starts_with('-');
    let mantissa = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || mantissa.len() == mantissa.matches('.').count() {
        return Err(no_number());
    }
    if is_negative {
        return Err(format!("{} is negative", quoted(text)));
    }
    let fraction = &fraction[..fraction.len().min(FRACTION)];
    let digits = whole.bytes().chain(fraction.bytes()).map(|digit| u128::from(digit - b'0'));
    let number = digits.into_iter().try_fold(0u128, |number, digit| number.checked_mul(10)?.checked_add(digit));
    let number = number.ok_or_else(too_large)?;
    let power = exponent.saturating_add(decimals).saturating_sub(fraction.len() as i32);
    let factor = 10u128.checked_pow(power.unsigned_abs());
    match (number, factor) {
        (0, _) => Ok(0),
        (_, Some(factor)) if power < 0 => Ok(number / factor),
        (_, None) if power < 0 => Ok(0),
        (_, factor) => factor.and_then(|factor| number.checked_mul(factor)).ok_or_else(too_large),
    }
}

/// Quotes a part of a file for a message: shortened, and with control characters replaced by escape sequences.
pub(crate) fn quoted(text: &str) -> String {
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(QUOTED).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("'{}{more}'", start.escape_debug())
}

/// Returns a comment as it fits in one line of at most `most_bytes` bytes: control characters are replaced, and the end is cut off.
pub(crate) fn in_a_line(comment: &str, most_bytes: usize) -> String {
    let comment = comment.replace(char::is_control, "?");
    let mut end = comment.len().min(most_bytes);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    comment[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_decimal_number_is_exact() {
        for (text, thousandths) in [
            ("12", 12_000),
            ("12.5", 12_500),
            ("12.", 12_000),
            (".5", 500),
            ("+3", 3000),
            ("0.0019", 1),
            ("1.250000000000000000e+03", 1_250_000),
            ("125E-1", 12_500),
            ("1e-99", 0),
            ("0e999999999", 0),
            ("0.12345678901234567890123456789012345678901234567890", 123),
            ("18446744073709551615", u128::from(u64::MAX) * 1000),
        ] {
            assert_eq!(decimal(text, 3), Ok(thousandths), "{text}");
        }
        for text in ["", ".", "+", "e5", "1.2.3", "1e", "1e5.0", "0x10", "nan", "inf", "1,5", "--1", "1 2", "٣"] {
            assert_eq!(decimal(text, 3), Err(format!("'{text}' is not a number")));
        }
        assert_eq!(decimal("-1.5", 3), Err("'-1.5' is negative".to_owned()));
        let large = "9".repeat(50);
        assert_eq!(decimal(&large, 3), Err(format!("'{}…' is too large", "9".repeat(40))));
        assert_eq!(decimal("1e40", 3), Err("'1e40' is too large".to_owned()));
    }

    #[test]
    fn a_line_has_a_limit_and_a_number() {
        let mut lines = Lines::new(&b"1234\r\n\n12345\n"[..], 4);
        assert_eq!(lines.next().unwrap(), Some((1, "1234")));
        assert_eq!(lines.next().unwrap(), Some((2, "")));
        assert_eq!(lines.next().unwrap_err().to_string(), "line 3: the line is longer than 4 bytes");
        let mut lines = Lines::new(&b"ok\nno\xff\n"[..], 4);
        assert_eq!(lines.next().unwrap(), Some((1, "ok")));
        assert_eq!(lines.next().unwrap_err().to_string(), "line 2: the line is not UTF-8 text");
        assert_eq!(Lines::new(&b"end"[..], 4).next().unwrap(), Some((1, "end")));
        // A line without an end occupies no more memory than the longest line.
        let mut lines = Lines::new(io::BufReader::new(io::repeat(b'x').take(100_000)), 1000);
        assert!(lines.next().is_err() && lines.buffer.capacity() < 10_000, "{}", lines.buffer.capacity());
    }

    #[test]
    fn a_quotation_is_one_short_line() {
        assert_eq!(quoted("a\n\u{1b}[2Jb"), "'a\\n\\u{1b}[2Jb'");
        assert_eq!(in_a_line("a\nb", 10), "a?b");
        assert_eq!(in_a_line("aü", 2), "a");
    }

    proptest! {
        #[test]
        fn any_fixed_point_number_is_read_exactly(whole: u64, thousandths in 0u64..1000) {
            let exact = u128::from(whole) * 1000 + u128::from(thousandths);
            prop_assert_eq!(decimal(&format!("{whole}.{thousandths:03}"), 3), Ok(exact));
            prop_assert_eq!(decimal(&format!("{exact}e-3"), 3), Ok(exact));
        }

        #[test]
        fn any_text_is_a_number_or_an_error(text in "[-+.eE0-9]{0,60}", decimals in 0..10) {
            let _ = decimal(&text, decimals);
        }
    }
}
