//! Splits the unread bytes of a ring into whole records. Pure.

use super::parse::{HEADER_BYTES, record_bytes};

/// Calls `each` with every whole record in `first` followed by `second`: the unread part of a ring, in two pieces if it wraps. Records are passed
/// in place, except for one that lies across the two pieces. Returns `false` if a header is invalid: the bytes after it cannot be read.
pub(super) fn walk(first: &[u8], second: &[u8], mut each: impl FnMut(&[u8])) -> bool {
    let Some(first_end) = walk_piece(first, &mut each) else { return false };
    let rest = &first[first_end..];
    if rest.is_empty() {
        return walk_piece(second, &mut each) == Some(second.len());
    }
    // The header itself may lie across the two pieces.
    let header: Vec<u8> = rest.iter().chain(second).copied().take(HEADER_BYTES).collect();
    let Some(size) = record_bytes(&header) else { return false };
    let Some(behind) = size.checked_sub(rest.len()).and_then(|taken| second.get(taken..)) else { return false };
    let seam = [rest, &second[..second.len() - behind.len()]].concat();
    each(&seam);
    walk_piece(behind, &mut each) == Some(behind.len())
}

/// Passes the whole records at the start of a piece. Returns where the last one ends; `None` after an invalid header.
fn walk_piece(piece: &[u8], each: &mut impl FnMut(&[u8])) -> Option<usize> {
    let mut at = 0;
    while piece.len() - at >= HEADER_BYTES {
        let size = record_bytes(&piece[at..])?;
        let Some(record) = piece.get(at..at + size) else { break };
        each(record);
        at += size;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::super::parse::tests::encode;
    use super::*;
    use proptest::prelude::*;

    fn walked(first: &[u8], second: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut records = Vec::new();
        let whole = walk(first, second, |record| records.push(record.to_vec()));
        (records, whole)
    }

    #[test]
    fn records_come_out_wherever_the_ring_wraps() {
        let records: Vec<Vec<u8>> = (0u8..5).map(|k| encode(1, 0, &vec![k; usize::from(k) * 8])).collect();
        let bytes = records.concat();
        for seam in 0..=bytes.len() {
            let (first, second) = bytes.split_at(seam);
            assert_eq!(walked(first, second), (records.clone(), true), "seam at {seam}");
        }
    }

    #[test]
    fn a_cut_end_or_a_bad_size_is_told() {
        let bytes = [encode(1, 0, &[1; 16]), encode(1, 0, &[2; 16])].concat();
        for end in 1..bytes.len() {
            let (records, whole) = walked(&bytes[..end], &[]);
            assert_eq!((records.len(), whole), (end / 24, end == 24), "cut at {end}");
        }
        let mut bad = bytes.clone();
        bad[24 + 6..24 + 8].copy_from_slice(&3u16.to_ne_bytes());
        assert_eq!(walked(&bad, &[]).0.len(), 1);
        assert!(!walked(&bad, &[]).1);
    }

    proptest! {
        #[test]
        fn any_bytes_end(first in prop::collection::vec(any::<u8>(), 0..64), second in prop::collection::vec(any::<u8>(), 0..64)) {
            let (records, _) = walked(&first, &second);
            prop_assert!(records.concat().len() <= first.len() + second.len());
        }
    }
}
