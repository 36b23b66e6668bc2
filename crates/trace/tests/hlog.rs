//! Interval logs: what is written is what is read, each wrong line is named, and hostile logs take no more memory than others.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::Histogram;
use proptest::prelude::*;
use testkit::memory::{Counting, most};
use testkit::{Random, bytes};
use trace::hlog::{Head, Interval, Log, read, split, write};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COX: &[u8] = include_bytes!("data/cox.hlog");
/// Made by hand with another encoder and zlib, as jHiccup's logs are.
const JHICCUP: &[u8] = include_bytes!("data/jhiccup.hlog");

fn written(log: &Log) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, &log.head, &log.intervals).expect("intervals in order");
    bytes
}

fn head() -> Head {
    let at = Some(1_441_812_279_474);
    Head { base_time_ms: at, start_time_ms: at, comments: vec!["cox on node1".to_owned()] }
}

fn interval(tag: Option<&str>, start_ms: u64, duration_ms: u64, counts: &[(u64, u64)]) -> Interval {
    Interval { tag: tag.map(str::to_owned), start_ms, duration_ms, counts: counts.to_vec() }
}

/// Two CPUs for 2.5 seconds.
fn log() -> Log {
    let of =
        |cpu, detours: &'static [(u64, u64)]| split(&format!("cpu{cpu}"), detours.iter().copied(), 2_500_000_000, 1000);
    let first = of(0, &[(0, 150), (500, 150), (999_999_999, 8900), (1_000_000_000, 12_000_000_000)]);
    let second = of(1, &[(2_400_000_000, 4097), (2_400_010_000, 4096)]);
    Log { head: head(), intervals: first.zip(second).flat_map(|(first, second)| [first, second]).collect() }
}

#[test]
fn a_log_is_written_as_the_stored_one() {
    let log = log();
    assert_eq!(String::from_utf8(written(&log)), String::from_utf8(COX.to_vec()));
    let again = read(COX).unwrap();
    assert_eq!(again, log);
    assert_eq!(written(&again), COX);
}

#[test]
fn detours_are_divided_into_intervals() {
    // 8900 has 14 bits: three digits are the 11 highest ones. 12 s have 34 bits.
    let expected = [
        interval(Some("cpu0"), 0, 1000, &[(150, 2), (8896, 1)]),
        interval(Some("cpu1"), 0, 1000, &[]),
        interval(Some("cpu0"), 1000, 1000, &[(11_995_709_440, 1)]),
        interval(Some("cpu1"), 1000, 1000, &[]),
        interval(Some("cpu0"), 2000, 500, &[]),
        interval(Some("cpu1"), 2000, 500, &[(4096, 2)]),
    ];
    assert_eq!(log().intervals, expected);
    // Detours after the end are not counted, and the length of an interval is rounded up.
    let intervals: Vec<_> = split("a", [(0, 1), (10, 1), (11, 1)], 11, 0).collect();
    assert_eq!(intervals, [interval(Some("a"), 0, 1, &[(1, 2)])]);
    assert_eq!(split("a", [], 0, 1).count(), 0);
    // The latest times do not overflow.
    assert_eq!(split("a", [(u64::MAX - 1, 5)], u64::MAX, u64::MAX).flat_map(|interval| interval.counts).count(), 1);
}

#[test]
fn a_log_of_another_encoder_is_read() {
    let log = read(JHICCUP).unwrap();
    let comments = vec!["[Logged by hand, as jHiccup would]".to_owned()];
    assert_eq!(log.head, Head { base_time_ms: None, start_time_ms: Some(1_441_812_279_474), comments });
    // Two digits in units of 2^14 ns; three digits in units of 1 ns.
    let expected = [
        interval(None, 127, 1007, &[(0, 3), (1 << 14, 700), (169 << 14, 1)]),
        interval(Some("A"), 1134, 999, &[(5, 1), (2047, 2), (2048, 300), (442_112, 1 << 40)]),
        interval(None, 2133, 1001, &[]),
    ];
    assert_eq!(log.intervals, expected);
    assert_eq!(read(&written(&log)[..]).unwrap(), log);
}

#[test]
fn another_reader_finds_the_longest_detour_in_milliseconds() {
    let text = String::from_utf8(COX.to_vec()).unwrap();
    let max: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Tag=")?.split(',').nth(3)).collect();
    // 8903 ns, 12.004098047 s, and 4097 ns: the longest durations that are counted together with the longest detour.
    assert_eq!(max, ["0.009", "0.000", "12004.098", "0.000", "0.000", "0.004"]);
}

/// A line with a payload, compressed as it should be.
fn line(plain: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("room in memory");
    let compressed = encoder.finish().expect("room in memory");
    let length = (compressed.len() as u32).to_be_bytes();
    format!("0.000,1.000,0.000,{}\n", BASE64.encode([&[0x1c, 0x84, 0x93, 0x14], &length, &compressed[..]].concat()))
}

/// A histogram of 1 ns to `highest_ns`, whose counts take `length` bytes.
fn plain(digits: u32, highest_ns: u64, length: u32, counts: &[u8]) -> Vec<u8> {
    let numbers = [0x1c84_9313, length, 0, digits];
    let header: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    [&header, &1u64.to_be_bytes()[..], &highest_ns.to_be_bytes(), &1f64.to_be_bytes(), counts].concat()
}

fn counts(digits: u32, highest_ns: u64, counts: &[u8]) -> String {
    line(&plain(digits, highest_ns, counts.len() as u32, counts))
}

const HIGHEST_NS: u64 = i64::MAX as u64;

#[test]
fn each_wrong_line_is_named() {
    let good = counts(3, HIGHEST_NS, &[2]);
    let payload = good.trim_end().rsplit(',').next().unwrap().to_owned();
    assert_eq!(read(good.as_bytes()).unwrap().intervals, [interval(None, 0, 1000, &[(0, 1)])]);
    let with = |changed: &str| format!("#\n0.000,1.000,0.000,{changed}");
    let mut shifted = plain(3, HIGHEST_NS, 1, &[2]);
    shifted[11] = 1;
    let mut invalid = plain(3, HIGHEST_NS, 1, &[2]);
    invalid[23] = 0;
    let mut foreign = plain(3, HIGHEST_NS, 1, &[2]);
    foreign[3] = 0x12;
    let mut damaged = BASE64.decode(&payload).unwrap();
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    let truncated = |bytes: usize| with(&BASE64.encode(&BASE64.decode(&payload).unwrap()[..bytes]));
    let format = "the histogram is not in HdrHistogram's format V2";
    let out_of_range = "a count of the histogram is out of range";
    let cases: &[(&str, &str)] = &[
        ("", "the file contains no intervals"),
        ("#[StartTime: 5.000 (seconds since epoch)]\n", "the file contains no intervals"),
        ("#[StartTime: soon]\n", "line 1: 'soon' is not a number"),
        ("#[BaseTime: ]\n", "line 1: '' is not a number"),
        ("#[BaseTime: 1.000]\n#x\n#[BaseTime: 2.000]\n", "line 3: a second BaseTime; only logs with one are supported"),
        ("#x\nsomething else\n", "line 2: 2 columns instead of 4 (start, length, longest detour, histogram)"),
        ("0.1,1.0,2.0\n", "line 1: 3 columns instead of 4 (start, length, longest detour, histogram)"),
        ("0.1,1.0,2.0,a,b,c\n", "line 1: 5 columns instead of 4 (start, length, longest detour, histogram)"),
        ("Tag=a\n", "line 1: the interval is missing after the tag"),
        ("Tag=a\tb,0.1,1.0,2.0,x\n", "line 1: the tag 'a\\tb' has a comma or white space"),
        ("-0.1,1.0,2.0,x\n", "line 1: '-0.1' is negative"),
        ("0.1,x,2.0,x\n", "line 1: 'x' is not a number"),
        ("0.1,1.0,NaN,x\n", "line 1: 'NaN' is not a number"),
        ("1e30,1.0,2.0,x\n", "line 1: '1e30' s is too large"),
        (&with("HIST!"), "line 2: the histogram is not valid base64"),
        (&with(""), &format!("line 2: {format}")),
        (&with(&BASE64.encode(&foreign)), &format!("line 2: {format}")),
        (&line(&foreign), &format!("line 1: {format}")),
        (&truncated(6), "line 2: the histogram is truncated"),
        (&truncated(20), "line 2: the histogram is truncated"),
        (&with(&BASE64.encode(damaged)), "line 2: the compressed histogram is damaged"),
        (&line(&plain(3, HIGHEST_NS, 1, &[])), "line 1: the histogram is truncated"),
        (&line(&plain(3, HIGHEST_NS, u32::MAX, &[2])), "line 1: the histogram is truncated"),
        (&counts(3, HIGHEST_NS, &[0x80]), "line 1: the histogram is truncated"),
        (&line(&shifted), "line 1: the histogram has shifted or fractional durations, which are not supported"),
        (&line(&invalid), "line 1: the range of the histogram is invalid"),
        (&counts(3, 1, &[2]), "line 1: the range of the histogram is invalid"),
        (&counts(5, HIGHEST_NS, &[2]), "line 1: the histogram has 5 significant digits; at most 3 are supported"),
        (&counts(3, 2, &[2; 5000]), "line 1: the histogram has more counts than its range allows"),
        // A run of 2^63 zeros, which the deserializer would negate.
        (&counts(3, HIGHEST_NS, &[0xff; 9]), &format!("line 1: {out_of_range}")),
        // Two counts of 2^62: together one more than can be written again.
        (&counts(3, HIGHEST_NS, &[0x80; 18]), &format!("line 1: {out_of_range}")),
    ];
    for (input, message) in cases {
        assert_eq!(read(input.as_bytes()).unwrap_err().to_string(), *message);
    }
}

#[test]
fn a_line_is_text_of_limited_length() {
    let long = format!("#x\n#{}\n", "x".repeat(1 << 20));
    assert_eq!(read(long.as_bytes()).unwrap_err().to_string(), "line 2: the line is longer than 1048576 bytes");
    assert_eq!(read(&b"#x\n#\xff\n"[..]).unwrap_err().to_string(), "line 2: the line is not UTF-8 text");
}

#[test]
fn hostile_logs_take_bounded_memory() {
    /// Decoding a line of any length.
    const MOST_BYTES: usize = 6 << 20;
    // 64 MiB of zeros in a line of 90 KB.
    let bomb = line(&plain(3, HIGHEST_NS, 64 << 20, &vec![0; 64 << 20]));
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let cases = [
        (bomb, "line 1: the decompressed histogram is larger than 1048576 bytes"),
        // Lengths and precisions without the data for them.
        (line(&plain(3, HIGHEST_NS, u32::MAX, &[2; 100])), "line 1: the histogram is truncated"),
        (counts(5, u64::MAX, &[2]), "line 1: the histogram has 5 significant digits; at most 3 are supported"),
    ];
    for (log, message) in cases {
        let (read, bytes) = most(|| read(log.as_bytes()));
        assert_eq!(read.unwrap_err().to_string(), message);
        assert!((1..MOST_BYTES).contains(&bytes), "{bytes} bytes for {message}");
    }
}

#[test]
fn hostile_logs_have_a_bounded_number_of_counts() {
    // All counts are the same, so that 50,000 of them take 200 bytes. 20 such lines are as many as are allowed without more data.
    let line = counts(3, HIGHEST_NS, &[2; 50_000]);
    assert_eq!(read(line.repeat(20).as_bytes()).unwrap().intervals.len(), 20);
    let log = line.repeat(100);
    let (read, bytes) = most(|| read(log.as_bytes()));
    let message = read.unwrap_err().to_string();
    assert_eq!(message, "line 22: the compressed histograms contain an impossible number of counts");
    assert!((1 << 24..1 << 26).contains(&bytes), "{bytes} bytes");
}

/// The limit of the test above is 8 counts for each byte.
#[test]
fn counts_of_random_durations_are_far_below_the_limit() {
    let mut random = Random::new(1);
    for detours in [10, 100, 1000, 3000, 100_000] {
        let durations: Vec<(u64, u64)> = (0..detours).map(|_| (1024 + random.below(1024) as u64, 1)).collect();
        let log = Log { head: Head::default(), intervals: vec![interval(None, 0, 1000, &durations)] };
        let bytes = written(&log);
        let line = bytes.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
        let counts = read(&bytes[..]).unwrap().intervals[0].counts.len();
        assert!(counts < 4 * line.len(), "{detours} detours: {counts} counts in {} bytes", line.len());
    }
}

#[test]
fn a_log_that_could_not_be_read_is_not_written() {
    let first = interval(None, 5, 1, &[]);
    for (second, message) in [
        (interval(None, 4, 1, &[]), "an interval starts before the previous one"),
        (interval(Some("a,b"), 5, 1, &[]), "the tag 'a,b' has a comma or white space"),
        (interval(Some("a\nb"), 5, 1, &[]), "the tag 'a\\nb' has a comma or white space"),
        (
            interval(None, 5, 1, &[(1, u64::MAX)]),
            "18446744073709551615 detours of 1 ns are more than a histogram can have",
        ),
        (interval(None, 5, 1, &[(1, HIGHEST_NS), (2, 1)]), "1 detours of 2 ns are more than a histogram can have"),
        (
            interval(None, 5, 1, &[(1 << 63, 1)]),
            "1 detours of 9223372036854775808 ns are more than a histogram can have",
        ),
    ] {
        let error = write(&mut Vec::new(), &Head::default(), [&first, &second]).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidInput, message));
    }
    let log = Log { head: Head::default(), intervals: vec![interval(None, 5, 1, &[(HIGHEST_NS, HIGHEST_NS)])] };
    let shortest_ns = 0x7ff << 52;
    assert_eq!(read(&written(&log)[..]).unwrap().intervals[0].counts, [(shortest_ns, HIGHEST_NS)]);
}

#[test]
fn a_comment_stays_a_comment() {
    let comments = vec!["[StartTime: 5.000".to_owned(), "a\n0,0,0,x".to_owned()];
    let log = Log { head: Head { comments, ..Head::default() }, intervals: vec![interval(None, 0, 1, &[])] };
    let Head { start_time_ms, comments, .. } = read(&written(&log)[..]).unwrap().head;
    assert_eq!((start_time_ms, comments), (None, vec!["[StartTime: 5.000".to_owned(), "a?0,0,0,x".to_owned()]));
}

#[test]
fn a_damaged_log_is_read_or_refused() {
    let mut refused = 0;
    for seed in 0..5000 {
        let mut random = Random::new(seed);
        // Every third time the counts are damaged before they are compressed, so that the damage arrives at the deserializer.
        let input = if seed % 3 == 0 {
            let mut bytes = plain(3, HIGHEST_NS, 6, &[2, 7, 0, 4, 0x80, 1]);
            bytes::change(&mut bytes, &mut random);
            line(&bytes).into_bytes()
        } else {
            let mut bytes = if seed % 3 == 1 { COX.to_vec() } else { JHICCUP.to_vec() };
            bytes::change(&mut bytes, &mut random);
            bytes
        };
        let (log, bytes) = most(|| read(&input[..]));
        assert!(bytes < 32 << 20, "seed {seed}: {bytes} bytes");
        match log {
            Ok(mut log) => {
                log.intervals.sort_by_key(|interval| interval.start_ms);
                let mut again = Vec::new();
                if write(&mut again, &log.head, &log.intervals).is_ok() {
                    assert_eq!(read(&again[..]).unwrap().intervals.len(), log.intervals.len(), "seed {seed}");
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!((500..4900).contains(&refused), "{refused} refused");
}

/// Durations of all magnitudes, nanoseconds, with their numbers.
fn detours() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let duration_ns = (0..63u32, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits) >> 1);
    prop::collection::vec((duration_ns, 1..1_000_000_000u64), 0..50)
}

proptest! {
    #[test]
    fn what_is_written_is_what_a_histogram_counts(detours in detours(), start_ms: u32, duration_ms: u32) {
        // The crate's histogram is the oracle.
        let mut histogram = Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, 3).unwrap();
        detours.iter().for_each(|(duration_ns, count)| histogram.record_n(*duration_ns, *count).unwrap());
        let lowest_ns = |highest_ns| histogram.lowest_equivalent(highest_ns);
        let counts: Vec<(u64, u64)> =
            histogram.iter_recorded().map(|cell| (lowest_ns(cell.value_iterated_to()), cell.count_at_value())).collect();

        let intervals = vec![interval(Some("cpu7"), start_ms.into(), duration_ms.into(), &detours)];
        let log = read(&written(&Log { head: head(), intervals })[..]).unwrap();
        prop_assert_eq!(&log.intervals, &[interval(Some("cpu7"), start_ms.into(), duration_ms.into(), &counts)]);
        prop_assert_eq!(&read(&written(&log)[..]).unwrap(), &log);
    }

    #[test]
    fn a_divided_detour_is_counted_as_a_histogram_does(durations in detours()) {
        let detours = durations.iter().map(|(duration_ns, _)| (0, *duration_ns));
        let intervals: Vec<Interval> = split("cpu0", detours, 1, 1000).collect();
        let log = Log { head: head(), intervals };
        prop_assert_eq!(read(&written(&log)[..]).unwrap(), log);
    }
}
