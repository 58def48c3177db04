//! The restart: what an earlier launch left in the cache is brought back (the program flow,
//! `scr_cache_rebuild`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::claims::{belongs_to_winner, goes, matches_record};
use super::decide::{Decision, Verdict};
use super::distribute::{ADVICE, NotMoved, distribute};
use super::identity::{Takeover, take_over};
use super::protect_anew;
use super::recover::{Case, Recovered, recover};
use super::survey::{Facts, Survey};
use crate::cache::node::agree::{agree, agree_and_ask, any, twice};
use crate::cache::node::disk::make_own_dir;
use crate::cache::node::layout::store_of;
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::scatter::scatter;
use crate::cache::node::store::Held;
use crate::cache::removal::evict::discard;
use crate::cache::removal::sweep::sweep;
use crate::cache::sealing::marker::Marker;
use crate::cache::sealing::own_part::protection_of;
use crate::cache::sealing::seal::rename_sealed;
use crate::cache::sealing::shared_store::{bring_records, keep_records};
use crate::cache::{Catalog, Ctx, NodeCatalog, Share};
use crate::comm::trees;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileMeta, RecordKey, nanoseconds};

#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are those of the record")]
pub struct Offered {
    pub id: u64,
    pub key: RecordKey,
    pub epoch: u64,
    pub confirmed: bool,
    pub dir: PathBuf,
    pub store: String,
    pub files: Vec<FileMeta>,
    /// Names that the program has deleted or changed on the prefix since the seal, as this rank's
    /// record has them: the prefix has the last word.
    pub left: BTreeSet<String>,
    /// See [`DatasetRecord::gone`].
    pub gone: BTreeMap<String, u64>,
    pub redundancy_bytes: u64,
    pub catalog: NodeCatalog,
    /// World ranks whose files were lost and are rebuilt.
    pub rebuilt: Vec<usize>,
    /// World ranks whose files came from another node's cache.
    pub moved: Vec<usize>,
    /// It has come from the prefix.
    pub fetched: bool,
    /// All redundancy files were made anew for the new placement.
    pub reencoded: bool,
    /// Why it is whole but not protected, if so: a second loss would be final.
    pub unprotected: Option<String>,
    pub scheme: String,
    pub seconds: f64,
}

impl Offered {
    pub(crate) fn is_on_prefix(&self) -> bool {
        self.catalog.is_on_prefix()
    }

    /// Returns when its newest file was written, nanoseconds since 1970.
    pub fn written(&self) -> u64 {
        let time = |file: FileMeta| nanoseconds(file.mtime_seconds, file.mtime_nanoseconds);
        self.catalog.entries().map(|entry| time(entry.meta)).max().unwrap_or(0)
    }

    /// Tells whether the file `name` is one of its files.
    pub fn has(&self, name: &str) -> bool {
        !self.catalog.named(name).is_empty()
    }

    pub(crate) fn holds(&self, dir: &str) -> bool {
        self.catalog.below(dir).next().is_some()
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Withheld {
    /// 0 if it was never sealed.
    pub id: u64,
    pub key: RecordKey,
    pub reason: String,
    /// World ranks of which no node of this launch has a record.
    pub absent: Vec<usize>,
    /// It can never become whole, and is gone. If false it stays until the caller evicts it, which
    /// may happen once a newer one is confirmed.
    pub deleted: bool,
    /// The dataset is whole, but its ranks cannot have it.
    pub stranded: Option<Stranded>,
    /// The cache has its part, but files on the prefix are not what was sealed
    /// ([`crate::cache::withhold_spoiled`]).
    pub spoiled: bool,
}

/// A dataset all of whose files are on the nodes present, which have no room for what comes beside
/// what has to stay until it has arrived elsewhere. It can be published from where it is
/// ([`crate::transfer::flush_shares`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Stranded {
    pub why: String,
    pub shares: Vec<Share>,
}

/// What [`rebuild`] found and did; the same on all ranks but for directories and own files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RebuildReport {
    /// Whose cache it was.
    pub takeover: Takeover,
    /// Datasets that can be restarted from, lowest id first.
    pub offered: Vec<Offered>,
    /// Whatever is not offered, lowest id first.
    pub withheld: Vec<Withheld>,
    /// Id and key of what was made for another prefix; it stays until the caller evicts it.
    pub strange: Vec<(u64, RecordKey)>,
    /// Filemaps that are damaged, with their hosts; the files that they named count as lost.
    pub damaged: Vec<String>,
    /// Largest id ever seen in the cache; 0 if none.
    pub highest_id: u64,
    /// Seconds for this dataset.
    pub seconds: f64,
}

/// Takes over the cache: scatters the filemaps, brings each dataset's files to where their owners
/// now run, rebuilds lost ones, verifies, and protects anew. `identity` is what a launch must share
/// with the one that left the cache: prefix, world size, patterns, as one line of text.
///
/// An interrupted rebuild can be repeated. One that a file error has ended is repeated once: the
/// error may be passing, and without the cache the run would go on from an older checkpoint.
/// Collective.
///
/// # Errors If communication fails, or a control directory cannot be read or written. A dataset
/// that cannot be restored is no error.
pub fn rebuild(ctx: &Ctx, identity: &str) -> Result<RebuildReport> {
    twice(|| rebuild_once(ctx, identity))
}

fn rebuild_once(ctx: &Ctx, identity: &str) -> Result<RebuildReport> {
    let start = Instant::now();
    let (takeover, places) = take_over(ctx, identity)?;
    let mut report = RebuildReport { takeover, ..RebuildReport::default() };
    if matches!(report.takeover, Takeover::Foreign { .. }) {
        return Ok(report);
    }
    let scattered = scatter(ctx);
    let (damaged, any_damaged) =
        agree_and_ask(ctx.world, scattered, |damaged| !damaged.is_empty())?;
    bring_records(ctx)?;
    let survey = Survey::gather(ctx, &places.nodes)?;
    report.highest_id = survey.highest_id;
    let (decisions, facts): (Vec<Decision>, Vec<Option<Facts>>) =
        survey.decisions.into_iter().unzip();
    let facts = facts.into_iter().map(Option::unwrap_or_default);
    for (decision, facts) in decisions.iter().zip(facts) {
        if goes(&decision.verdict) {
            delete(ctx, decision, &decisions)?;
        }
        let outcome = match &decision.verdict {
            Verdict::Restore => {
                let case = Case { chosen: decision, facts: &facts, hosts: &places.hosts };
                match restore(ctx, &case)? {
                    // The failure may have been passing, unless room is lacking.
                    Err(refused) if !refused.no_room => restore(ctx, &case)?,
                    done => done,
                }
            }
            Verdict::Strange => {
                report.strange.push((decision.id, decision.key.clone()));
                continue;
            }
            Verdict::Withhold(why) | Verdict::Delete(why) => Err(Refused::because(why.clone())),
            Verdict::Forget => continue,
        };
        match outcome {
            Ok(offered) => report.offered.push(offered),
            Err(Refused { reason, stranded, .. }) => report.withheld.push(Withheld {
                id: decision.id,
                key: decision.key.clone(),
                absent: decision.absent.clone(),
                deleted: matches!(decision.verdict, Verdict::Delete(_)),
                stranded,
                reason,
                ..Withheld::default()
            }),
        }
    }
    report.withheld.sort_by_key(|one| one.id);
    if any_damaged {
        report.damaged = gather_names(ctx, &damaged)?;
    } else {
        // Files whose filemap was damaged have no name any more; they stay for a person to look at.
        let ids: Vec<u64> = report.offered.iter().map(|offered| offered.id).collect();
        agree(ctx.world, sweep(ctx, &ids))?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn delete(ctx: &Ctx, decision: &Decision, all: &[Decision]) -> Result<()> {
    let chosen = |record: &DatasetRecord| matches_record(record, decision);
    let spared = |dir: &Path| belongs_to_winner(dir, decision.id, all);
    agree(ctx.world, discard(ctx, &chosen, &spared))
}

fn gather_names(ctx: &Ctx, damaged: &[PathBuf]) -> Result<Vec<String>> {
    let mut own = KvTree::new();
    for path in damaged {
        own.child_mut(format_args!("{} on {}", path.display(), ctx.host));
    }
    let all = trees::all_gather(ctx.world, &own)?;
    Ok(all.iter().flat_map(KvTree::keys).map(str::to_owned).collect())
}

struct Refused {
    reason: String,
    stranded: Option<Stranded>,
    no_room: bool,
}

impl Refused {
    fn because(reason: String) -> Refused {
        Refused { reason, stranded: None, no_room: false }
    }
}

/// Adds to the `reason` for which nothing came of [`recover`] why files were not moved. Collective.
fn refused(
    ctx: &Ctx,
    &Case { chosen, facts, .. }: &Case,
    reason: String,
    trouble: Option<NotMoved>,
) -> Result<Refused> {
    let no_room = any(ctx.world, trouble.as_ref().is_some_and(|trouble| trouble.no_room))?;
    let own = trouble.map(|trouble| trouble.why).unwrap_or_default();
    let all = ctx.world.all_gather(own.as_bytes())?;
    let Some(first) = all.iter().find(|why| !why.is_empty()) else {
        return Ok(Refused::because(reason));
    };
    let why = String::from_utf8_lossy(first).into_owned();
    let advice = if no_room { format!("; {ADVICE}") } else { String::new() };
    // One that may not be complete must not take the names of an older one on the prefix.
    let safe = chosen.confirmed || !chosen.key.id.is_empty();
    let shares = if no_room && safe { shares_of(ctx, chosen, facts) } else { None };
    let stranded = shares.map(|shares| Stranded { why: why.clone(), shares });
    Ok(Refused { reason: format!("{reason} ({why}{advice})"), stranded, no_room })
}

/// This rank's share, if some rank has the files of each rank; `None` on all ranks if not.
fn shares_of(ctx: &Ctx, chosen: &Decision, facts: &Facts) -> Option<Vec<Share>> {
    if !facts.whole {
        return None;
    }
    let me = Some(ctx.world.rank());
    let held = ctx.filemap.held().into_iter();
    let wanted = held
        .filter(|(owner, record)| matches_record(record, chosen) && facts.holder_of(*owner) == me);
    let share = |(owner, record): Held| {
        let dir = ctx.layout.data_dir(&record);
        Share { owner, record: DatasetRecord { dir, ..record } }
    };
    Some(wanted.map(share).collect())
}

/// Brings one dataset back; the inner error says why not. Collective.
fn restore(ctx: &Ctx, case: &Case) -> Result<std::result::Result<Offered, Refused>> {
    let start = Instant::now();
    let Case { chosen, facts, .. } = case;
    // An open directory of that key may be of another seal where nobody answers for this one.
    let is_here =
        |store: usize| ctx.sharing.ranks(store).iter().any(|rank| facts.holders.contains(rank));
    let renamed = rename_sealed(ctx, chosen.id, &chosen.key, &is_here);
    let is_between = |_: &()| protect_anew::is_between(ctx, chosen);
    let outcome = agree_and_ask(ctx.world, renamed, is_between).and_then(|((), between)| {
        if between {
            agree(ctx.world, protect_anew::adopt(ctx, chosen, facts.encoding))?;
        }
        let trouble = distribute(ctx, chosen, &facts.rounds)?;
        let recovered = match recover(ctx, case)? {
            Ok(recovered) => recovered,
            Err(reason) => return refused(ctx, case, reason, trouble).map(Err),
        };
        let catalog = complete_folders(ctx, chosen, &recovered)?;
        Ok(Ok((recovered, catalog)))
    });
    let (recovered, catalog) = match outcome {
        Ok(Ok(found)) => found,
        Ok(Err(refused)) => return Ok(Err(refused)),
        Err(Error::Comm(what)) => return Err(Error::Comm(what)),
        Err(other) => return Ok(Err(Refused::because(other.to_string()))),
    };
    let record = recovered.record;
    let moved = facts.rounds.iter().flatten().map(|transfer| transfer.to);
    Ok(Ok(Offered {
        id: chosen.id,
        key: chosen.key.clone(),
        epoch: chosen.epoch,
        confirmed: chosen.confirmed,
        dir: record.dir.clone(),
        store: store_of(&record).to_owned(),
        scheme: record.descriptor.get_value("TYPE").unwrap_or_default().to_owned(),
        redundancy_bytes: protection_of(&record).iter().map(|file| file.size).sum(),
        files: record.files,
        left: record.left,
        gone: record.gone,
        catalog,
        moved: moved.filter(|rank| !recovered.rebuilt.contains(rank)).collect(),
        rebuilt: recovered.rebuilt,
        fetched: false,
        reencoded: recovered.reencoded,
        unprotected: recovered.unprotected,
        seconds: start.elapsed().as_secs_f64(),
    }))
}

/// Sees to it that every node has the catalog, and the marker of what the dataset is from now on.
/// Collective.
fn complete_folders(ctx: &Ctx, chosen: &Decision, recovered: &Recovered) -> Result<NodeCatalog> {
    let files = &recovered.record.files;
    let own = store_of(&recovered.record);
    let complete = |whole: &Catalog| {
        ctx.led_stores().into_iter().try_for_each(|store| {
            let dir = ctx.layout.dataset_dir(&store.name, chosen.id);
            let is_wanted = store.name == own || dir.exists();
            if is_wanted { complete_folder(&dir, chosen, whole) } else { Ok(()) }
        })
    };
    let whole = Catalog::gather_on_leaders(ctx, chosen.id, chosen.epoch, &chosen.key, Some(files))
        .and_then(|whole| whole.iter().try_for_each(complete).map(|()| whole));
    let catalog = agree(ctx.world, NodeCatalog::share(ctx, whole))?;
    keep_records(ctx, &recovered.record)?;
    Ok(catalog)
}

fn complete_folder(dir: &Path, chosen: &Decision, catalog: &Catalog) -> Result<()> {
    make_own_dir(&dir.join(OWN_FOLDER))?;
    if !matches!(Catalog::read(dir), Ok(Some(found)) if found == *catalog) {
        catalog.write(dir)?;
    }
    let marker = if chosen.confirmed { Marker::Confirmed } else { Marker::Offered };
    if marker.epoch(dir) != Some(chosen.epoch) {
        marker.write(dir, chosen.epoch)?;
    }
    Ok(())
}
