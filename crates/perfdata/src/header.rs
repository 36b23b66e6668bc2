//! Reads a perf file from its header to its end.
//!
//! In file mode, the header gives the location of the other parts: event descriptions with their ids, records, and a
//! table of features after the records. Of the features, only the tracepoint formats and the facts about the machine
//! are read. In pipe mode, all of this is in records.

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

/// Header size in pipe mode and in file mode, bytes.
const PIPE: u64 = 16;
const FILE: usize = 104;
/// Number of the feature with the tracepoint formats.
const TRACING_DATA: u64 = 1;
/// Size of the oldest `perf_event_attr`, bytes.
const SMALLEST_ATTR: usize = 64;
/// Maximum size of the other features, bytes. The longest of them is a command line, which is far shorter.
const MOST_FEATURE: u64 = 4 << 20;

/// A byte range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn at(bytes: &[u8], at: usize) -> Option<Section> {
        Some(Section { offset: u64_at(bytes, at)?, size: u64_at(bytes, at + 8)? })
    }

    /// Reads at most `most` bytes of the section; fewer if the file ends before. The buffer grows with the bytes that
    /// arrive, not with the size that the file claims.
    fn read(&self, input: &mut (impl Read + Seek), most: u64) -> io::Result<Vec<u8>> {
        input.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        input.take(self.size.min(most)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reads a perf file. `alone`: number of records that the calling thread reads before it starts a second thread; see [`relay::through`].
pub(crate) fn read(
    input: &mut (impl BufRead + Seek + Send),
    known: &[Format],
    alone: usize,
    mut each: impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    let mut head = [0; FILE];
    let cut_head = || Error::Damaged("its header is cut off");
    if fill(input, &mut head[..PIPE as usize])? < PIPE as usize {
        return Err(cut_head());
    }
    let mut decoder = Decoder::new(known);
    if u64_at(&head, 8) == Some(PIPE) {
        // Reading from a pipe can block, so the calling thread reads it alone.
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
    let data = data.ok_or(Error::Damaged("its header is invalid"))?;
    attrs(input, &head, &mut decoder)?;
    // perf writes the size of the data into the header when it ends. If the size is still 0, perf was killed or still runs.
    let unfinished = data.size == 0;
    if !unfinished {
        features(input, &head, data, &mut decoder)?;
    }
    input.seek(SeekFrom::Start(data.offset))?;
    let cut = unfinished.then_some(Cut { at_bytes: data.offset, why: "perf ended before it completed the file" });
    let records = Records::new(input, data.offset, (!unfinished).then_some(data.size));
    relay::through(records, decoder, cut, alone, &mut each)
}

/// Reads the event descriptions with their ids.
fn attrs(input: &mut (impl Read + Seek), head: &[u8], decoder: &mut Decoder<'_>) -> Result<(), Error> {
    let damaged = || Error::Damaged("its list of events is invalid");
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

/// Reads the features that are used here. A truncated file has none.
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
