//! The stream of records: one after another, also those inside compressed ones.
//!
//! perf compresses what came from a CPU's buffer as one zstd stream over the whole recording, in records of at most 64 KiB, without regard for where
//! the records inside begin. It is unpacked a piece at a time, so however much comes out of it, little is in memory.

use std::io::{self, BufRead, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::ending::Cut;

/// Type, two bytes of flags, size with these eight bytes.
const HEAD: usize = 8;
/// Compressed data up to the record's end, and with a length before it.
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;
/// Formats behind the record, in pipe mode.
const TRACING_DATA: u32 = 66;
/// Data of a processor's tracer behind the record.
const AUXTRACE: u32 = 71;
/// Formats of a kernel have 1 to 3 MB.
pub(crate) const MOST_TRACING_DATA: u64 = 64 << 20;
/// A sample.
const SAMPLE: u32 = 9;
/// What comes out of compressed records, at most: so many bytes for each that goes in, and a part for free. Of two processes that do nothing but
/// wake each other there come 17. It bounds how long reading takes; memory is bounded anyway.
const MOST_UNPACKED: u64 = 256;
/// Bytes of a sample that count. Behind them it may have a copy of its stack (`--call-graph dwarf`), up to 64 KB, nearly all of which was in the one
/// before: of those come thousands. But when a sample came was not known before, and takes a byte.
const COUNTED_OF_SAMPLE: usize = 256;
const FREE_UNPACKED: u64 = 64 << 20;
/// Bytes that are unpacked at once.
const PIECE: usize = 128 << 10;

/// A record's head; its body is in [`Records::body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u32,
    pub(crate) flags: u16,
}

impl Head {
    /// Whether a record is whole, from its first bytes: its head and its size. `Err`: it cannot be one.
    fn parse(bytes: &[u8]) -> Option<Result<(Head, usize), ()>> {
        let (kind, flags, size) = (u32_at(bytes, 0)?, u16_at(bytes, 4)?, usize::from(u16_at(bytes, 6)?));
        Some(if size < HEAD { Err(()) } else { Ok((Head { kind, flags }, size)) })
    }
}

/// Cuts a stream into records.
pub(crate) struct Records<R> {
    input: R,
    /// Bytes that are left of the part that has records; `None`: up to the end.
    left: Option<u64>,
    at_bytes: u64,
    /// The last record is in the input's buffer yet, with so many bytes; else its body is in `body`.
    in_buffer: Option<usize>,
    body: Vec<u8>,
    /// What follows a record that says so.
    pub(crate) behind: Vec<u8>,
    unpacking: Option<Unpacking>,
    /// Where and why it ended too early.
    pub(crate) cut: Option<Cut>,
}

impl<R: BufRead> Records<R> {
    /// From where `input` stands, `at_bytes` from the start.
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

    /// What the last record has behind its head.
    pub(crate) fn body(&mut self) -> io::Result<&[u8]> {
        Ok(match self.in_buffer {
            // What is in a buffer is given again.
            Some(size) => self.input.fill_buf()?.get(HEAD..size).unwrap_or_default(),
            None => &self.body,
        })
    }

    /// The next record; `None`: the end, whether it should be here or not.
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

    /// The next record, if it can be read where it is: nothing is unpacked, nothing follows it, and the buffer has all of it. Of what is wrong, and
    /// of what cannot be read, nothing is said here.
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
                    // perf does not compress twice.
                    Ok(Some(_)) => return Ok(self.cut("a compressed record is in a compressed record")),
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
            let Some(packed) = packed else { return Ok(self.cut("a compressed record is shorter than it says")) };
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
            return Ok(self.cut("a record is longer than what is left"));
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
            return Ok(self.cut("a record's data is longer than it can be"));
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

/// Reads as much as there is.
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

/// What comes out of compressed records.
struct Unpacking {
    decoder: Decoder<'static>,
    packed: Vec<u8>,
    packed_at: usize,
    plain: Vec<u8>,
    plain_at: usize,
    piece: Vec<u8>,
    /// Bytes that may come out yet of what went in.
    allowed: u64,
    /// The decoder may hold more than it had room for.
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

    /// Takes a record's data, when all before it is used up.
    fn feed(&mut self, packed: &[u8]) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.allowed = self.allowed.saturating_add(MOST_UNPACKED * packed.len() as u64);
        self.packed_at = 0;
    }

    /// The next record that is whole; `None`: more is needed.
    fn next(&mut self, body: &mut Vec<u8>) -> Result<Option<Head>, &'static str> {
        const TOO_MUCH: &str = "more comes out of compressed records than perf puts in";
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
        const DAMAGED: &str = "what was compressed is not whole";
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
