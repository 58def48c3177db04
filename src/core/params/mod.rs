//! Module params.
