//! Reads numbers from byte slices that may be too short.

/// Reads two bytes at an offset.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// Reads four bytes at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// Reads eight bytes at an offset.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The bytes that are left to read. Reading consumes them from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'b>(pub(crate) &'b [u8]);

impl<'b> Rest<'b> {
    /// Consumes and returns the next `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| u32_at(bytes, 0))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| u64_at(bytes, 0))
    }

    /// Returns the text up to the next NUL and consumes the NUL too.
    pub(crate) fn text(&mut self) -> Option<&'b [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(text)
    }
}
