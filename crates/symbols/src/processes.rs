//! The code that was mapped in each sampled process, over time.
//!
//! A *generation* is a set of executable ranges that do not contradict one another. Libraries that are loaded later, and memory that a just-in-time
//! compiler adds, extend the current generation. A new generation begins when the program file changes (exec), or when an address belongs to other
//! code than before.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use machine::Root;
use machine::process::Task;

use crate::modules::{Mapped, ModuleId, Modules};

/// Minimum time between two reads of a process's maps. Each instruction pointer outside all known ranges asks for a read. The minimum bounds
/// the cost for a program that runs code which is not in its maps.
const MIN_BETWEEN_READS: Duration = Duration::from_millis(200);

/// Maximum number of generations (sets of executable ranges, see the module's documentation) that are kept per process. Once it is reached, no new
/// generation begins: a new range replaces those ranges of the last generation that had other code at the same addresses. Only programs that map new
/// code over old code again and again reach this limit.
const MAX_GENERATIONS: usize = 64;

/// A range of executable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub mapped: Mapped,
    /// File offset of the first byte.
    pub offset: u64,
    pub module: ModuleId,
    has_file: bool,
}

impl Range {
    /// Returns the file offset of the code mapped at `ip`.
    pub fn file_offset(&self, ip: u64) -> u64 {
        self.offset.wrapping_add(ip.wrapping_sub(self.mapped.start))
    }

    fn contains(&self, ip: u64) -> bool {
        (self.mapped.start..self.mapped.end).contains(&ip)
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.mapped.start < other.mapped.end && other.mapped.start < self.mapped.end
    }

    /// Returns whether both ranges have the same bytes at the same addresses. Memory without a file has no offsets to compare.
    fn agrees(&self, other: &Range) -> bool {
        let bias = |range: &Range| range.mapped.start.wrapping_sub(range.offset);
        self.module == other.module && (!self.has_file || bias(self) == bias(other))
    }
}

/// A sampled process.
struct Process {
    /// The sets of executable ranges that the process has had (generations), the oldest first; never empty. In each set, the ranges are in ascending
    /// order.
    generations: Vec<Vec<Range>>,
    /// Device and inode of the program file.
    program: Option<(u64, u64)>,
    read_at: Instant,
}

/// All sampled processes, and the modules that they have mapped.
pub(crate) struct Processes {
    pub root: Root,
    pub modules: Modules,
    known: HashMap<u32, Process>,
}

impl Processes {
    /// Makes an empty table of processes. /proc and files are read below `root`.
    pub fn new(root: Root) -> Processes {
        Processes { root, modules: Modules::default(), known: HashMap::new() }
    }

    /// Returns the number of known processes.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether process `tgid` is known.
    pub fn contains(&self, tgid: u32) -> bool {
        self.known.contains_key(&tgid)
    }

    /// Reads the maps of a process that is new or has executed another program. Must be called once per batch of samples for each process in the
    /// batch.
    pub fn look(&mut self, tgid: u32, now: Instant) {
        let (root, modules) = (&self.root, &mut self.modules);
        let program = program_of(root, tgid);
        match self.known.get_mut(&tgid) {
            Some(process) => {
                if program.is_some() && program != process.program {
                    process.program = program;
                    process.read(tgid, now, root, modules, true);
                }
            }
            None => {
                let mut process = Process { generations: vec![Vec::new()], program, read_at: now };
                process.read(tgid, now, root, modules, false);
                self.known.insert(tgid, process);
            }
        }
    }

    /// Returns the range of the process's code that contains `ip`, and the number of the generation (set of executable ranges) to which the range
    /// belongs. If no range contains `ip` and the maps were not read recently, reads them again. If there is still no range, returns the number of
    /// the current generation. Opens the file behind the range.
    pub fn locate(&mut self, tgid: u32, ip: u64, now: Instant) -> Option<(u32, Option<Range>)> {
        let process = self.known.get_mut(&tgid)?;
        let mut range = process.current(ip);
        if range.is_none() && now.duration_since(process.read_at) >= MIN_BETWEEN_READS {
            process.read(tgid, now, &self.root, &mut self.modules, false);
            range = process.current(ip);
        }
        let last = process.generations.len() - 1;
        let found = match range {
            Some(range) => (last, Some(range)),
            // The sample may be older than an exec in the same batch: search the earlier generations.
            None => (0..last)
                .rev()
                .find_map(|generation| Some((generation, Some(find(&process.generations[generation], ip)?))))
                .unwrap_or((last, None)),
        };
        if let Some(range) = found.1 {
            self.modules.hold(range.module, &self.root, tgid, &range.mapped);
        }
        Some((u32::try_from(found.0).unwrap_or(u32::MAX), found.1))
    }

    /// Returns the executable range that contains `ip`, in the given generation (set of ranges), whose number [`Processes::locate`] has returned.
    pub fn range(&self, tgid: u32, generation: u32, ip: u64) -> Option<Range> {
        find(self.known.get(&tgid)?.generations.get(generation as usize)?, ip)
    }
}

impl Process {
    fn current(&self, ip: u64) -> Option<Range> {
        find(self.generations.last()?, ip)
    }

    /// Reads the maps. If the process is gone, or its maps may not be read, keeps what is known.
    fn read(&mut self, tgid: u32, now: Instant, root: &Root, modules: &mut Modules, executed: bool) {
        self.read_at = now;
        let Ok(mappings) = Task::process(root, tgid).maps() else { return };
        let fresh: Vec<Range> = mappings
            .iter()
            .filter(|mapping| mapping.executable)
            .map(|mapping| Range {
                mapped: Mapped { start: mapping.start, end: mapping.end },
                has_file: mapping.inode != 0,
                offset: mapping.offset_bytes,
                module: modules.of(mapping),
            })
            .collect();
        if !fresh.is_empty() {
            self.merge(fresh, executed);
        }
    }

    fn merge(&mut self, fresh: Vec<Range>, executed: bool) {
        let may_grow = self.generations.len() < MAX_GENERATIONS;
        let Some(current) = self.generations.last_mut() else { return };
        let contradicts = |old: &Range| fresh.iter().any(|new| new.overlaps(old) && !new.agrees(old));
        if !current.is_empty() && may_grow && (executed || current.iter().any(contradicts)) {
            self.generations.push(fresh);
            return;
        }
        current.retain(|old| !contradicts(old));
        for mut new in fresh {
            // Overlapping ranges of the same code are joined: memory may be made executable in steps.
            current.retain(|old| {
                let same = old.overlaps(&new);
                if same {
                    if old.mapped.start < new.mapped.start {
                        new.mapped.start = old.mapped.start;
                        new.offset = old.offset;
                    }
                    new.mapped.end = new.mapped.end.max(old.mapped.end);
                }
                !same
            });
            current.push(new);
        }
        current.sort_unstable_by_key(|range| range.mapped.start);
    }
}

fn find(ranges: &[Range], ip: u64) -> Option<Range> {
    let behind = ranges.partition_point(|range| range.mapped.start <= ip);
    ranges.get(behind.checked_sub(1)?).copied().filter(|range| range.contains(ip))
}

/// Returns device and inode of the program file. An exec of another program changes them, and reading them costs only one system call.
fn program_of(root: &Root, tgid: u32) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(root.path(format!("/proc/{tgid}/exe"))).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
