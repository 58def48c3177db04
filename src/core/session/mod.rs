//! Module session.
