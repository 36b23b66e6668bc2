//! A reader for BTF, in which kernels and BPF objects describe their C types: only what is needed to find a struct and its members.
//!
//! The build script includes this file too, to learn which fields the programs read.

/// Kinds of types (`linux/btf.h`).
pub mod kind {
    #![allow(missing_docs)]
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// Kinds that add a name or a qualifier to another type.
const QUALIFIERS: [u32; 5] = [kind::TYPEDEF, kind::VOLATILE, kind::CONST, kind::RESTRICT, kind::TYPE_TAG];

/// Size of the header, bytes.
pub const HEADER_LEN: usize = 24;
/// Size of a type without the data that depends on its kind, bytes.
pub const TYPE_LEN: usize = 12;
/// Size of a member of a struct, bytes.
pub const MEMBER_LEN: usize = 12;
/// The first two bytes of BTF.
pub const MAGIC: u16 = 0xeb9f;

/// All types of a kernel or an object. Type 0 is `void` and is not among them.
pub struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// The byte offset of each type, by its id.
    begins: Vec<u32>,
}

/// One type.
#[derive(Clone, Copy)]
pub struct Type<'a> {
    /// The type's bytes, from its name to its last member.
    pub bytes: &'a [u8],
}

/// A member of a struct or a union.
#[derive(Clone, Copy)]
pub struct Member {
    /// The member's name, as an offset in the strings.
    pub name: u32,
    /// The id of the member's type.
    pub of: u32,
    /// The member's offset in bits. If the struct says so, the upper byte is the member's width in bits.
    pub offset: u32,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Types<'a> {
    /// Parses BTF. Returns `None` if the bytes are not BTF in this machine's byte order, or use a kind that this reader does not know.
    pub fn read(bytes: &'a [u8]) -> Option<Types<'a>> {
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let header_len = word(bytes, 4)? as usize;
        let section = |at: usize| {
            let (offset, len) = (word(bytes, at)? as usize, word(bytes, at + 4)? as usize);
            let begin = header_len.checked_add(offset)?;
            bytes.get(begin..begin.checked_add(len)?)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut begins = vec![0];
        let mut at = 0;
        while at < types.len() {
            begins.push(at as u32);
            let info = word(types, at + 4)?;
            at += TYPE_LEN + extra(info)?;
        }
        (at == types.len()).then_some(Types { types, strings, begins })
    }

    /// Returns the ids of all types.
    pub fn ids(&self) -> std::ops::Range<u32> {
        1..self.begins.len() as u32
    }

    /// Returns the type with this id; `None` for `void`.
    pub fn get(&self, id: u32) -> Option<Type<'a>> {
        if id == 0 {
            return None;
        }
        let bytes = self.types.get(*self.begins.get(id as usize)? as usize..)?;
        let len = TYPE_LEN + extra(word(bytes, 4)?)?;
        Some(Type { bytes: bytes.get(..len)? })
    }

    /// Returns the name at an offset; empty for types without a name.
    pub fn name(&self, offset: u32) -> &'a [u8] {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns the first byte of the name at an offset; 0 for types without a name.
    pub fn first_of_name(&self, offset: u32) -> u8 {
        self.strings.get(offset as usize).copied().unwrap_or(0)
    }

    /// Returns the id of the type behind typedefs and qualifiers.
    pub fn plain(&self, mut id: u32) -> u32 {
        // Chains are a few links long, but in damaged data they may be circular.
        for _ in 0..32 {
            match self.get(id) {
                Some(of) if QUALIFIERS.contains(&of.kind()) => id = of.of(),
                _ => break,
            }
        }
        id
    }
}

impl Type<'_> {
    fn word(self, at: usize) -> u32 {
        word(self.bytes, at).unwrap_or(0)
    }

    /// Returns the type's name, as an offset in the strings.
    pub fn name(self) -> u32 {
        self.word(0)
    }

    /// Returns the word that holds the kind and the number of entries.
    pub fn info(self) -> u32 {
        self.word(4)
    }

    /// Returns the type's kind, one of the constants in [`kind`].
    pub fn kind(self) -> u32 {
        self.info() >> 24 & 31
    }

    /// Returns the id of the type that this one refers to, or the size in bytes for kinds that refer to none.
    pub fn of(self) -> u32 {
        self.word(8)
    }

    /// Returns the members of a struct or union.
    pub fn members(self) -> impl Iterator<Item = Member> {
        let members = self.bytes.get(TYPE_LEN..).unwrap_or_default().chunks_exact(MEMBER_LEN);
        members.map(|bytes| {
            let word = |at| word(bytes, at).unwrap_or(0);
            Member { name: word(0), of: word(4), offset: word(8) }
        })
    }
}

/// Returns the number of bytes that a type has beyond [`TYPE_LEN`].
fn extra(info: u32) -> Option<usize> {
    let entries = info as usize & 0xffff;
    Some(match info >> 24 & 31 {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::PTR | kind::FWD..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => entries * 12,
        kind::ENUM | kind::FUNC_PROTO => entries * 8,
        _ => return None,
    })
}
