//! A good checkpoint that stays on the prefix while the cache has only older ones of its series:
//! the program is to read it, and nothing older may be flushed over it.

use std::collections::BTreeSet;

use crate::cache::{Offered, RebuildReport};
use crate::error::Result;
use crate::records::DatasetKey;
use crate::session::machine::Rejected;
use crate::session::prefix::hiding::Hidden;
use crate::session::prefix::index::{Index, Listed};
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::{Check, verify_on_prefix};

impl Session {
    /// Takes cached datasets out of `report` that share names with a newer good one that stays on
    /// the prefix; their parts in the cache go once a newer one is confirmed. `limit` is the
    /// largest id that counts. Collective.
    ///
    /// # Errors
    /// Communication failed.
    pub(in crate::session) fn prefer_staying(
        &self,
        links: &Links,
        index: &mut Index,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
        limit: u64,
    ) -> Result<()> {
        let ctx = links.ctx(&self.site);
        for series in 0..self.series.series().len() {
            while let Some(one) = staying(index, report, hidden, (series, limit)).cloned() {
                let found = verify_on_prefix(&ctx, one.id, Check::Sizes)?;
                if found.gone || found.fault.is_some() {
                    index.flushed.retain(|id| *id != one.id);
                    continue;
                }
                let names: BTreeSet<String> = found.names.into_iter().collect();
                for offered in take_older(&mut report.offered, &one, &names) {
                    let Some(key) = self.machine_key(&offered.key) else { continue };
                    self.mention(format_args!(
                        "{} is in the cache, but {} is newer and is read where it is",
                        self.title(&key),
                        one.name
                    ));
                    hidden.rejected.push(Rejected { key, id: offered.id });
                }
                break;
            }
        }
        Ok(())
    }
}

/// The newest whole checkpoint of a series on the prefix that the program is to see, if the cache
/// has only older ones of it.
fn staying<'a>(
    index: &'a Index,
    report: &RebuildReport,
    hidden: &Hidden,
    (series, limit): (usize, u64),
) -> Option<&'a Listed> {
    let of_series = index.listed.iter().filter(|one| one.series == Some(series));
    let mut whole = of_series.filter(|one| {
        let counts = one.holds_names && one.checkpoint.is_some() && one.id <= limit;
        counts && index.flushed.contains(&one.id) && !hidden.passed_over.contains(&one.id)
    });
    let newest = whole.next()?;
    let cached = report.offered.iter().filter(|one| one.key.series == newest.key.series);
    let cached = cached.map(|one| one.id).max()?;
    (cached < newest.id).then_some(newest)
}

/// Takes out what is older than `one`, whose files have these names, and has the same key or one of
/// them.
fn take_older(offered: &mut Vec<Offered>, one: &Listed, names: &BTreeSet<String>) -> Vec<Offered> {
    let goes = |cached: &Offered| {
        let same_key = (&cached.key.series, &cached.key.id) == (&one.key.series, &one.key.id);
        let of_series = cached.key.series == one.key.series && cached.id < one.id;
        of_series && (same_key || names.iter().any(|name| cached.has(name)))
    };
    let (gone, stay) = std::mem::take(offered).into_iter().partition(goes);
    *offered = stay;
    gone
}

/// Whether the newest dataset in the cache is the newest of its series, on the prefix, too.
pub(in crate::session) fn is_newest(report: &RebuildReport, index: &Index) -> bool {
    report.offered.last().is_some_and(|last| {
        let newer = |(id, key): (u64, &DatasetKey)| id > last.id && key.series == last.key.series;
        !index.restorable().any(newer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Catalog, CatalogEntry, NodeCatalog, Takeover};
    use crate::records::FileMeta;

    fn key(captured: &str, generation: u64) -> DatasetKey {
        DatasetKey { series: "ckpt".into(), id: captured.into(), generation }
    }

    fn offered(id: u64, key: DatasetKey, names: &[&str]) -> Offered {
        let entry = |name: &&str| {
            let meta = FileMeta { name: (*name).into(), ..FileMeta::default() };
            CatalogEntry { rank: 0, meta }
        };
        let entries = names.iter().map(entry).collect();
        let whole = Catalog { id, epoch: 1, key: key.clone(), entries };
        let catalog = NodeCatalog::of(&whole, &[0]);
        Offered {
            id,
            key,
            epoch: 1,
            confirmed: true,
            dir: "/c".into(),
            store: "/c".into(),
            files: vec![],
            redundancy_bytes: 0,
            catalog,
            rebuilt: vec![],
            moved: vec![],
            fetched: false,
            reencoded: false,
            unprotected: None,
            scheme: "XOR".into(),
            seconds: 0.0,
        }
    }

    fn report(offered: Vec<Offered>) -> RebuildReport {
        RebuildReport {
            takeover: Takeover::Ours,
            offered,
            withheld: vec![],
            damaged: vec![],
            highest_id: 0,
            seconds: 0.0,
        }
    }

    fn index(id: u64, key: DatasetKey) -> Index {
        let name = format!("ckpt.{id}");
        let listed = Listed {
            id,
            series: Some(0),
            key,
            name,
            checkpoint: Some(id),
            holds_names: true,
            replaced: false,
            kept: false,
            abandoned_by: None,
        };
        let mut index = Index::default();
        index.flushed.push(id);
        index.listed.push(listed);
        index
    }

    #[test]
    fn an_older_generation_in_the_cache_gives_way_to_the_one_that_stays_on_the_prefix() {
        let (index, none) = (index(9, key("", 9)), Hidden::default());
        let mut report = report(vec![offered(8, key("", 8), &["state.cpt"])]);
        let one = staying(&index, &report, &none, (0, u64::MAX)).unwrap();
        assert!(!is_newest(&report, &index));
        // Even if it has no name in common any more.
        let gone = take_older(&mut report.offered, one, &BTreeSet::new());
        assert_eq!((gone[0].id, report.offered.len()), (8, 0));
    }

    #[test]
    fn an_older_checkpoint_stays_in_the_cache_unless_it_shares_a_pointer_file() {
        let (index, none) = (index(20, key("20", 0)), Hidden::default());
        let own = offered(18, key("18", 0), &["ckpt/18"]);
        let shares = offered(19, key("19", 0), &["ckpt/19", "latest"]);
        let mut report = report(vec![own.clone(), shares]);
        let one = staying(&index, &report, &none, (0, u64::MAX)).unwrap();
        let names = BTreeSet::from(["ckpt/20".to_owned(), "latest".to_owned()]);
        assert_eq!(take_older(&mut report.offered, one, &names)[0].id, 19);
        assert_eq!(report.offered, [own]);
        // The run has left that course, the user wants an older one, or the cache has a newer one.
        let mut hidden = Hidden::default();
        hidden.passed_over.insert(20);
        assert!(staying(&index, &report, &hidden, (0, u64::MAX)).is_none());
        assert!(staying(&index, &report, &none, (0, 19)).is_none());
        report.offered.push(offered(21, key("21", 0), &["latest"]));
        assert!(staying(&index, &report, &none, (0, u64::MAX)).is_none());
        assert!(is_newest(&report, &index));
    }
}
