//! Patterns: which files belong to which series, dataset and rank (docs/guide/patterns.md).
//!
//! | file | job |
//! |---|---|
//! | `element.rs` | a list's elements, `:own`, the classic form |
//! | `glob.rs` | globs to regular expressions |
//! | `alternative.rs` | one element, compiled |
//! | `overlap.rs` | patterns that take what a later series was written for |
//! | `nearest.rs` | why nothing matched: [`Nearest`] |
//! | `series.rs` | [`SeriesSet`]: everything compiled, and the matching |
//! | `temporary.rs` | [`Template`]: how a program names what it renames later |

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
pub use nearest::{Nearest, masked};
pub use series::{Match, PROGRAM, PROGRAM_OUTPUT, Series, SeriesSet, ToldBy};
pub use temporary::Template;
