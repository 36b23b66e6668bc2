//! The head of a file of perf's, and reading it through.
//!
//! In file mode the head says where things are: events with their ids, records, and behind those a table of features, of which the formats of
//! tracepoints and what tells where it was made are wanted. In pipe mode everything is a record.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use crate::about::FEATURES;
use crate::bytes::u64_at;
use crate::decode::{Decoder, MOST_ATTRS, MOST_IDS};
use crate::ending::{Cut, Ending};
use crate::error::Error;
use crate::event::Event;
use crate::format::Format;
use crate::records::{MOST_TRACING_DATA, Records, fill};
use crate::relay;

/// Size of a head: in pipe mode, and in file mode.
const PIPE: u64 = 16;
const FILE: usize = 104;
/// The feature with the formats of tracepoints.
const TRACING_DATA: u64 = 1;
/// The smallest `perf_event_attr` there was.
const SMALLEST_ATTR: usize = 64;
/// A command line, the longest of the other features, is not longer, by far.
const MOST_FEATURE: u64 = 4 << 20;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn at(bytes: &[u8], at: usize) -> Option<Section> {
        Some(Section { offset: u64_at(bytes, at)?, size: u64_at(bytes, at + 8)? })
    }

    /// As much of it as there is, and no more than so much. The bytes come before room is made for them.
    fn read(&self, input: &mut (impl Read + Seek), most: u64) -> io::Result<Vec<u8>> {
        input.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        input.take(self.size.min(most)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// `alone`: see [`relay::through`].
pub(crate) fn read(
    input: &mut (impl BufRead + Seek + Send),
    known: &[Format],
    alone: usize,
    mut each: impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    let mut head = [0; FILE];
    let cut_head = || Error::Damaged("it is cut off in its first bytes");
    if fill(input, &mut head[..PIPE as usize])? < PIPE as usize {
        return Err(cut_head());
    }
    let mut decoder = Decoder::new(known);
    if u64_at(&head, 8) == Some(PIPE) {
        // It may keep us waiting.
        let is_pipe = input.stream_position().is_err();
        let alone = if is_pipe { usize::MAX } else { alone };
        return relay::through(Records::new(input, PIPE, None), decoder, None, alone, &mut each);
    }
    if fill(input, &mut head[PIPE as usize..])? < FILE - PIPE as usize {
        return Err(cut_head());
    }
    if input.stream_position().is_err_and(|error| error.kind() == io::ErrorKind::NotSeekable) {
        return Err(Error::NotSeekable);
    }
    let data = Section::at(&head, 40).filter(|data| data.offset.checked_add(data.size).is_some());
    let data = data.ok_or(Error::Damaged("its head has no sense in it"))?;
    attrs(input, &head, &mut decoder)?;
    // Sizes are filled in when perf ends.
    let unfinished = data.size == 0;
    if !unfinished {
        features(input, &head, data, &mut decoder)?;
    }
    input.seek(SeekFrom::Start(data.offset))?;
    let cut = unfinished.then_some(Cut { at_bytes: data.offset, why: "perf was ended before it could finish it" });
    let records = Records::new(input, data.offset, (!unfinished).then_some(data.size));
    relay::through(records, decoder, cut, alone, &mut each)
}

/// Events with their ids.
fn attrs(input: &mut (impl Read + Seek), head: &[u8], decoder: &mut Decoder<'_>) -> Result<(), Error> {
    let damaged = || Error::Damaged("its list of events has no sense in it");
    let size = u64_at(head, 16).and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| (SMALLEST_ATTR + 16..4096).contains(size)).ok_or_else(damaged)?;
    let section = Section::at(head, 24).ok_or_else(damaged)?;
    let list = section.read(input, (MOST_ATTRS * size) as u64)?;
    let mut left = 8 * MOST_IDS as u64;
    for one in list.chunks_exact(size) {
        let (attr, ids) = one.split_at(size - 16);
        let ids = Section::at(ids, 0).ok_or_else(damaged)?.read(input, left)?;
        left -= ids.len() as u64;
        decoder.add_attr(attr, &ids);
    }
    Ok(())
}

/// What is wanted of the features; a file that was cut off has none.
fn features(input: &mut (impl Read + Seek), head: &[u8], data: Section, decoder: &mut Decoder<'_>) -> io::Result<()> {
    let has = |bit: u64| u64_at(head, 72 + bit as usize / 64 * 8).is_some_and(|word| word >> (bit % 64) & 1 != 0);
    let table = Section { offset: data.offset + data.size, size: 16 * 256 }.read(input, u64::MAX)?;
    for (at, bit) in (0..256).filter(|bit| has(*bit)).enumerate() {
        let Some(section) = Section::at(&table, at * 16) else { break };
        match bit {
            TRACING_DATA => decoder.add_tracing_data(&section.read(input, MOST_TRACING_DATA)?),
            _ if FEATURES.contains(&bit) => decoder.add_feature(bit, &section.read(input, MOST_FEATURE)?),
            _ => {}
        }
    }
    Ok(())
}
