//! Module system.
