//! Datasets from directories that a person has copied, to the prefix (manual 1.1, sections 8 and
//! 11.10.4 to 9).

use std::path::PathBuf;

use super::salvage::publish_found;
use super::scavenge::{Scavenged, published};
use crate::error::Result;
use crate::launch::JobPlaces;
use crate::params::{Environment, Settings};
use crate::transfer::Which;

/// Rebuilds and publishes what is found below `dirs` (dataset `id` alone, if given) and the prefix
/// has not.
pub fn publish_directories(
    settings: &Settings,
    environment: &Environment,
    dirs: &[PathBuf],
    id: Option<u64>,
) -> Result<Scavenged> {
    let places = JobPlaces::new(settings, environment)?;
    let which = id.map_or(Which::All, Which::Id);
    let mut unknown = Vec::new();
    let found = publish_found(&places, settings, dirs, which, &mut unknown)?;
    let mut done = published(&places, found, Scavenged::default())?;
    done.unknown = unknown;
    Ok(done)
}
