//! Reads journals of this version and of earlier ones, complete, incomplete or damaged, and recognises foreign files.
//!
//! A journal of this version, and of format 3, begins with the line `coxswain journal FORMAT STEM`, where STEM is the file's name without
//! the ending; the next line describes the session. Formats 1 and 2 begin with the line that describes the session; the
//! file is named after the process in that line. A file with another beginning is not read any further.

use std::io::{self, BufRead, Read};
use std::ops::RangeInclusive;

use crate::files::Name;
use crate::format::{Change, FIRST_NAMED, FIRST_WORDS, FORMAT, Header, Line, first_line_of};

/// The longest journal that is read, in bytes; the rest of a longer one counts as damaged. A journal of a million
/// threads takes a third of this.
pub(crate) const LONGEST: u64 = 1 << 30;
/// The longest line, in bytes. Command lines are cut, and the list of all CPUs that Linux supports takes 40 KB.
const LONGEST_LINE: u64 = 1 << 20;
/// The longest first line, in bytes: `coxswain journal 3 4294967295-ffffffffffffffff` has 47.
const LONGEST_FIRST: u64 = 128;
/// The beginning of formats 1 and 2.
const OLD_BEGINNING: &[u8] = b"{\"session\":{\"format\":";

/// The content of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The session that wrote the journal.
    pub header: Header,
    /// The changes that the journal announces, in the order of its lines.
    pub changes: Vec<Change>,
    /// The values that new threads may inherit from the session. Each item names a knob of a process's first thread,
    /// and holds for the same knob of all threads of that process.
    pub births: Vec<Change>,
    /// True if the changes outlast the session's process ([`Session::keep`](crate::Session::keep)).
    pub lasts: bool,
}

/// The result of reading a file with a journal's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The session was killed before the line about the session was complete, so nothing was changed.
    Torn,
    /// The journal's content, and which parts could not be read. An incomplete last line is not damage: the change
    /// that it announces had not begun.
    Record(Record, Option<String>),
    /// A journal of this program whose session line cannot be read; the text says why.
    Unreadable(String),
    /// A journal in this later format, of a later version of this program.
    Newer(u32),
    /// Not a journal of this program; the text says why.
    Foreign(&'static str),
}

/// Reads the content of a file with this name.
///
/// # Errors
/// Fails if reading fails.
pub fn read(text: impl Read, name: &Name) -> io::Result<Content> {
    let mut text = io::BufReader::new(text.take(LONGEST));
    if let Some(content) = begin(&mut text, name)? {
        return Ok(content);
    }
    let (formats, at) = if name.id.is_some() { (FIRST_NAMED..=FORMAT, 2) } else { (1..=2, 1) };
    let header = match piece(&mut text, LONGEST_LINE)? {
        Piece::Torn(_) => return Ok(Content::Torn),
        Piece::TooLong => Err("it is too long".to_owned()),
        Piece::Line(line) => session(&line, name, &formats),
    };
    match header {
        Ok(header) => rest(&mut text, header, at + 1),
        Err(why) => Ok(Content::Unreadable(format!("line {at} does not describe the session: {why}"))),
    }
}

/// Returns why a file with this name is not a journal of this program; `None` if it is one, of any version and in any
/// state. Reads only its beginning.
///
/// # Errors
/// Fails if reading fails.
pub(crate) fn foreign(text: impl Read, name: &Name) -> io::Result<Option<&'static str>> {
    Ok(match begin(&mut io::BufReader::new(text), name)? {
        Some(Content::Foreign(why)) => Some(why),
        _ => None,
    })
}

/// Reads the first line of a file, or, if its name is that of an earlier format, only the first words, which are always
/// the same. If this shows that the rest need not be read (not a journal, a later format, or an incomplete line),
/// returns the result; otherwise `None`.
fn begin(text: &mut impl BufRead, name: &Name) -> io::Result<Option<Content>> {
    const OTHER: Content = Content::Foreign("its first line does not match its name");
    if name.id.is_none() {
        let is_old = text.fill_buf()?.starts_with(OLD_BEGINNING);
        return Ok((!is_old).then_some(Content::Foreign("it does not begin like a journal")));
    }
    let mut wanted = (FIRST_NAMED..=FORMAT).map(|format| first_line_of(format, name));
    // The length is limited, because a foreign file may contain a terabyte without a line end.
    Ok(match piece(&mut text.by_ref().take(LONGEST_FIRST), LONGEST_FIRST)? {
        Piece::Line(line) if wanted.any(|wanted| line == wanted.as_bytes()) => None,
        Piece::Line(line) => {
            let line = String::from_utf8_lossy(&line);
            let format = line.strip_prefix(FIRST_WORDS).and_then(|rest| rest.strip_suffix(&format!(" {name}")));
            match format.and_then(|format| format.parse().ok()) {
                Some(format) if format > FORMAT => Some(Content::Newer(format)),
                _ => Some(OTHER),
            }
        }
        Piece::Torn(part) if wanted.any(|wanted| wanted.as_bytes().starts_with(&part)) => Some(Content::Torn),
        Piece::Torn(_) | Piece::TooLong => Some(OTHER),
    })
}

fn session(line: &[u8], name: &Name, formats: &RangeInclusive<u32>) -> Result<Header, String> {
    match serde_json::from_slice::<Line<Header, Change>>(line) {
        Ok(Line::Session(header)) if header.pid != name.pid => {
            Err(format!("it names process {}, but the file's name says {}", header.pid, name.pid))
        }
        Ok(Line::Session(header)) if formats.contains(&header.format) => Ok(header),
        Ok(Line::Session(header)) => Err(format!("format {}", header.format)),
        Ok(_) => Err("it describes a change".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the lines that follow the line about the session. `first` is the line number of the first of them.
fn rest(text: &mut impl BufRead, header: Header, first: usize) -> io::Result<Content> {
    let mut record = Record { header, changes: Vec::new(), births: Vec::new(), lasts: false };
    let (mut bad, mut damage) = (0, None);
    for at in first.. {
        let line = match piece(text, LONGEST_LINE)? {
            Piece::Torn(_) => break,
            Piece::TooLong => Err("it is too long".to_owned()),
            Piece::Line(line) => announced(&mut record, &line).inspect_err(|_| {
                // When a full disk had cut a line short, earlier versions continued in the same line. So also read the
                // entry that follows the incomplete one.
                if let Some(start) = last_start(&line) {
                    let _ = announced(&mut record, &line[start..]);
                }
            }),
        };
        if let Err(why) = line {
            bad += 1;
            damage.get_or_insert_with(|| format!("line {at} cannot be read ({why})"));
        }
    }
    let damage =
        damage.map(
            |first| if bad > 1 { format!("{first}, and {} more lines cannot be read either", bad - 1) } else { first },
        );
    Ok(Content::Record(record, damage))
}

/// Parses a line of the journal and adds its entry to `record`.
fn announced(record: &mut Record, line: &[u8]) -> Result<(), String> {
    match serde_json::from_slice::<Line<Header, Change>>(line).map_err(|error| error.to_string())? {
        Line::Change(change) => record.changes.push(change),
        Line::Births(births) => record.births.push(births),
        Line::Lasts(lasts) => record.lasts = lasts,
        Line::Session(_) => return Err("it describes a second session".to_owned()),
    }
    Ok(())
}

/// Returns where the last journal entry in a line begins, if this is not the start of the line.
fn last_start(line: &[u8]) -> Option<usize> {
    let begins =
        |at: &usize| [&b"{\"change\":"[..], b"{\"births\":"].iter().any(|words| line[*at..].starts_with(words));
    (1..line.len()).rev().find(begins)
}

enum Piece {
    /// A line, without its line end.
    Line(Vec<u8>),
    /// The text after the last line end; may be empty.
    Torn(Vec<u8>),
    /// A line that was too long and has been skipped.
    TooLong,
}

fn piece(text: &mut impl BufRead, longest: u64) -> io::Result<Piece> {
    let mut line = Vec::new();
    text.by_ref().take(longest).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Piece::Line(line));
    }
    if (line.len() as u64) < longest {
        return Ok(Piece::Torn(line));
    }
    loop {
        let buffer = text.fill_buf()?;
        let (length, found) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        let is_over = found || length == 0;
        text.consume(length);
        if is_over {
            return Ok(Piece::TooLong);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::{change, header, written};
    use proptest::prelude::*;

    const OLD: Name = Name { pid: 5, id: None };
    const NEW: Name = Name { pid: 5, id: Some(7) };
    /// Written by the program when its format was 2.
    const FORMAT_2: &str = include_str!("../tests/journals/format-2.journal");
    /// Written when it was 1: there were no births.
    const FORMAT_1: &str = include_str!("../tests/journals/format-1.journal");

    fn content(text: &[u8], name: &Name) -> Content {
        read(text, name).unwrap()
    }

    fn told(content: &Content) -> (usize, Vec<Change>, bool) {
        let Content::Record(record, damage) = content else { panic!("{content:?}") };
        (record.births.len(), record.changes.clone(), damage.is_some())
    }

    #[test]
    fn journals_of_earlier_versions_are_read() {
        assert_eq!(told(&content(FORMAT_2.as_bytes(), &OLD)), (1, vec![change(1), change(2)], false));
        assert_eq!(told(&content(FORMAT_1.as_bytes(), &OLD)), (0, vec![change(1), change(2)], false));
        // Format 3 has the lines of format 4, but no line that says that the changes last.
        let format_3 = written(&NEW, &[change(1)]).replacen("journal 4", "journal 3", 1);
        let format_3 = format_3.replacen("\"format\":4", "\"format\":3", 1);
        assert_eq!(told(&content(format_3.as_bytes(), &NEW)), (1, vec![change(1)], false));
        let other = Name { pid: 6, id: None };
        assert!(matches!(content(FORMAT_2.as_bytes(), &other), Content::Unreadable(why) if why.contains("process 5")));
    }

    #[test]
    fn a_journal_of_a_later_version_is_told_by_its_first_line() {
        let text = format!("coxswain journal 5 {NEW}\nwhatever\n");
        assert_eq!(content(text.as_bytes(), &NEW), Content::Newer(5));
        let other = Name { id: Some(8), ..NEW };
        assert!(matches!(content(text.as_bytes(), &other), Content::Foreign(_)));
    }

    #[test]
    fn what_is_no_journal_is_foreign() {
        let long = vec![b'x'; 5000];
        for text in
            [&b"\\documentclass{thesis}\n"[..], b"nonsense", &long, b"\0\x01\xff\xfe\n", b"coxswain journal 3 5-0\n"]
        {
            assert!(matches!(content(text, &NEW), Content::Foreign(_)), "{text:?}");
            assert!(matches!(content(text, &OLD), Content::Foreign(_)), "{text:?}");
        }
        // An empty file of a name with a random number has nothing to lose; that of a number alone may be anybody's.
        assert_eq!(content(b"", &NEW), Content::Torn);
        assert!(matches!(content(b"", &OLD), Content::Foreign(_)));
        // A line that never ends, as a sparse file has it, takes no memory.
        assert!(matches!(read(io::repeat(0).take(1 << 24), &NEW).unwrap(), Content::Foreign(_)));
    }

    #[test]
    fn what_follows_a_line_that_cannot_be_read_is_read() {
        let text = written(&NEW, &[change(1), change(2), change(3)]);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let half = &lines[4][..lines[4].len() / 2];
        for (bad, number) in [
            // The disk was full, and then it was not.
            (half.as_bytes().to_vec(), 3),
            ([half, "\n"].concat().into_bytes(), 3),
            (b"\0\0\xff\xfe\n".to_vec(), 3),
            ([vec![b'x'; 2 << 20], b"\n".to_vec()].concat(), 3),
        ] {
            let text = [lines[..4].concat().into_bytes(), bad, lines[4..].concat().into_bytes()].concat();
            let content = content(&text, &NEW);
            assert_eq!(told(&content), (1, vec![change(1), change(2), change(3)][..number].to_vec(), true));
            assert!(matches!(content, Content::Record(_, Some(why)) if why.contains("line 5")));
        }
    }

    proptest! {
        /// Cut anywhere, a journal tells all changes whose lines are whole, and no other.
        #[test]
        fn a_torn_journal_tells_what_may_have_happened(cut in 0usize..2000) {
            let changes = [change(1), change(2), change(3)];
            let text = written(&NEW, &changes);
            let cut = cut.min(text.len());
            let whole = text[..cut].matches('\n').count();
            // The first two lines are the session's, the third is that of the births.
            let content = content(&text.as_bytes()[..cut], &NEW);
            match whole.checked_sub(2) {
                None => prop_assert_eq!(content, Content::Torn),
                Some(lines) => {
                    prop_assert_eq!(told(&content), (lines.min(1), changes[..lines.saturating_sub(1)].to_vec(), false));
                }
            }
        }

        /// Whatever is in a file, it is read without a panic, and what is whole of it is believed.
        #[test]
        fn damage_anywhere_is_survived(at in 0usize..2000, bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            let mut text = written(&NEW, &[change(1), change(2), change(3)]).into_bytes();
            let at = at.min(text.len());
            text.splice(at..(at + bytes.len()).min(text.len()), bytes);
            if let Content::Record(record, _) = content(&text, &NEW) {
                prop_assert_eq!(record.header.pid, header(5).pid);
            }
        }
    }
}
