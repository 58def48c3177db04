//! Module descriptors.
