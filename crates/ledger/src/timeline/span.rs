//! The window, divided into columns.

/// A window with columns whose lengths differ by at most a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start_ns: u64,
    end_ns: u64,
    columns: usize,
}

impl Span {
    /// Creates a window from `start_ns` to `end_ns` with up to `columns` columns: at least one, and none shorter than a nanosecond.
    #[must_use]
    pub fn new(start_ns: u64, end_ns: u64, columns: usize) -> Span {
        let start_ns = start_ns.min(u64::MAX - 1);
        let end_ns = end_ns.max(start_ns + 1);
        let most = usize::try_from(end_ns - start_ns).unwrap_or(usize::MAX);
        Span { start_ns, end_ns, columns: columns.clamp(1, most) }
    }

    /// Returns the start in nanoseconds.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Returns the end in nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Returns the length in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the start of a column, which is the end of the previous one.
    #[must_use]
    pub fn border_ns(&self, column: usize) -> u64 {
        // The product may exceed 64 bits; the quotient is never more than the length.
        let part = u128::from(self.length_ns()) * column as u128 / self.columns as u128;
        self.start_ns + part as u64
    }

    /// Returns the length of a column in nanoseconds.
    #[must_use]
    pub fn width_ns(&self, column: usize) -> u64 {
        self.border_ns(column + 1) - self.border_ns(column)
    }

    /// Returns the column of a time; `None` outside the window. The window's end belongs to the last column.
    #[must_use]
    pub fn column(&self, t_ns: u64) -> Option<usize> {
        if t_ns < self.start_ns || t_ns > self.end_ns {
            return None;
        }
        let near = (u128::from(t_ns - self.start_ns) * self.columns as u128 / u128::from(self.length_ns())) as usize;
        let near = near.min(self.columns - 1);
        // Borders are rounded down, so `t_ns` may be at or after the next border.
        Some(if near + 1 < self.columns && self.border_ns(near + 1) <= t_ns { near + 1 } else { near })
    }

    /// Returns whether an interval is entirely inside the window.
    #[must_use]
    pub fn holds(&self, from_ns: u64, until_ns: u64) -> bool {
        from_ns >= self.start_ns && until_ns <= self.end_ns
    }

    /// Divides the part of an interval inside the window at the borders of columns.
    pub fn divide(&self, from_ns: u64, until_ns: u64, mut each: impl FnMut(usize, u64)) {
        let mut from_ns = from_ns.max(self.start_ns);
        let until_ns = until_ns.min(self.end_ns);
        let Some(first) = self.column(from_ns).filter(|_| from_ns < until_ns) else { return };
        for column in first..self.columns {
            let next_ns = self.border_ns(column + 1).min(until_ns);
            each(column, next_ns - from_ns);
            from_ns = next_ns;
            if from_ns >= until_ns {
                break;
            }
        }
    }
}
