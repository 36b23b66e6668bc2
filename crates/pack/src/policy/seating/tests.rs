//! Who sits where.
