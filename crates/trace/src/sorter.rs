//! Sorts more items than fit in memory. Sorted runs go to an unnamed temporary file and are merged when they are read.
//!
//! Trace events arrive nearly in order, because each CPU's events are in order. Stretches (intervals in which a thread
//! has one state) are reported at their ends, but are needed in order of their starts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytemuck::Pod;
use wire::TraceEvent;

/// Maximum number of items in memory: 24 MB of trace events.
const RUN: usize = 1 << 20;
/// Number of items that are read at once from each sorted run of the temporary file.
const PAGE: usize = 4096;

/// An item with a sort key.
pub trait Keyed {
    /// Returns the sort key. The sort is stable: items with equal keys keep their order.
    fn key(&self) -> u64;
}

impl Keyed for TraceEvent {
    fn key(&self) -> u64 {
        self.t_ns
    }
}

/// Accepts items in any order.
#[derive(Debug)]
pub struct Sorter<T> {
    file: File,
    /// Number of items in each sorted run of the temporary file.
    runs: Vec<usize>,
    fresh: Vec<T>,
    most: usize,
}

impl<T: Pod + Keyed> Sorter<T> {
    /// Creates a sorter with an unnamed temporary file in `folder`. The file disappears when the process ends, also
    /// after a crash.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn new(folder: &Path) -> io::Result<Sorter<T>> {
        Sorter::with_runs_of(RUN, folder)
    }

    fn with_runs_of(most: usize, folder: &Path) -> io::Result<Sorter<T>> {
        Ok(Sorter { file: tempfile::tempfile_in(folder)?, runs: Vec::new(), fresh: Vec::new(), most })
    }

    /// Takes an item.
    ///
    /// # Errors
    /// When the file cannot be written, e.g. on a full disk.
    pub fn push(&mut self, item: T) -> io::Result<()> {
        self.fresh.push(item);
        if self.fresh.len() < self.most { Ok(()) } else { self.spill() }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.fresh.sort_by_key(Keyed::key);
        let before: usize = self.runs.iter().sum();
        self.file.write_all_at(bytemuck::cast_slice(&self.fresh), (before * size_of::<T>()) as u64)?;
        self.runs.push(self.fresh.len());
        self.fresh.clear();
        Ok(())
    }

    /// Finishes the input and returns all items in order.
    ///
    /// # Errors
    /// When the file cannot be written, e.g. on a full disk.
    pub fn sorted(mut self) -> io::Result<Sorted<T>> {
        // If all items fit in memory, the file stays empty.
        if self.runs.is_empty() {
            self.fresh.sort_by_key(Keyed::key);
        } else if !self.fresh.is_empty() {
            self.spill()?;
        }
        Ok(Sorted { file: self.file, runs: self.runs, few: self.fresh })
    }
}

/// Sorted items. They can be read several times.
#[derive(Debug)]
pub struct Sorted<T> {
    file: File,
    runs: Vec<usize>,
    /// All items, if they fit in memory and the temporary file is empty.
    few: Vec<T>,
}

impl<T: Pod + Keyed> Sorted<T> {
    /// Calls `each` with every item in order. Items with equal keys come in the order of their arrival.
    ///
    /// # Errors
    /// Errors of `each`, and failures to read the file.
    pub fn each<E: From<io::Error>>(&self, mut each: impl FnMut(&T) -> Result<(), E>) -> Result<(), E> {
        if self.runs.is_empty() {
            return self.few.iter().try_for_each(each);
        }
        let mut start = 0;
        let mut runs: Vec<Run<'_, T>> = Vec::new();
        for length in &self.runs {
            runs.push(Run { file: &self.file, next: start, end: start + length, page: Vec::new(), at: 0 });
            start += length;
        }
        // Heap order is by key, then by run number: of equal items, those of the earlier run come first.
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.head()?.map(|item| Reverse((item.key(), number))));
        }
        while let Some(Reverse((_, number))) = heads.pop() {
            let run = &mut runs[number];
            run.head()?.iter().try_for_each(&mut each)?;
            run.at += 1;
            heads.extend(run.head()?.map(|item| Reverse((item.key(), number))));
        }
        Ok(())
    }
}

/// A sorted run of the temporary file that is being read.
struct Run<'f, T> {
    file: &'f File,
    next: usize,
    end: usize,
    page: Vec<T>,
    at: usize,
}

impl<T: Pod> Run<'_, T> {
    /// Returns the first item that has not been taken.
    fn head(&mut self) -> io::Result<Option<T>> {
        if self.at == self.page.len() {
            let count = PAGE.min(self.end - self.next);
            self.page.resize(count, T::zeroed());
            let bytes = bytemuck::cast_slice_mut(&mut self.page);
            self.file.read_exact_at(bytes, (self.next * size_of::<T>()) as u64)?;
            self.next += count;
            self.at = 0;
        }
        Ok(self.page.get(self.at).copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A number, and when it came.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Item(u64, u64);

    impl Keyed for Item {
        fn key(&self) -> u64 {
            self.0
        }
    }

    fn items(keys: impl IntoIterator<Item = u64>) -> Vec<Item> {
        keys.into_iter().zip(0..).map(|(key, came)| Item(key, came)).collect()
    }

    fn sorted(items: &[Item], most: usize) -> Vec<Item> {
        let mut sorter = Sorter::with_runs_of(most, &std::env::temp_dir()).unwrap();
        items.iter().for_each(|item| sorter.push(*item).unwrap());
        let sorted = sorter.sorted().unwrap();
        let mut all = Vec::new();
        // Twice: reading takes nothing away.
        for _ in 0..2 {
            all.clear();
            let keep = |item: &Item| -> io::Result<()> {
                all.push(*item);
                Ok(())
            };
            sorted.each(keep).unwrap();
        }
        all
    }

    proptest! {
        #[test]
        fn in_memory_or_in_runs_all_come_in_order(keys in prop::collection::vec(0u64..100, 0..300), most in 1usize..40) {
            let items = items(keys);
            let mut expected = items.clone();
            expected.sort();
            prop_assert_eq!(sorted(&items, most), &expected[..]);
            prop_assert_eq!(sorted(&items, 1000), expected);
        }
    }

    #[test]
    fn more_than_a_page_of_each_run() {
        let items = items((0..3 * PAGE as u64 + 5).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20));
        let mut expected = items.clone();
        expected.sort();
        assert_eq!(sorted(&items, PAGE + 7), expected);
    }

    #[test]
    fn who_reads_may_stop() {
        let mut sorter = Sorter::with_runs_of(2, &std::env::temp_dir()).unwrap();
        items(0..10).into_iter().for_each(|item| sorter.push(item).unwrap());
        let mut seen = 0;
        let stopped = sorter.sorted().unwrap().each(|_| {
            seen += 1;
            if seen == 3 { Err(io::Error::other("enough")) } else { Ok(()) }
        });
        assert_eq!((stopped.unwrap_err().to_string(), seen), ("enough".into(), 3));
    }

    #[test]
    fn a_folder_that_is_not_there_is_refused() {
        assert!(Sorter::<TraceEvent>::new(Path::new("/nowhere/at/all")).is_err());
    }
}
