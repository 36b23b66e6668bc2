//! The tracepoint formats in a recording. perf copied them from tracefs and wrote them in the form of trace-cmd.
//!
//! The data begins with magic, version, byte order, size of a long and size of a page. Then come two header texts, the
//! formats of ftrace's own events, the formats of each subsystem's events, and parts that are not used here. A length
//! precedes each text.

use crate::bytes::Rest;
use crate::format::Format;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Returns the formats of the scheduler's tracepoints. If the data is truncated, returns the formats before that point.
pub(crate) fn formats(blob: &[u8]) -> Vec<Format> {
    let mut formats = Vec::new();
    let _ = walk(blob, &mut formats);
    formats
}

fn walk(blob: &[u8], formats: &mut Vec<Format>) -> Option<()> {
    let mut rest = Rest(blob);
    rest.take(MAGIC.len() as u64).filter(|magic| *magic == MAGIC)?;
    rest.text()?;
    let is_big_endian = rest.u8()? != 0;
    if is_big_endian {
        return None;
    }
    // Skip the sizes of a long and of a page.
    rest.take(5)?;
    for _ in ["header_page", "header_event"] {
        rest.text()?;
        skip(&mut rest)?;
    }
    for _ in 0..rest.u32()? {
        skip(&mut rest)?;
    }
    for _ in 0..rest.u32()? {
        let is_wanted = rest.text()? == b"sched";
        for _ in 0..rest.u32()? {
            let length = rest.u64()?;
            let text = rest.take(length)?;
            if is_wanted {
                formats.extend(Format::parse(&String::from_utf8_lossy(text)));
            }
        }
    }
    Some(())
}

fn skip(rest: &mut Rest<'_>) -> Option<()> {
    let length = rest.u64()?;
    rest.take(length).map(|_| ())
}
