//! Module transfer.
