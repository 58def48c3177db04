//! Datasets from directories that a person names, to the prefix: copies of nodes' caches, or of
//! datasets in them (manual 1.1, sections 8 and 11.10.4 to 9).

use std::path::PathBuf;

use super::salvage::publish_found;
use super::scavenge::{Scavenged, published};
use crate::error::Result;
use crate::launch::JobPlaces;
use crate::operations::prefix::holder;
use crate::params::{Environment, Settings};
use crate::transfer::Which;

/// Rebuilds and publishes what is found below `dirs`, which stay as they are; only dataset `id`, if
/// that is given. What the prefix has already is left alone.
///
/// # Errors
/// A live run uses the prefix or one of `dirs`, there is nothing of a run in them, or something
/// cannot be read or written.
pub fn publish_directories(
    settings: &Settings,
    environment: &Environment,
    dirs: &[PathBuf],
    id: Option<u64>,
) -> Result<Scavenged> {
    let places = JobPlaces::new(settings, environment)?;
    let which = id.map_or(Which::All, Which::Id);
    let mut unknown = Vec::new();
    let found = publish_found(&places, settings, &holder(), dirs, which, &mut unknown)?;
    let mut done = published(&places, found, Scavenged::default())?;
    done.unknown = unknown;
    Ok(done)
}
