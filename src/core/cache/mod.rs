//! Module cache.
