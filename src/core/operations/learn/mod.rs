//! Patterns for what a watched run wrote. What is proposed is tried on all names before it is told.

#[cfg(test)]
mod programs;
mod proposal;
mod shapes;
mod watched;

use std::path::Path;

pub use proposal::{Proposal, ProposedPattern, ProposedSeries, Skipped};
pub use watched::{Watched, Written};

use crate::error::Result;

/// Reads what the ranks of a watched run have left in `directory`, and proposes patterns.
pub fn learn(directory: &Path) -> Result<Proposal> {
    let watched = watched::read(directory)?;
    Ok(proposal::propose(&watched))
}
