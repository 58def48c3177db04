//! What a start does before it takes over the cache: purges that the settings ask for, and the
//! cache of a run with another number of ranks.

use std::time::Instant;

use crate::account::deleted::{OUTSIDE_WINDOW, deletions};
use crate::cache;
use crate::cache::agree::agree;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::places::site::{Links, Site};
use crate::log::{self, messages};
use crate::params::keys;
use crate::transfer::{Left, OtherSize, publish_other_size, purge_prefix};

/// Obeys `SCR_CACHE_PURGE`, `SCR_PREFIX_PURGE`. Returns what is to be logged. Collective.
pub(crate) fn purge(links: &Links, site: &Site) -> Result<Vec<Event>> {
    let is_root = site.rank == 0;
    let mut events = Vec::new();
    if site.settings.get(keys::CACHE_PURGE) {
        agree(links.world.as_ref(), cache::finish(&links.ctx(site)))?;
        links.world.barrier()?;
        events.push(Event::new("CLEARED").note("the cache (SCR_CACHE_PURGE=1)"));
        if is_root {
            log::message(1, "the cache is deleted (SCR_CACHE_PURGE=1)");
        }
    }
    if site.settings.get(keys::PREFIX_PURGE) {
        let purged = if is_root { purge_prefix(&site.prefix) } else { Ok(Left::new()) };
        let purged = agree(links.world.as_ref(), purged)?;
        events.extend(deletions(&purged, "SCR_PREFIX_PURGE=1"));
        if is_root && !purged.is_empty() {
            log::warn(
                messages::PURGED,
                format_args!(
                    "{} datasets are deleted from {} (SCR_PREFIX_PURGE=1)",
                    purged.len(),
                    site.prefix.display()
                ),
            );
        }
    }
    Ok(events)
}

/// Takes over the cache that a run with another number of ranks has left: what it holds goes to the
/// prefix, where this program reads it by files. Returns what is to be logged. Collective.
/// An error leaves the cache as it is.
pub(crate) fn take_over_other_size(
    links: &Links,
    site: &Site,
    identity: &str,
) -> Result<Vec<Event>> {
    let begin = Instant::now();
    let enter = || site.host.enter_thread();
    let outcome = publish_other_size(&links.ctx(site), identity, &enter);
    let taken = || Event::new("TAKEOVER").seconds(begin.elapsed().as_secs_f64());
    let found = match outcome {
        Err(error @ Error::Comm(_)) => return Err(error),
        Ok(None) => return Ok(Vec::new()),
        Err(error) => {
            let text = format!(
                "the cache of a run with another number of ranks cannot be published: {error}"
            );
            let event = taken().note(&text);
            if site.rank == 0 {
                log::warn(messages::OTHER_SIZE_FAILED, text);
            }
            return Ok(vec![event]);
        }
        Ok(Some(found)) => found,
    };
    let mut events = vec![taken().note(format!("the cache of a run with {} ranks", found.ranks))];
    for (id, key) in &found.published {
        let note = format!("from the cache of a run with {} ranks", found.ranks);
        events.push(Event::new("PUBLISHED").dataset(*id, key.title()).note(note));
    }
    events.extend(deletions(&found.left, OUTSIDE_WINDOW));
    for (id, key, why) in &found.withheld {
        events.push(Event::new("WITHHELD").dataset(*id, key.title()).note(why));
    }
    if site.rank == 0 {
        tell_taken_over(site, &found);
    }
    Ok(events)
}

fn tell_taken_over(site: &Site, found: &OtherSize) {
    let other =
        format!("the cache is of a run with {} ranks, this one has {}", found.ranks, site.size);
    let withheld = found.withheld.iter();
    let titles = withheld.map(|(id, key, why)| (&**why, format!("{} (dataset {id})", key.title())));
    for (reason, titles) in log::by_reason(titles) {
        // What is kept may be whole together with nodes that this launch does not have.
        match found.dropped {
            true => {
                log::warn(messages::LOST, format_args!("{titles} cannot be had again: {reason}"))
            }
            false => log::warn(
                messages::OTHER_SIZE_FAILED,
                format_args!(
                    "{other}, and {titles} cannot be put together on its nodes: {reason}. \
                     If the others are alive, scr scavenge brings together what all have"
                ),
            ),
        }
    }
    let newest = match found.published.last() {
        Some((_, key)) => format!("{} is the newest in it, and is there now", key.title()),
        None if found.dropped => "nothing in it is newer than what is there".to_string(),
        None => return,
    };
    let prefix = site.prefix.display();
    log::warn(messages::OTHER_SIZE, format_args!("{other}: it reads {prefix} instead; {newest}"));
}
