//! The format text of a tracepoint, which gives the position of each field in the payload. Kernels differ: in one
//! kernel a name is a field of 16 bytes; in another the field contains a reference to a different part of the payload.

use std::collections::HashMap;

use wire::{Cause, Left};

use crate::bytes::u32_at;
use crate::event::{Comm, Raw, comm};

/// Position and type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
    place: Place,
}

/// Location of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The field itself holds the bytes.
    Here,
    /// The field holds a reference: length in the upper half, offset from the start of the payload in the lower half.
    Located,
    /// The field holds a reference as in `Located`, but the offset starts at the end of the field.
    LocatedBehind,
}

impl Field {
    /// Returns the field's value: a number of 1, 2, 4 or 8 bytes.
    #[inline]
    pub(crate) fn number(&self, payload: &[u8]) -> Option<i64> {
        let bytes = payload.get(self.offset..self.offset.checked_add(self.size)?)?;
        // The common case first: nearly all fields have 4 bytes.
        if let Ok(bytes) = bytes.try_into() {
            let number = u32::from_le_bytes(bytes);
            return Some(if self.is_signed { number.cast_signed().into() } else { number.into() });
        }
        if let Ok(bytes) = bytes.try_into() {
            return Some(i64::from_le_bytes(bytes));
        }
        let negative = self.is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = if negative { [0xff; 8] } else { [0; 8] };
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(i64::from_le_bytes(wide))
    }

    /// Returns the field's value as a thread id or CPU number.
    #[inline]
    pub(crate) fn id(&self, payload: &[u8]) -> Option<u32> {
        self.number(payload).and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the field's value as a thread name.
    pub(crate) fn comm(&self, payload: &[u8]) -> Option<Comm> {
        let (offset, size) = match self.place {
            Place::Here => (self.offset, self.size),
            Place::Located | Place::LocatedBehind => {
                let told = u32_at(payload, self.offset)? as usize;
                let from = if self.place == Place::Located { 0 } else { self.offset.checked_add(4)? };
                (from.checked_add(told & 0xffff)?, told >> 16)
            }
        };
        payload.get(offset..offset.checked_add(size)?).map(comm)
    }
}

/// A kernel's description of one of its tracepoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Name of the tracepoint, without the subsystem.
    pub name: String,
    /// Id of the tracepoint in the kernel that this format comes from.
    pub id: u64,
    fields: HashMap<String, Field>,
    /// State letters of `sched_switch`, each with its bit.
    letters: Vec<(u64, u8)>,
}

impl Format {
    /// Reads the format text; `None` if it has no name or no number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Format> {
        let mut format = Format::default();
        let mut id = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                name.trim().clone_into(&mut format.name);
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(field) = line.strip_prefix("field:") {
                format.fields.extend(parse_field(field));
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.letters = letters(print);
            }
        }
        format.id = id?;
        (!format.name.is_empty()).then_some(format)
    }

    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }

    pub(crate) fn states(&self) -> States {
        States::of(&self.letters)
    }
}

/// Reads a field such as `type name[n]; offset:8; size:16; signed:0;`, with tabs.
fn parse_field(text: &str) -> Option<(String, Field)> {
    let mut parts = text.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let is_signed = number("signed:").unwrap_or(0) != 0;
    let place = if declared.starts_with("__data_loc") {
        Place::Located
    } else if declared.starts_with("__rel_loc") {
        Place::LocatedBehind
    } else {
        Place::Here
    };
    let name = declared.rsplit([' ', '\t', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    // A declaration such as `char name[LENGTH + 1]` would give a wrong name, because of its blanks. No field that is
    // used here has such a declaration.
    Some((name, Field { offset, size, is_signed, place }))
}

/// Reads pairs such as `{ 0x00000001, "S" }`. The numbers of states differ between kernels; the letters do not.
fn letters(print: &str) -> Vec<(u64, u8)> {
    let pair = |text: &str| {
        let (number, rest) = text.split_once(',')?;
        let number = number.trim();
        let bit = match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        let letter = rest.trim().strip_prefix('"')?.bytes().next()?;
        Some((bit, letter))
    };
    print.split('{').skip(1).filter_map(pair).collect()
}

/// Bits of `prev_state`, grouped by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct States {
    blocked: u64,
    dead: u64,
    stopped: u64,
}

impl States {
    fn of(letters: &[(u64, u8)]) -> States {
        let mut states = States::default();
        for (bit, letter) in letters {
            states.blocked |= bit;
            match letter {
                b'X' | b'x' | b'Z' => states.dead |= bit,
                b'T' | b't' => states.stopped |= bit,
                _ => {}
            }
        }
        // If the format lists no letters, use the values that no kernel has changed.
        if letters.is_empty() { States { blocked: 0xff, dead: 0x30, stopped: 0x0c } } else { states }
    }

    /// Returns why a thread that has this state left its CPU. State D can mean a disk or a kernel lock, so its cause
    /// stays unspecified.
    pub(crate) fn left(&self, state: u64) -> Left {
        if state & self.dead != 0 {
            Left::Dead
        } else if state & self.stopped != 0 {
            Left::Blocked(Some(Cause::Stopped))
        } else if state & self.blocked != 0 {
            Left::Blocked(Some(Cause::Unspecified))
        } else {
            Left::Preempted { yielded: false }
        }
    }

    /// Returns the state as far as perf's `timehist` distinguishes it: perf compares the state number with 0 and with
    /// 2.
    pub(crate) fn raw(&self, state: u64) -> Raw {
        match state {
            0 => Raw::Running,
            2 => Raw::Uninterruptible,
            _ if state & self.blocked == 0 => Raw::Preempted,
            _ => Raw::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "name: sched_switch\nID: 12\nformat:\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        print fmt: \"x\", __print_flags(REC->prev_state & (1024-1), \"|\", { 1, \"S\"} , { 2, \"D\" }, { 4, \"T\" }, { 16, \"Z\" }, \
        { 32, \"X\" }, { 64, \"x\" }, { 128, \"K\"}) : \"R\", REC->prev_state & 1024 ? \"+\" : \"\"\n";

    #[test]
    fn fields_are_where_the_text_says() {
        let format = Format::parse(OLD).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 12));
        let mut payload = vec![0; 40];
        payload[8..13].copy_from_slice(b"hello");
        payload[32..40].copy_from_slice(&1024i64.to_le_bytes());
        assert_eq!(format.field("prev_comm").unwrap().comm(&payload), Some(comm(b"hello")));
        assert_eq!(format.field("prev_state").unwrap().number(&payload), Some(1024));
        assert_eq!(format.field("prev_state").unwrap().number(&payload[..39]), None);
        assert_eq!(format.field("next_pid"), None);
    }

    #[test]
    fn letters_say_what_a_state_is_on_each_kernel() {
        let old = Format::parse(OLD).unwrap().states();
        assert_eq!(old.left(0), Left::Preempted { yielded: false });
        assert_eq!((old.left(1024), old.raw(1024)), (Left::Preempted { yielded: false }, Raw::Preempted));
        assert_eq!((old.left(64), old.left(16), old.left(32)), (Left::Dead, Left::Dead, Left::Dead));
        assert_eq!((old.left(2), old.raw(2)), (Left::Blocked(Some(Cause::Unspecified)), Raw::Uninterruptible));
        assert_eq!(old.left(4), Left::Blocked(Some(Cause::Stopped)));
        // 0x80 is a wake-kill there and an idle kernel thread today.
        assert_eq!(old.left(128), Left::Blocked(Some(Cause::Unspecified)));
    }

    #[test]
    fn a_name_may_be_elsewhere() {
        let text = "name: sched_migrate_task\nID: 7\nformat:\n\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:__rel_loc char[] near;\toffset:12;\tsize:4;\tsigned:0;\n\tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;\n";
        let format = Format::parse(text).unwrap();
        let mut payload = vec![0; 20];
        payload.extend(b"abc\0xy\0");
        payload[8..12].copy_from_slice(&(4u32 << 16 | 20).to_le_bytes());
        payload[12..16].copy_from_slice(&(3u32 << 16 | 8).to_le_bytes());
        payload[16..20].copy_from_slice(&(-1i32).to_le_bytes());
        assert_eq!(format.field("comm").unwrap().comm(&payload), Some(comm(b"abc")));
        assert_eq!(format.field("near").unwrap().comm(&payload), Some(comm(b"xy")));
        assert_eq!(format.field("pid").unwrap().number(&payload), Some(-1));
        assert_eq!(format.field("pid").unwrap().id(&payload), None);
        payload[8..12].copy_from_slice(&(9u32 << 16 | 20).to_le_bytes());
        assert_eq!(format.field("comm").unwrap().comm(&payload), None);
    }

    #[test]
    fn what_is_no_format_is_none() {
        for text in ["", "name: x\n", "ID: 3\n", "name: x\nID: many\n"] {
            assert_eq!(Format::parse(text), None, "{text}");
        }
        assert!(
            Format::parse("name: x\nID: 3\nfield:;;;\nfield:int a; offset:x; size:4;\nfield:int b;\n")
                .unwrap()
                .fields
                .is_empty()
        );
    }
}
