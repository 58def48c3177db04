//! Module patterns.
