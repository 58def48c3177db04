//! Patterns: which files belong to which series, dataset and rank (docs/guide/patterns.md).

mod alternative;
mod config;
mod element;
mod glob;
mod loose;
mod nearest;
mod overlap;
mod series;
mod temporary;

pub use config::{PatternConfig, PatternText};
pub(crate) use nearest::masked;
pub(crate) use series::Series;
pub use series::{Match, PROGRAM, PROGRAM_OUTPUT, SeriesSet};
pub(crate) use temporary::Template;
