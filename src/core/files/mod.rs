//! Module files.
