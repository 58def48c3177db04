//! Which launch a cache belongs to: `launch.scr` in each node's control directory, and in each
//! store that several nodes share.
//!
//! ```text
//! VERSION / 1
//! IDENTITY / <prefix, world size, patterns, as one line>
//! ```
//! or, while records have parts of files, VERSION / 2 and RUN in place of IDENTITY
//! ([`launch_tree`]).
//!
//! It is there before the first record, so a control directory without it holds nothing of value.
//! Patterns may come, go or change as long as the cache has nothing that they have matched: what
//! the program has written by calls of SCR belongs to none.

use std::path::{Path, PathBuf};

use crate::bytes::{Reader, Writer};
use crate::cache::node::agree::{agree, agree_and_gather};
use crate::cache::node::disk::{make_own_dir, names_in};
use crate::cache::node::names::{LAUNCH, is_filemap_name, sealed_id};
use crate::cache::node::origin::newest_owner;
use crate::cache::node::owner::{identity_in, launch_tree, says_parts};
use crate::cache::node::store::{Held, all_records, read_records};
use crate::cache::removal::sweep;
use crate::cache::sealing::shared_store::{StorageGroup, records_in};
use crate::cache::{Ctx, Store};
use crate::error::{Error, Result};
use crate::files::{remove_file_if_there, remove_tree, sync_dir};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, MASTER_FILEMAP, RecordedState};

/// Whose cache was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Takeover {
    /// There was none.
    #[default]
    Fresh,
    /// An earlier launch of the same program, prefix and world size.
    Ours,
    /// Another one's: nothing was touched, and this launch must not cache.
    Foreign {
        /// Hosts that hold it.
        hosts: Vec<String>,
    },
}

pub(super) struct RankPlaces {
    /// For each world rank the world rank of its node's leader.
    pub nodes: Vec<usize>,
    pub hosts: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Nothing,
    Ours,
    Foreign,
    Unreadable,
    Worthless,
}

/// Finds out whose cache lies on the nodes. If it is ours or nobody's, every node carries our tag
/// afterwards. Collective.
pub(super) fn take_over(ctx: &Ctx, identity: &str) -> Result<(Takeover, RankPlaces)> {
    let found = match ctx.is_node_leader() {
        true => look(ctx, identity).and_then(|found| Ok((found, missing_tags(ctx, identity)?))),
        false => Ok((Tag::Nothing, Vec::new())),
    };
    let leader = ctx.node_ranks.first().copied().unwrap_or(ctx.world.rank());
    let mut missing = Vec::new();
    let answer = |(found, tags): (Tag, Vec<_>)| {
        let is_tagged = u8::from(tags.is_empty());
        missing = tags;
        let mut answer = Writer::new();
        answer.byte(found as u8).byte(is_tagged).word(leader as u64);
        answer.raw(ctx.host.as_bytes()).take()
    };
    let (mut all, mut places) = (Vec::new(), RankPlaces { nodes: vec![], hosts: vec![] });
    let mut all_tagged = true;
    for bytes in agree_and_gather(ctx.world, found.map(answer))? {
        let mut answer = Reader::new(&bytes);
        all.push(answer.byte());
        all_tagged &= answer.byte() == Some(1);
        places.nodes.push(answer.size().unwrap_or_default());
        places.hosts.push(answer.rest_text().unwrap_or_default());
    }
    let hosts_with = |wanted: Tag| -> Vec<String> {
        let both = all.iter().zip(&places.hosts);
        both.filter(|one| *one.0 == Some(wanted as u8)).map(|one| one.1.clone()).collect()
    };
    let ours = !hosts_with(Tag::Ours).is_empty();
    let mut foreign = hosts_with(Tag::Foreign);
    if !ours {
        // A damaged tag among ours is a node's mishap: epochs and checksums judge its data. Without
        // any readable tag of ours nothing tells whose data it is.
        foreign.extend(hosts_with(Tag::Unreadable));
    }
    if !foreign.is_empty() {
        return Ok((Takeover::Foreign { hosts: foreign }, places));
    }
    if !all_tagged {
        agree(ctx.world, write_tags(ctx, &missing))?;
    }
    Ok((if ours { Takeover::Ours } else { Takeover::Fresh }, places))
}

fn look(ctx: &Ctx, identity: &str) -> Result<Tag> {
    let control = &ctx.layout.control_dir;
    let mut found = judge_node(control, identity)?;
    if found == Tag::Worthless {
        let groups = ctx.storage_groups();
        clear(ctx, &groups[0])?;
        found = Tag::Nothing;
    }
    // Those who lead a shared store look at its tag, too: the nodes may all be new.
    for store in shared_and_led(ctx) {
        // Their series are in records of nodes that may be gone.
        let has_datasets = |_: Option<&str>| {
            let names = names_in(&store.cache_dir);
            names.map_or(true, |names| names.iter().any(|name| sealed_id(name).is_some()))
        };
        let there = judge(&store.cache_dir.join(LAUNCH), identity, &has_datasets)?;
        found = match there {
            Tag::Foreign => Tag::Foreign,
            Tag::Ours if found == Tag::Nothing => Tag::Ours,
            _ => found,
        };
    }
    Ok(found)
}

/// `has_value` tells whether there is a dataset of that series, or of any.
fn judge(path: &Path, identity: &str, has_value: &dyn Fn(Option<&str>) -> bool) -> Result<Tag> {
    let tree = match KvTree::read_file(path) {
        Ok(None) => return Ok(Tag::Nothing),
        Ok(Some(tree)) => tree,
        Err(Error::Corrupt { .. }) if has_value(None) => return Ok(Tag::Unreadable),
        Err(Error::Corrupt { .. }) => return Ok(Tag::Worthless),
        Err(other) => return Err(other),
    };
    let there = identity_in(&tree).unwrap_or_default();
    Ok(match strange_series(there, identity) {
        _ if there == identity => Tag::Ours,
        Some(strange) if strange.iter().any(|series| has_value(Some(series))) => Tag::Foreign,
        Some(_) => Tag::Ours,
        None if has_value(None) => Tag::Foreign,
        None => Tag::Worthless,
    })
}

fn judge_node(control: &Path, identity: &str) -> Result<Tag> {
    judge(&control.join(LAUNCH), identity, &|series| {
        holds(control, |record| series.is_none_or(|series| record.key.series == series))
    })
}

/// Returns the series of the run `there` that this one does not have, or has with other patterns;
/// `None` if the runs differ in more than that.
pub(crate) fn strange_series<'a>(there: &'a str, identity: &str) -> Option<Vec<&'a str>> {
    let (their_run, theirs) = there.rsplit_once(" | ")?;
    let (our_run, ours) = identity.rsplit_once(" | ")?;
    let ours: Vec<&str> = ours.split("; ").collect();
    let strange = theirs.split("; ").filter(|one| !one.is_empty() && !ours.contains(one));
    let name = |one: &'a str| one.split_once('=').map_or(one, |(name, _)| name);
    (their_run == our_run).then(|| strange.map(name).collect())
}

fn shared_and_led<'a>(ctx: &'a Ctx) -> impl Iterator<Item = &'a Store> {
    let led = ctx.led_stores().into_iter();
    led.filter(|store| ctx.sharing.is_shared(ctx.layout.store_index(&store.name)))
}

/// Tells whether anything on the node of this control directory could be restarted from: a launch
/// that ended before its first seal leaves nothing worth keeping others out for.
pub fn holds_value(control: &Path) -> bool {
    holds(control, |_| true)
}

/// The node has such a record that was prepared, or one that cannot be read.
fn holds(control: &Path, of: impl Fn(&DatasetRecord) -> bool) -> bool {
    let Ok(names) = names_in(control) else { return true };
    names.iter().filter(|name| is_filemap_name(name) && *name != MASTER_FILEMAP).any(|name| {
        let sealed = |(_, record): &Held| record.state == RecordedState::Prepared && of(record);
        read_records(&control.join(name)).map_or(true, |held| held.iter().any(sealed))
    })
}

fn split_size(identity: &str) -> Option<(String, usize)> {
    let parts: Vec<&str> = identity.split(" | ").collect();
    let at = parts.iter().position(|part| part.parse::<usize>().is_ok())?;
    let size = parts[at].parse().ok()?;
    let rest: Vec<&str> =
        parts.iter().enumerate().filter(|one| one.0 != at).map(|one| *one.1).collect();
    Some((rest.join(" | "), size))
}

pub(crate) fn size_in(identity: &str) -> Option<usize> {
    split_size(identity).map(|(_, size)| size)
}

/// Returns the identity of the run that left this node's cache, if it differs from `identity` in
/// the number of ranks only. Other ranks than node leaders find none.
pub(crate) fn other_size(ctx: &Ctx, identity: &str) -> Option<String> {
    let own = split_size(identity)?;
    // What was made for another prefix is left alone.
    let newest = newest_owner(&ctx.layout.control_dir);
    if newest.is_some_and(|(_, prefix)| ctx.layout.owner.identity() != Some(&prefix)) {
        return None;
    }
    let differs = |path: PathBuf| {
        let tree = KvTree::read_file(path).ok()??;
        let there = identity_in(&tree)?.to_owned();
        let (rest, size) = split_size(&there)?;
        let same = strange_series(&rest, &own.0)?.is_empty();
        (same && size != own.1).then_some(there)
    };
    let mut tags = vec![path(ctx)];
    tags.extend(shared_and_led(ctx).map(|store| store.cache_dir.join(LAUNCH)));
    let found = tags.into_iter().find_map(differs);
    found.filter(|_| ctx.is_node_leader())
}

/// Finds, of nodes with these control directories, those that do not belong to the run
/// `identity`.
pub(crate) fn strangers<'a>(control_dirs: &[&'a Path], identity: &str) -> Result<Vec<&'a Path>> {
    let look = |dir: &&'a Path| Ok((*dir, judge_node(dir, identity)?));
    let found: Vec<(&Path, Tag)> = control_dirs.iter().map(look).collect::<Result<_>>()?;
    let ours = found.iter().any(|(_, found)| *found == Tag::Ours);
    let strange = |found| found == Tag::Foreign || (found == Tag::Unreadable && !ours);
    Ok(found.into_iter().filter(|(_, found)| strange(*found)).map(|(dir, _)| dir).collect())
}

/// Drops the cache of this node (if it is `mine`, on its leader) and of the shared stores.
/// Collective.
pub(crate) fn drop_other_size(ctx: &Ctx, mine: bool) -> Result<()> {
    ctx.in_storage_groups(|group| {
        group.comm.barrier()?;
        if group.leads() && mine { clear(ctx, group) } else { Ok(()) }
    })
}

type MissingTag = (PathBuf, KvTree);

fn write_tags(ctx: &Ctx, missing: &[MissingTag]) -> Result<()> {
    if !missing.is_empty() {
        make_own_dir(&ctx.layout.control_dir)?;
    }
    missing.iter().try_for_each(|(path, tree)| tree.write_file(path))
}

/// The tags that are not there or not those of this launch.
fn missing_tags(ctx: &Ctx, identity: &str) -> Result<Vec<MissingTag>> {
    let control = &ctx.layout.control_dir;
    let has_parts = || Ok(all_records(control).any(|(_, one)| one.has_parts()));
    let mut missing: Vec<_> = missing_tag(path(ctx), identity, &has_parts)?.into_iter().collect();
    for store in shared_and_led(ctx) {
        let has_parts = || Ok(records_in(store)?.iter().any(|(_, one)| one.has_parts()));
        missing.extend(missing_tag(store.cache_dir.join(LAUNCH), identity, &has_parts)?);
    }
    Ok(missing)
}

/// Records with parts may be gone since the tag said that there were some.
fn missing_tag(
    path: PathBuf,
    identity: &str,
    has_parts: &dyn Fn() -> Result<bool>,
) -> Result<Option<MissingTag>> {
    let there = KvTree::read_file(&path).ok().flatten();
    let parts = there.as_ref().is_some_and(says_parts) && has_parts()?;
    let tree = launch_tree(identity, parts);
    Ok((there.as_ref() != Some(&tree)).then_some((path, tree)))
}

fn path(ctx: &Ctx) -> PathBuf {
    ctx.layout.control_dir.join(LAUNCH)
}

/// Empties the cache once everything of value is on the prefix, so that the next launch reads the
/// prefix, whatever its identity. Collective over the ranks that share a store.
pub fn finish(ctx: &Ctx) -> Result<()> {
    ctx.in_storage_groups(|group| {
        // The others may still look at what goes.
        group.comm.barrier()?;
        if group.leads() { clear(ctx, group) } else { Ok(()) }
    })?;
    ctx.filemap.forget_all();
    Ok(())
}

/// Removes data, then records, then the tag: a kill in between leaves a cache that is still ours.
fn clear(ctx: &Ctx, group: &StorageGroup) -> Result<()> {
    for store in group.stores.iter().map(|index| &ctx.layout.stores[*index]) {
        for name in names_in(&store.cache_dir)? {
            if sweep::goes_with_datasets(&name) {
                remove_tree(&store.cache_dir.join(name))?;
            }
        }
        remove_file_if_there(&store.cache_dir.join(LAUNCH))?;
    }
    let control = &ctx.layout.control_dir;
    let names = names_in(control)?;
    if group.is_shared || names.is_empty() {
        return Ok(());
    }
    for name in names.iter().filter(|name| is_filemap_name(name)) {
        remove_file_if_there(&control.join(name))?;
    }
    sync_dir(control)?;
    remove_file_if_there(&path(ctx))
}
