//! The histogram in a line: HdrHistogram's format V2, compressed with zlib, in base64.
//!
//! ```text
//! compressed   cookie 1c849314, length (4 bytes each, big-endian), zlib data
//! in it        cookie 1c849313, length of the counts, 0, digits (4 bytes each), lowest value, highest value, 1.0 (8 bytes each),
//!              counts: zigzag varints; a negative number is a number of zeros
//! ```
//!
//! The crate `hdrhistogram` reads and writes this. It trusts the lengths and the precision in the data, and negates a number without a check for
//! overflow, so [`decode`] checks these before.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{DeserializeError, Deserializer, Serializer, V2DeflateSerializer};
use wire::LATEST_NS;

/// Longest duration for which a histogram that is written has room from the start, nanoseconds: 10 s. Longer ones make it larger.
const HIGHEST_NS: u64 = 10_000_000_000;
/// Significant decimal digits of a duration in a histogram that is written. The histogram therefore distinguishes at least 2000 durations exactly,
/// rounded up to a power of two: 2^11.
const DIGITS: u8 = 3;
const EXACT_BITS: u32 = 11;
/// Maximum number of significant digits in a histogram that is read. With three, a histogram has at most 56320 counts (440 KiB); with five, the next
/// larger number that is usual, a line of 100 bytes could require 48 MiB.
const MOST_DIGITS: u32 = 3;
/// Maximum size of a decompressed histogram, bytes. 56320 counts have at most nine bytes each.
const MOST_BYTES: u64 = 1 << 20;

/// First bytes of a compressed histogram.
const COMPRESSED: [u8; 4] = 0x1c84_9314u32.to_be_bytes();
/// First bytes of an uncompressed histogram.
const PLAIN: [u8; 4] = 0x1c84_9313u32.to_be_bytes();
/// Size of the fields before the counts, bytes.
const HEADER: usize = 40;
/// Maximum number of detours in a histogram: Java's counts are signed.
const MOST: u64 = i64::MAX as u64;

const FOREIGN: &str = "the histogram is not in HdrHistogram's format V2";
const TRUNCATED: &str = "the histogram is truncated";
const OUT_OF_RANGE: &str = "a count of the histogram is out of range";

/// Returns the lowest duration that a histogram counts together with `duration_ns`: the one with the same 11 highest bits.
pub(super) fn lowest_equivalent(duration_ns: u64) -> u64 {
    let shift = (u64::BITS - duration_ns.leading_zeros()).saturating_sub(EXACT_BITS);
    duration_ns >> shift << shift
}

/// Encodes durations in nanoseconds, each with its number. Also returns the longest duration, as the histogram represents it.
///
/// # Errors
/// What is wrong, in one sentence.
pub(super) fn encode(counts: &[(u64, u64)]) -> Result<(String, u64), String> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, DIGITS).map_err(|error| error.to_string())?;
    histogram.auto(true);
    for (duration_ns, count) in counts.iter().filter(|(_, count)| *count > 0) {
        if *duration_ns > LATEST_NS || histogram.len().saturating_add(*count) > MOST {
            return Err(format!("{count} detours of {duration_ns} ns are more than a histogram can have"));
        }
        histogram.record_n(*duration_ns, *count).map_err(|error| error.to_string())?;
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).map_err(|error| error.to_string())?;
    Ok((BASE64.encode(bytes), histogram.max()))
}

/// Decodes a histogram into durations and their numbers, in ascending order. Decoding takes at most 6 MiB.
///
/// # Errors
/// What is wrong, in one sentence.
pub(super) fn decode(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let bytes = BASE64.decode(text).map_err(|_| "the histogram is not valid base64")?;
    let bytes = inflate(&bytes)?;
    check(&bytes)?;
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).map_err(wrong)?;
    if histogram.len() > MOST {
        return Err(OUT_OF_RANGE.to_owned());
    }
    let lowest = |highest_ns| histogram.lowest_equivalent(highest_ns);
    Ok(histogram.iter_recorded().map(|cell| (lowest(cell.value_iterated_to()), cell.count_at_value())).collect())
}

/// Returns the uncompressed histogram.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.starts_with(&PLAIN) {
        return Ok(bytes.to_vec());
    }
    let Some(rest) = bytes.strip_prefix(&COMPRESSED) else { return Err(FOREIGN.to_owned()) };
    let (length, rest) = rest.split_first_chunk().ok_or(TRUNCATED)?;
    let compressed = rest.get(..u32::from_be_bytes(*length) as usize).ok_or(TRUNCATED)?;
    let mut bytes = Vec::new();
    let inflated = ZlibDecoder::new(compressed).take(MOST_BYTES + 1).read_to_end(&mut bytes);
    inflated.map_err(|_| "the compressed histogram is damaged")?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("the decompressed histogram is larger than {MOST_BYTES} bytes"));
    }
    Ok(bytes)
}

/// Checks what the deserializer trusts.
fn check(bytes: &[u8]) -> Result<(), String> {
    let (header, counts) = bytes.split_at_checked(HEADER).ok_or(TRUNCATED)?;
    let field = |at: usize| header[at..].first_chunk().map_or(0, |field| u32::from_be_bytes(*field));
    if field(4) as usize > counts.len() {
        return Err(TRUNCATED.to_owned());
    }
    let digits = field(12);
    if digits > MOST_DIGITS {
        return Err(format!("the histogram has {digits} significant digits; at most {MOST_DIGITS} are supported"));
    }
    // The varint of the least number, -2^63. It can also be the end of one large number and the start of the next one, but counts of 2^55 or more do not
    // occur.
    if counts.windows(9).any(|bytes| bytes == [0xff; 9]) { Err(OUT_OF_RANGE.to_owned()) } else { Ok(()) }
}

fn wrong(error: DeserializeError) -> String {
    let wrong = match error {
        DeserializeError::IoError(_) => TRUNCATED,
        DeserializeError::InvalidCookie => FOREIGN,
        DeserializeError::UnsupportedFeature => {
            "the histogram has shifted or fractional durations, which are not supported"
        }
        DeserializeError::InvalidParameters => "the range of the histogram is invalid",
        DeserializeError::EncodedArrayTooLong => "the histogram has more counts than its range allows",
        DeserializeError::UnsuitableCounterType | DeserializeError::UsizeTypeTooSmall => OUT_OF_RANGE,
    };
    wrong.to_owned()
}
