//! Whether to rotate.
