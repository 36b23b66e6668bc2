//! The addresses of each ULP.
//!
//! A ULP has two ranges: *near* for its stack, its program, its libraries and small mappings, *far* for large ones. Near ranges are as short as
//! possible, because ULPs whose memory is close together share page tables.

use std::ops::Range;

use crate::program::layout::{PAGE, down, up};

/// Length of a near range beyond the program, bytes.
const NEAR_BYTES: u64 = 24 << 20;
/// Bounds of the length of a far range, bytes.
const SHORTEST_FAR_BYTES: u64 = 1 << 30;
const LONGEST_FAR_BYTES: u64 = 256 << 30;

/// The addresses of one ULP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of the region.
    number: u64,
    /// For its program, and small mappings.
    pub near: Range<u64>,
    /// For large mappings.
    pub far: Range<u64>,
}

impl Region {
    /// Returns the region with a near range that is long enough for a program of so many bytes: if it is longer than those that the regions were
    /// made for, the near range is in the far one.
    #[must_use]
    pub fn with_room_for(self, program_bytes: u64) -> Region {
        let Region { number, near, far } = self;
        if program_bytes <= near.end - near.start {
            return Region { number, near, far };
        }
        let border = (far.start + up(program_bytes + NEAR_BYTES)).min(far.end);
        Region { number, near: far.start..border, far: border..far.end }
    }
}

/// Addresses of which each ULP gets a part.
#[derive(Debug)]
pub struct Regions {
    /// Where the first near and the first far range begin.
    begin: [u64; 2],
    /// Length of each near and of each far range, bytes.
    bytes: [u64; 2],
    /// How many there are.
    count: u64,
    /// The lowest number that nobody has had.
    next: u64,
    /// Numbers that were given back.
    free: Vec<u64>,
}

impl Regions {
    /// Divides the middle of a free range of addresses: the kernel may go on at both of its ends. `programs_bytes` is the length of the longest
    /// program with its stack, `count` the number of ULPs.
    #[must_use]
    pub fn new(free: &Range<u64>, program_bytes: u64, count: usize) -> Regions {
        let quarter = (free.end - free.start) / 4;
        let (begin, end) = (up(free.start + quarter), down(free.end - quarter));
        // With an odd number of pages, the same page of different ULPs is not in the same set of the TLB.
        let near_bytes = up(program_bytes + NEAR_BYTES) | PAGE;
        let span = end.saturating_sub(begin);
        let fits = (count as u64).min(span / (near_bytes + SHORTEST_FAR_BYTES));
        let far_bytes = down((span - near_bytes * fits) / fits.max(1)).clamp(SHORTEST_FAR_BYTES, LONGEST_FAR_BYTES);
        let begin = [begin, begin + near_bytes * fits];
        Regions { begin, bytes: [near_bytes, far_bytes], count: fits, next: 0, free: Vec::new() }
    }

    /// Returns the addresses of all regions.
    pub fn addresses(&self) -> Range<u64> {
        self.begin[0]..self.begin[1] + self.bytes[1] * self.count
    }

    /// Returns a region that nobody has; `None` if all are in use.
    pub fn take(&mut self) -> Option<Region> {
        let number = self.free.pop().or_else(|| {
            let number = self.next;
            (number < self.count).then(|| self.next += 1).map(|()| number)
        })?;
        let range = |kind: usize| {
            let begin = self.begin[kind] + self.bytes[kind] * number;
            begin..begin + self.bytes[kind]
        };
        Some(Region { number, near: range(0), far: range(1) })
    }

    /// Takes a region back in which nothing is mapped any more.
    pub fn give_back(&mut self, region: &Region) {
        self.free.push(region.number);
    }
}

/// Returns the longest range of addresses between the mappings of a process, in which it can map something. `maps` is a file as /proc/self/maps. Empty:
/// there is none.
#[must_use]
pub fn longest_free(maps: &str) -> Range<u64> {
    let mut longest = 0..0;
    let mut end = 0;
    for line in maps.lines() {
        let address = |text: Option<&str>| text.and_then(|text| u64::from_str_radix(text, 16).ok());
        let mut range = line.split(' ').next().unwrap_or_default().split('-');
        let (Some(begin), Some(next)) = (address(range.next()), address(range.next())) else { continue };
        // The upper half is the kernel's (vsyscall).
        if begin >= 1 << 63 {
            break;
        }
        // The range below the first mapping belongs to the kernel in part (vm.mmap_min_addr).
        if end > 0 && begin.saturating_sub(end) > longest.end - longest.start {
            longest = end..begin;
        }
        end = end.max(next);
    }
    longest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERA: u64 = 1 << 40;

    #[test]
    fn longer_programs_have_room_in_the_far_range() {
        let region = Regions::new(&(0..64 * TERA), 8 << 20, 2).take().unwrap();
        assert_eq!(region.clone().with_room_for(32 << 20), region);
        let longer = region.clone().with_room_for(100 << 20);
        assert_eq!(
            (longer.near.start, longer.far.end, longer.number),
            (region.far.start, region.far.end, region.number)
        );
        assert_eq!((longer.near.end, longer.near.end - longer.near.start), (longer.far.start, 124 << 20));
        let too_long = region.clone().with_room_for(TERA);
        assert_eq!((too_long.near, too_long.far.start), (region.far.clone(), region.far.end));
    }

    #[test]
    fn the_longest_range_between_two_mappings_is_free() {
        let maps = "00400000-00500000 r-xp 00000000 00:00 0 /bin/x\n\
                    555555554000-5555555a8000 r--p 00000000 00:00 0\n\
                    7ffff7d00000-7ffff7f00000 r--p 00000000 00:00 0 /lib/a b\n\
                    7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        assert_eq!(longest_free(maps), 0x0050_0000..0x5555_5555_4000);
        let above: String = maps.lines().skip(1).map(|line| format!("{line}\n")).collect();
        assert_eq!(longest_free(&above), 0x5555_555a_8000..0x7fff_f7d0_0000);
        assert_eq!(longest_free(""), 0..0);
    }

    #[test]
    fn a_region_that_was_given_back_is_given_again() {
        let mut regions = Regions::new(&(0..40 * TERA), 10 << 20, 2);
        let (first, second) = (regions.take().unwrap(), regions.take().unwrap());
        assert_eq!(regions.take(), None);
        regions.give_back(&first);
        assert_eq!(regions.take(), Some(first));
        regions.give_back(&second);
        assert_eq!(regions.take(), Some(second));
    }

    proptest! {
        #[test]
        fn regions_do_not_meet_and_leave_a_quarter_free_at_each_end(
            begin in 0u64..0x5555_5555_5555, tera in 1u64..40, program in 1u64..2 << 30, count in 1usize..20_000,
        ) {
            let free = begin..begin + tera * TERA;
            let mut regions = Regions::new(&free, program, count);
            let all: Vec<Region> = std::iter::from_fn(|| regions.take()).collect();
            // A tera has room for hundreds, even with the longest programs.
            prop_assert!(all.len() <= count && all.len() >= count.min(128));
            let mut ranges: Vec<Range<u64>> = all.iter().flat_map(|one| [one.near.clone(), one.far.clone()]).collect();
            ranges.sort_by_key(|range| range.start);
            prop_assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start));
            for range in ranges {
                prop_assert!(range.start >= free.start + tera * TERA / 4 && range.end <= free.end - tera * TERA / 4 && range.start % PAGE == 0);
            }
            for one in all {
                prop_assert!(one.near.end - one.near.start >= program + NEAR_BYTES);
                prop_assert!((SHORTEST_FAR_BYTES..=LONGEST_FAR_BYTES).contains(&(one.far.end - one.far.start)));
            }
        }
    }
}
