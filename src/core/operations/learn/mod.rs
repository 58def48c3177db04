//! Which patterns a watched run suggests: names of a kind become patterns, patterns whose files
//! come and go together become a series. What is proposed is tried on all names before it is told.

mod proposal;
mod shapes;
mod watched;

use std::path::Path;

pub use proposal::{Proposal, ProposedPattern, ProposedSeries, Skipped};
pub use watched::{Watched, Written};

use crate::error::Result;

/// Reads what the ranks of a watched run have left in `directory`, and proposes patterns.
///
/// # Errors
/// If it cannot be read, or no rank was watched.
pub fn learn(directory: &Path) -> Result<Proposal> {
    let watched = watched::read(directory)?;
    Ok(proposal::propose(&watched))
}
