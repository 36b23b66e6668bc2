//! A static part and a self-scheduled rest: each thread begins with a block, without a request, and then takes chunks.
//!
//! Source: Donfack, Grigori, Gropp and Kale, "Hybrid static/dynamic scheduling for already optimized dense matrix
//! factorization", IPDPS 2012. Most of the loop keeps the locality of `static`; the rest balances.

use std::ops::Range;

use crate::blocks::Blocks;
use crate::table::Table;

/// Blocks for the first iterations of a loop, and chunks for the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Hybrid {
    blocks: Blocks,
    /// Chunks of the iterations behind the blocks.
    rest: Table,
}

impl Hybrid {
    /// Puts `blocks` of `start` iterations before the chunks of `rest`.
    pub(crate) fn new(blocks: Blocks, start: u64, rest: Table) -> Hybrid {
        Hybrid { blocks, rest: rest.behind(start) }
    }

    /// Returns the block of a thread, which may be empty. The thread executes it before its first request.
    #[must_use]
    pub fn block(&self, thread: usize) -> Range<u64> {
        self.blocks.of(thread)
    }

    /// Returns chunk number `k` of the rest, counted from 0; `None` for each `k` after the last chunk.
    #[must_use]
    pub fn chunk(&self, k: u64) -> Option<Range<u64>> {
        self.rest.chunk(k)
    }

    /// Returns the chunks of the rest.
    #[must_use]
    pub fn rest(&self) -> &Table {
        &self.rest
    }
}
