//! The spec's "hash": an ordered tree of strings.

/// A tree of keys; a value is a key without children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvTree {}
