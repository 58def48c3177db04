//! Module log.
