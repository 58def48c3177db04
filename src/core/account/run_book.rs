//! What rank 0 knows for the run record (`<prefix>/.scr/run.scr`). Events change it;
//! `flush/run_record.rs` asks the machine for the rest and writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::paces::Paces;
use crate::cache::NodeCatalog;
use crate::events::Event;
use crate::records::{RunDataset, RunEvent, RunFlush, RunPace, RunPassed, RunRecord};
use crate::system::unix_seconds;

const PERIOD: Duration = Duration::from_secs(1);
const EVENTS_MAX: usize = 32;
const EXPOSED: &str = "EXPOSED";
/// Datasets in the caches are never left out.
const DATASETS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct RunBook {
    kept: Mutex<Option<WrittenRecord>>,
    /// Held while the record is written, so that the last word is the last.
    writing: Mutex<()>,
}

struct WrittenRecord {
    record: RunRecord,
    hosts: Vec<String>,
    node_of: Vec<usize>,
    /// Files and bytes that each node has of a dataset, by id, as of its last seal.
    shares: BTreeMap<u64, BTreeMap<String, (u64, u64)>>,
    changed: bool,
    written: Option<Instant>,
}

pub(crate) struct DatasetNow {
    pub id: u64,
    pub name: String,
    pub complete: bool,
    pub due: bool,
    pub on_prefix: bool,
    pub flushing: bool,
    pub catalog: Option<NodeCatalog>,
}

impl RunBook {
    fn kept(&self) -> MutexGuard<'_, Option<WrittenRecord>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_kept(&self) -> bool {
        self.kept().is_some()
    }

    pub fn note(&self, event: &Event) {
        if let Some(kept) = &mut *self.kept() {
            kept.changed = true;
            if let Some((id, _)) = event.dataset.as_ref().filter(|_| event.what == "SEALED") {
                kept.shares.remove(id);
            }
            apply(&mut kept.record, event);
        }
    }

    pub fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        if let Some(kept) = &mut *self.kept() {
            kept.changed = true;
            change(&mut kept.record);
        }
    }

    /// Begins the record of a launch whose ranks run on `hosts`, by rank.
    pub fn begin(&self, record: RunRecord, hosts: Vec<String>) {
        let shares = BTreeMap::new();
        let places: BTreeMap<&String, usize> =
            record.nodes.keys().enumerate().map(|(at, host)| (host, at)).collect();
        let place = |host| places.get(host).copied().unwrap_or(usize::MAX);
        let node_of = hosts.iter().map(place).collect();
        *self.kept() =
            Some(WrittenRecord { record, hosts, node_of, shares, changed: true, written: None });
    }

    /// Notes how fast the ranks have sealed and flushed: of a node, what all of them have moved in
    /// the time of the slowest.
    pub fn move_at(&self, by_rank: &[Paces]) {
        let Some(kept) = &mut *self.kept() else { return };
        let mut of_nodes = vec![[RunPace::default(); 2]; kept.record.nodes.len()];
        for (paces, node) in by_rank.iter().zip(&kept.node_of) {
            let Some(sums) = of_nodes.get_mut(*node) else { continue };
            for (sum, pace) in sums.iter_mut().zip(paces.chunks_exact(2)) {
                sum.bytes = sum.bytes.saturating_add(pace[0]);
                sum.nanos = sum.nanos.max(pace[1]);
            }
        }
        for (node, [sealed, flushed]) in kept.record.nodes.values_mut().zip(of_nodes) {
            (node.sealed, node.flushed) = (sealed, flushed);
        }
    }

    pub fn seen<T>(&self, look: impl FnOnce(&RunRecord) -> T) -> Option<T> {
        self.kept().as_ref().map(|kept| look(&kept.record))
    }

    /// Brings the record up to date and hands it to `write`, one caller after the other. `look` is
    /// called first: datasets, and what has gone past the cache on this rank, by the reason's
    /// words.
    pub fn write(
        &self,
        look: impl FnOnce() -> (Vec<DatasetNow>, BTreeMap<String, RunPassed>),
        write: impl FnOnce(&RunRecord),
    ) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, here) = look();
        let record = match &mut *self.kept() {
            None => return,
            Some(kept) => {
                kept.take(seen);
                if !kept.record.passed_of_all {
                    kept.record.passed = here;
                }
                kept.record.updated = unix_seconds();
                (kept.changed, kept.written) = (false, Some(Instant::now()));
                kept.record.clone()
            }
        };
        write(&record);
    }

    pub fn is_due(&self) -> bool {
        let is_due = |kept: &WrittenRecord| {
            kept.changed && kept.written.is_none_or(|written| written.elapsed() >= PERIOD)
        };
        self.kept().as_ref().is_some_and(is_due)
    }
}

impl WrittenRecord {
    fn take(&mut self, seen: Vec<DatasetNow>) {
        for dataset in self.record.datasets.values_mut() {
            (dataset.in_cache, dataset.flush.under_way) = (false, false);
        }
        let mut shares = BTreeMap::new();
        for one in seen {
            let dataset = self.record.datasets.entry(one.id).or_default();
            (dataset.name, dataset.complete) = (one.name, one.complete);
            (dataset.flush.due, dataset.flush.under_way) = (one.due, one.flushing);
            dataset.on_prefix |= one.on_prefix;
            let Some(catalog) = one.catalog else { continue };
            dataset.in_cache = !catalog.is_on_prefix();
            dataset.on_prefix |= catalog.is_on_prefix();
            (dataset.files, dataset.bytes) = catalog.size();
            dataset.cached = catalog.cached_bytes();
            let known = self.shares.remove(&one.id);
            shares.insert(one.id, known.unwrap_or_else(|| share_of(&catalog, &self.hosts)));
        }
        self.shares = shares;
        for (host, node) in &mut self.record.nodes {
            let has = || self.shares.values().filter_map(|share| share.get(host));
            node.files = has().map(|(files, _)| files).sum();
            node.bytes = has().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        }
        let mut more = self.record.datasets.len().saturating_sub(DATASETS_MAX);
        self.record.datasets.retain(|_, dataset| {
            let leaves = more > 0 && !dataset.in_cache;
            more -= usize::from(leaves);
            !leaves
        });
    }
}

fn share_of(catalog: &NodeCatalog, hosts: &[String]) -> BTreeMap<String, (u64, u64)> {
    let mut share = BTreeMap::<String, (u64, u64)>::new();
    let mut wholes = BTreeSet::new();
    for entry in catalog.held().filter(|entry| !entry.meta.on_prefix) {
        let Some(host) = hosts.get(entry.rank) else { continue };
        let (files, bytes) = share.entry(host.clone()).or_default();
        let whole = || (host, entry.meta.whole_name().to_owned());
        let is_first = entry.meta.part.is_none() || wholes.insert(whole());
        *files += u64::from(is_first);
        *bytes = bytes.saturating_add(entry.meta.size);
    }
    share
}

fn apply(record: &mut RunRecord, event: &Event) {
    if let (EXPOSED, Some((id, _))) = (&*event.what, &event.dataset) {
        // The seal that comes before it is what people look for.
        let known = record.datasets.get_mut(id).into_iter();
        return known.for_each(|known| known.exposed_seconds = event.seconds);
    }
    let mut text: Vec<String> = Vec::new();
    if let Some((id, name)) = &event.dataset {
        text.push(if *id > 0 { format!("{name} (dataset {id})") } else { name.clone() });
    }
    text.extend(event.seconds.map(|seconds| format!("{seconds:.2} s")));
    text.extend(event.size.map(|(files, bytes)| format!("{files} files, {bytes} bytes")));
    text.extend(Some(event.note.clone()).filter(|note| !note.is_empty()));
    let what = event.what.clone().into_owned();
    record.events.push(RunEvent { time: event.time, what, text: text.join("; ") });
    let more = record.events.len().saturating_sub(EVENTS_MAX);
    record.events.drain(..more);
    let Some((id, name)) = event.dataset.as_ref().filter(|(id, _)| *id > 0) else { return };
    let known = match &*event.what {
        "SEALED" | "OFFERED" => record
            .datasets
            .entry(*id)
            .or_insert_with(|| RunDataset { name: name.clone(), ..RunDataset::default() }),
        _ => match record.datasets.get_mut(id) {
            Some(known) => known,
            None => return,
        },
    };
    match &*event.what {
        "SEALED" => {
            (known.sealed, known.seal_seconds) = (event.time as u64, event.seconds);
            (known.files, known.bytes) = event.size.unwrap_or_default();
        }
        "OFFERED" => {
            known.sealed = event.time as u64;
            (known.files, known.bytes) = event.size.unwrap_or_default();
        }
        "CONFIRMED" => known.complete = true,
        "FLUSH_BEGIN" => (known.flush.under_way, known.flush.failed) = (true, None),
        "FLUSH_END" => {
            known.on_prefix = true;
            let due = known.flush.due;
            known.flush = RunFlush { due, seconds: event.seconds, ..RunFlush::default() };
        }
        "FLUSH_FAILED" => {
            (known.flush.under_way, known.flush.failed) = (false, Some(event.note.clone()));
        }
        "EVICTED" => known.in_cache = false,
        "DELETED" => known.on_prefix = false,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Catalog, CatalogEntry};
    use crate::records::{FileMeta, FilePart, RunNode};

    #[test]
    fn events_tell_how_far_a_dataset_is() {
        let mut record = RunRecord::default();
        let mut tell = |event: Event| apply(&mut record, &event);
        let of = |what: &'static str| Event::new(what).dataset(3, "checkpoint 30");
        tell(of("FLUSH_END").seconds(9.0));
        tell(of("SEALED").seconds(0.5).size(4, 4096));
        tell(of("EXPOSED").seconds(0.75));
        tell(of("CONFIRMED"));
        tell(of("FLUSH_BEGIN"));
        tell(of("FLUSH_FAILED").note("no space left"));
        let one = &record.datasets[&3];
        assert_eq!((one.files, one.bytes, one.seal_seconds), (4, 4096, Some(0.5)));
        assert_eq!(one.exposed_seconds, Some(0.75));
        assert_eq!(one.flush.failed.as_deref(), Some("no space left"));
        assert!(one.complete && !one.flush.under_way && !one.on_prefix);
        apply(&mut record, &of("FLUSH_END").seconds(2.0));
        let one = &record.datasets[&3];
        assert_eq!((one.flush.seconds, &one.flush.failed, one.on_prefix), (Some(2.0), &None, true));
        assert_eq!(record.events[1].text, "checkpoint 30 (dataset 3); 0.50 s; 4 files, 4096 bytes");
        for _ in 0..2 * EVENTS_MAX {
            apply(&mut record, &Event::new("VOIDED"));
        }
        assert_eq!((record.events.len(), record.datasets.len()), (EVENTS_MAX, 1));
    }

    #[test]
    fn a_node_moves_what_all_its_ranks_do_in_the_time_of_the_slowest() {
        let nodes = ["a", "b"].map(|host| (host.to_owned(), RunNode::default()));
        let record = RunRecord { nodes: nodes.into(), ..RunRecord::default() };
        let book = RunBook::default();
        book.begin(record, ["b", "a", "b"].map(str::to_owned).into());
        book.move_at(&[[10, 4, 0, 0], [1, 1, 5, 5], [20, 3, 7, 9]]);
        let told = book.seen(|record| record.nodes.clone()).unwrap();
        let pace = |bytes, nanos| RunPace { bytes, nanos };
        assert_eq!((told["a"].sealed, told["a"].flushed), (pace(1, 1), pace(5, 5)));
        assert_eq!((told["b"].sealed, told["b"].flushed), (pace(30, 4), pace(7, 9)));
    }

    #[test]
    fn a_file_of_several_ranks_counts_once_and_what_went_past_the_cache_is_not_cached() {
        let meta = |name: &str, size, on_prefix| FileMeta {
            name: name.into(),
            size,
            on_prefix,
            ..FileMeta::default()
        };
        let part = |rank| {
            let whole = FilePart { of: "all".into(), whole: 100, ..FilePart::default() };
            let name = FilePart::file_name(rank, "all");
            FileMeta { part: Some(whole.into()), ..meta(&name, 20 + rank as u64, false) }
        };
        let mut entries = Vec::new();
        for rank in 0..4 {
            let own = [meta(&format!("own{rank}"), 5, false), meta("past", 7, true), part(rank)];
            entries.extend(own.map(|meta| CatalogEntry { rank, meta }));
        }
        let catalog = NodeCatalog::of(&Catalog { entries, ..Catalog::default() }, &[0]);
        let nodes = ["a", "b"].map(|host| (host.to_owned(), RunNode::default()));
        let record = RunRecord { nodes: nodes.into(), ..RunRecord::default() };
        let book = RunBook::default();
        book.begin(record, ["a", "a", "b", "b"].map(str::to_owned).into());
        let now = DatasetNow {
            id: 1,
            name: "checkpoint 1".into(),
            complete: true,
            due: false,
            on_prefix: false,
            flushing: false,
            catalog: Some(catalog),
        };
        book.write(|| (vec![now], BTreeMap::new()), |_| ());
        let told = book.seen(Clone::clone).unwrap();
        let one = &told.datasets[&1];
        assert_eq!((one.files, one.bytes, one.cached), (6, 127, 120));
        assert!(one.in_cache && !one.on_prefix);
        let on = |host: &str| (told.nodes[host].files, told.nodes[host].bytes);
        assert_eq!((on("a"), on("b")), ((3, 51), (3, 55)));
    }

    #[test]
    fn old_datasets_leave_the_record_and_cached_ones_stay() {
        let datasets = (1..=100).map(|id| (id, RunDataset::default())).collect();
        let record = RunRecord { datasets, ..RunRecord::default() };
        let (hosts, shares) = (vec!["n1".into()], BTreeMap::new());
        let node_of = vec![0];
        let mut kept =
            WrittenRecord { record, hosts, node_of, shares, changed: true, written: None };
        let meta = FileMeta { name: "a".into(), size: 1, ..FileMeta::default() };
        let entries = vec![CatalogEntry { rank: 0, meta }];
        let catalog = NodeCatalog::of(&Catalog { entries, ..Catalog::default() }, &[0]);
        let name = "checkpoint 1".to_owned();
        kept.take(vec![DatasetNow {
            id: 1,
            name,
            complete: true,
            due: false,
            on_prefix: false,
            flushing: false,
            catalog: Some(catalog),
        }]);
        let ids: Vec<u64> = kept.record.datasets.keys().copied().collect();
        assert_eq!((ids.len(), ids[0], ids[1]), (DATASETS_MAX, 1, 38));
    }
}
