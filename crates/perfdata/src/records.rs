//! Cuts a stream into records, including the records inside compressed ones.
//!
//! perf compresses the contents of the CPU buffers as one zstd stream over the whole recording. It cuts that stream
//! into compressed records of at most 64 KiB, without regard for the boundaries of the records inside. The stream is
//! decompressed piece by piece, so memory use stays small however large the result is.

use std::io::{self, BufRead, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::ending::Cut;

/// Size of a record header, bytes: type, two bytes of flags, and the record's size including the header.
const HEAD: usize = 8;
/// Record types: compressed data up to the end of the record, and compressed data that is preceded by its length.
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;
/// Record type: in pipe mode, tracepoint formats follow the record.
const TRACING_DATA: u32 = 66;
/// Record type: data of a processor trace follows the record.
const AUXTRACE: u32 = 71;
/// Maximum size of tracepoint formats, bytes. A kernel's formats have 1 to 3 MB.
pub(crate) const MOST_TRACING_DATA: u64 = 64 << 20;
/// Record type: a sample.
const SAMPLE: u32 = 9;
/// The decompressed records may have at most `MOST_UNPACKED × compressed bytes + FREE_UNPACKED` bytes. In a recording
/// of two processes that only wake each other, decompressed ÷ compressed bytes is 17. The limit bounds the reading
/// time; memory use does not depend on it.
const MOST_UNPACKED: u64 = 256;
/// Maximum number of bytes of a sample that count as decompressed bytes, which [`MOST_UNPACKED`] limits. A sample may
/// contain a copy of the stack of up to 64 KB (`--call-graph dwarf`). It differs little from the copy in the sample
/// before, so compression can make it thousands of times smaller. But the time differs in each sample and takes at
/// least one compressed byte.
const COUNTED_OF_SAMPLE: usize = 256;
const FREE_UNPACKED: u64 = 64 << 20;
/// Size of the buffer that one decompression step fills, bytes.
const PIECE: usize = 128 << 10;

/// The header of a record. The body is in [`Records::body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u32,
    pub(crate) flags: u16,
}

impl Head {
    /// Parses a record header and the record's size; `None` if there are too few bytes, `Err` if the size is
    /// impossible.
    fn parse(bytes: &[u8]) -> Option<Result<(Head, usize), ()>> {
        let (kind, flags, size) = (u32_at(bytes, 0)?, u16_at(bytes, 4)?, usize::from(u16_at(bytes, 6)?));
        Some(if size < HEAD { Err(()) } else { Ok((Head { kind, flags }, size)) })
    }
}

/// Cuts a stream into records.
pub(crate) struct Records<R> {
    input: R,
    /// Number of bytes left in the section with the records; `None` if the section extends to the end of the file.
    left: Option<u64>,
    at_bytes: u64,
    /// `Some(size)` if the last record is still in the input's buffer; `None` if its body is in `body`.
    in_buffer: Option<usize>,
    body: Vec<u8>,
    /// The data that follows the last record, for record types that have such data.
    pub(crate) behind: Vec<u8>,
    unpacking: Option<Unpacking>,
    /// Position and reason, if the stream ended too early.
    pub(crate) cut: Option<Cut>,
}

impl<R: BufRead> Records<R> {
    /// Starts at the position of `input`, which is `at_bytes` from the start of the file.
    pub(crate) fn new(input: R, at_bytes: u64, left: Option<u64>) -> Records<R> {
        Records {
            input,
            left,
            at_bytes,
            in_buffer: None,
            body: Vec::new(),
            behind: Vec::new(),
            unpacking: None,
            cut: None,
        }
    }

    /// Returns the body of the last record: the bytes after its header.
    pub(crate) fn body(&mut self) -> io::Result<&[u8]> {
        Ok(match self.in_buffer {
            // The record was not consumed, so `fill_buf` returns the same buffer again.
            Some(size) => self.input.fill_buf()?.get(HEAD..size).unwrap_or_default(),
            None => &self.body,
        })
    }

    /// Returns the next record; `None` at the end of the stream, whether or not the stream is complete.
    #[inline]
    pub(crate) fn next(&mut self) -> io::Result<Option<Head>> {
        if let Some(size) = self.in_buffer.take() {
            self.input.consume(size);
        }
        if self.unpacking.is_none()
            && let Some((head, size)) = self.whole_in_buffer()
        {
            self.in_buffer = Some(size);
            self.passed(size as u64);
            return Ok(Some(head));
        }
        self.next_in_pieces()
    }

    /// Returns the next record if it can be read in place: it is not compressed, no data follows it, and the buffer
    /// contains all of it. Otherwise, and on an error, returns `None`; then [`Records::next_in_pieces`] reads the
    /// record or reports the error.
    #[inline]
    fn whole_in_buffer(&mut self) -> Option<(Head, usize)> {
        if self.left == Some(0) {
            return None;
        }
        let buffer = self.input.fill_buf().ok()?;
        let (head, size) = Head::parse(buffer)?.ok()?;
        let is_plain = !matches!(head.kind, COMPRESSED | COMPRESSED2 | TRACING_DATA | AUXTRACE);
        let fits = size <= buffer.len() && self.left.is_none_or(|left| size as u64 <= left);
        (is_plain && fits).then_some((head, size))
    }

    fn next_in_pieces(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(unpacking) = &mut self.unpacking {
                match unpacking.next(&mut self.body) {
                    Ok(Some(head)) if head.kind != COMPRESSED && head.kind != COMPRESSED2 => return Ok(Some(head)),
                    // perf does not compress a compressed record again.
                    Ok(Some(_)) => return Ok(self.cut("a compressed record contains another compressed record")),
                    Ok(None) => {}
                    Err(why) => return Ok(self.cut(why)),
                }
            }
            let Some(head) = self.next_in_file()? else { return Ok(None) };
            let packed = match head.kind {
                COMPRESSED => Some(&self.body[..]),
                COMPRESSED2 => u64_at(&self.body, 0).and_then(|size| self.body[8..].get(..usize::try_from(size).ok()?)),
                _ => return Ok(Some(head)),
            };
            let Some(packed) = packed else {
                return Ok(self.cut("a compressed record is shorter than its size field says"));
            };
            let unpacking = match &mut self.unpacking {
                Some(unpacking) => unpacking,
                none => none.insert(Unpacking::new()?),
            };
            unpacking.feed(packed);
        }
    }

    fn cut<T>(&mut self, why: &'static str) -> Option<T> {
        self.left = Some(0);
        self.unpacking = None;
        self.cut = self.cut.or(Some(Cut { at_bytes: self.at_bytes, why }));
        None
    }

    fn next_in_file(&mut self) -> io::Result<Option<Head>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        let got = fill(&mut self.input, &mut head)?;
        if got == 0 && self.left.is_none() {
            return Ok(None);
        }
        let parsed = if got == HEAD { Head::parse(&head) } else { None };
        let Some(parsed) = parsed else { return Ok(self.cut("the file ends here")) };
        let Ok((head, size)) = parsed else { return Ok(self.cut("a record's length is wrong")) };
        if self.left.is_some_and(|left| left < size as u64) {
            return Ok(self.cut("a record extends beyond the end of the data"));
        }
        self.body.resize(size - HEAD, 0);
        if fill(&mut self.input, &mut self.body)? < size - HEAD {
            return Ok(self.cut("the file ends here"));
        }
        self.passed(size as u64);
        let behind = match head.kind {
            TRACING_DATA => u32_at(&self.body, 0).map(u64::from),
            AUXTRACE => u64_at(&self.body, 0),
            _ => return Ok(Some(head)),
        };
        let behind = behind.unwrap_or(0);
        if self.left.is_some_and(|left| left < behind) || head.kind == TRACING_DATA && behind > MOST_TRACING_DATA {
            return Ok(self.cut("the data of a record is longer than possible"));
        }
        let mut data = (&mut self.input).take(behind);
        self.behind.clear();
        let got = match head.kind {
            TRACING_DATA => data.read_to_end(&mut self.behind)? as u64,
            _ => io::copy(&mut data, &mut io::sink())?,
        };
        if got < behind {
            return Ok(self.cut("the file ends here"));
        }
        self.passed(behind);
        Ok(Some(head))
    }

    fn passed(&mut self, bytes: u64) {
        self.at_bytes += bytes;
        self.left = self.left.map(|left| left - bytes);
    }
}

/// Fills `bytes` from the input. Returns the number of bytes read; it is less than the length of `bytes` only if the
/// input ends.
pub(crate) fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match input.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Decompresses the stream in compressed records.
struct Unpacking {
    decoder: Decoder<'static>,
    packed: Vec<u8>,
    packed_at: usize,
    plain: Vec<u8>,
    plain_at: usize,
    piece: Vec<u8>,
    /// Number of decompressed bytes still allowed for the compressed input so far.
    allowed: u64,
    /// Whether the decoder filled its output buffer and may hold more bytes.
    is_full: bool,
}

impl Unpacking {
    fn new() -> io::Result<Unpacking> {
        Ok(Unpacking {
            decoder: Decoder::new()?,
            packed: Vec::new(),
            packed_at: 0,
            plain: Vec::new(),
            plain_at: 0,
            piece: vec![0; PIECE],
            allowed: FREE_UNPACKED,
            is_full: false,
        })
    }

    /// Takes the data of the next compressed record. The data of the previous one must have been used up.
    fn feed(&mut self, packed: &[u8]) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.allowed = self.allowed.saturating_add(MOST_UNPACKED * packed.len() as u64);
        self.packed_at = 0;
    }

    /// Returns the next complete record; `None` if more compressed data is needed.
    fn next(&mut self, body: &mut Vec<u8>) -> Result<Option<Head>, &'static str> {
        const TOO_MUCH: &str = "its compressed records expand to an impossible size";
        loop {
            let plain = &self.plain[self.plain_at..];
            if let Some(parsed) = Head::parse(plain) {
                let Ok((head, size)) = parsed else { return Err("a compressed record's length is wrong") };
                if let Some(record) = plain.get(..size) {
                    body.clear();
                    body.extend_from_slice(&record[HEAD..]);
                    self.plain_at += size;
                    let counted = if head.kind == SAMPLE { size.min(COUNTED_OF_SAMPLE) } else { size };
                    self.allowed = self.allowed.checked_sub(counted as u64).ok_or(TOO_MUCH)?;
                    return Ok(Some(head));
                }
            }
            if self.packed_at == self.packed.len() && !self.is_full {
                return Ok(None);
            }
            self.unpack()?;
        }
    }

    fn unpack(&mut self) -> Result<(), &'static str> {
        const DAMAGED: &str = "its compressed data is damaged";
        self.plain.drain(..self.plain_at);
        self.plain_at = 0;
        let mut input = InBuffer::around(&self.packed[self.packed_at..]);
        let mut output = OutBuffer::around(&mut self.piece[..]);
        self.decoder.run(&mut input, &mut output).map_err(|_| DAMAGED)?;
        let (taken, made) = (input.pos(), output.pos());
        if taken == 0 && made == 0 && !self.is_full {
            return Err(DAMAGED);
        }
        self.packed_at += taken;
        self.is_full = made == PIECE;
        self.plain.extend_from_slice(&self.piece[..made]);
        Ok(())
    }
}
