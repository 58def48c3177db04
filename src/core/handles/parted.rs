//! Files that ranks of several nodes write together, each node its part in its cache.
//!
//! A rank logs what it writes, and tells it at sync points; so all know who has written which byte
//! last, as it was at the last one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scr_abi::accesses::{Access, AccessLog, Deed};

use crate::machine::{Accesses, Act, Course, DatasetKey, by_stamp};
use crate::namespace::Move;
use crate::parts::{Extent, Owners, PartHere};

/// One file.
#[derive(Debug, Default)]
pub struct PartedFile {
    /// What this rank has done to it, if it has opened it.
    pub log: Option<&'static AccessLog>,
    /// What of that the others have not been told has this stamp, or a higher one.
    told: u64,
    /// They know that this rank has opened it.
    announced: bool,
    course: Course,
    /// What ranks that have it open by themselves have told since, this one as well.
    near: Vec<Act>,
    /// So many entries of the log they have been told.
    shown: usize,
    /// It is on its way to the PFS: nobody opens it here any more.
    pub leaves: bool,
    /// What this node has of it if its dataset is sealed as it is now.
    pub dealt: Option<PartHere>,
}

/// All files of datasets in progress, by dataset and name.
#[derive(Debug, Default)]
pub struct PartedFiles {
    files: BTreeMap<(DatasetKey, String), PartedFile>,
    /// Those that have come to the PFS: that is done once in a launch, so they stay there.
    outside: BTreeSet<(DatasetKey, String)>,
    /// Sealed ones that lie in the cache, and what of them this node has.
    sealed: BTreeMap<(DatasetKey, String), Arc<PartHere>>,
    /// Those that ranks have told one another of.
    heard: BTreeSet<(DatasetKey, String)>,
    /// So many sync points had been entered when all have told the last time.
    told_at: u64,
}

impl PartedFile {
    fn is_new(&self) -> bool {
        self.log.is_some() && !self.announced
    }

    fn untold(&self) -> impl Iterator<Item = Access> {
        self.untold_from(0)
    }

    /// Gives what not all have been told of, from that entry of the log on.
    fn untold_from(&self, first: usize) -> impl Iterator<Item = Access> {
        let told = self.told;
        let log = self.log.into_iter().flat_map(AccessLog::all).skip(first);
        log.filter(move |one| one.stamp.points >= told && changes(one))
    }

    /// Gives what this rank has done since it was told anything.
    fn fresh(&self) -> impl Iterator<Item = Access> {
        self.untold_from(if self.near.is_empty() { 0 } else { self.shown })
    }

    /// Returns what is known of all ranks.
    fn known(&self) -> Cow<'_, Course> {
        let mut known = Cow::Borrowed(&self.course);
        by_stamp(self.near.iter().copied()).for_each(|acts| _ = known.to_mut().take(&acts));
        known
    }

    /// Tells whether `node`, that of this rank, has these bytes, and no other has written them
    /// since.
    pub fn has(&self, node: usize, piece: Extent) -> bool {
        let piece = Extent::new(piece.begin, piece.end.min(self.size()));
        let (mut fresh, mut end) = (Owners::default(), u64::MAX);
        for one in self.fresh() {
            match one.deed {
                Deed::Write => _ = fresh.put(0, Extent::new(one.start, one.end), one.stamp),
                Deed::Cut => {
                    fresh.shorten(one.end);
                    end = end.min(one.end);
                }
                _ => {}
            }
        }
        // Those that nobody has written since.
        let mut older = fresh.gaps(1, piece).into_iter();
        let known = self.known();
        older.all(|gap| gap.end <= end && known.has(node, gap))
    }

    /// Returns how long the file is, as far as this rank can know.
    pub fn size(&self) -> u64 {
        self.fresh().fold(self.known().size(), |size, one| match one.deed {
            Deed::Cut => one.end,
            _ => size.max(one.end),
        })
    }

    /// Returns how many bytes this rank has written, those that it has written twice twice.
    pub fn own_bytes(&self) -> u64 {
        let writes = self.log.into_iter().flat_map(AccessLog::all);
        let writes = writes.filter(|one| one.deed == Deed::Write);
        writes.fold(0, |sum, one| sum.saturating_add(one.end.saturating_sub(one.start)))
    }

    /// Tells whether it was made shorter: then what this node has may be longer than the file.
    pub fn is_cut(&self) -> bool {
        self.known().is_cut() || self.fresh().any(|one| one.deed == Deed::Cut)
    }
}

/// Leaves out what a later cut has undone: who hears of the rest knows no order.
fn in_force(done: impl Iterator<Item = Access>) -> Vec<Access> {
    let mut all: Vec<Access> = Vec::new();
    for one in done {
        if one.deed == Deed::Cut {
            let writes = all.iter_mut().filter(|it| it.deed == Deed::Write);
            writes.for_each(|write| write.end = write.end.min(one.end));
            all.retain(|it| match it.deed {
                Deed::Write => it.start < it.end,
                _ => it.end <= one.end,
            });
        }
        all.push(one);
    }
    all
}

fn changes(one: &Access) -> bool {
    matches!(one.deed, Deed::Write | Deed::Cut | Deed::Grow)
}

impl PartedFiles {
    /// Returns the file, which this rank has opened or heard of.
    pub fn entry(&mut self, key: &DatasetKey, name: &str) -> &mut PartedFile {
        self.files.entry((key.clone(), name.to_string())).or_default()
    }

    /// Finds it.
    pub fn get(&self, key: &DatasetKey, name: &str) -> Option<&PartedFile> {
        let place = || (key.clone(), name.to_string());
        if self.files.is_empty() { None } else { self.files.get(&place()) }
    }

    /// Takes in what all ranks have told of the file at a sync point, each with its node.
    pub fn hear(
        &mut self,
        key: &DatasetKey,
        name: &str,
        told: impl IntoIterator<Item = (usize, Accesses)>,
    ) {
        self.heard.insert((key.clone(), name.to_string()));
        let file = self.entry(key, name);
        let acts = told
            .into_iter()
            .flat_map(|(node, done)| done.all.into_iter().map(move |access| Act { node, access }));
        by_stamp(acts).for_each(|acts| _ = file.course.take(&acts));
        file.near.clear();
    }

    /// Tells whether each node has a part of a file of that name, sealed or not, the same on all
    /// ranks.
    pub fn is_known_to_all(&self, name: &str) -> bool {
        self.sealed.keys().chain(&self.heard).any(|(_, known)| known == name)
    }

    /// Notes that the file is on its way to the PFS.
    pub fn leave(&mut self, key: &DatasetKey, name: &str) {
        if let Some(file) = self.files.get_mut(&(key.clone(), name.to_string())) {
            file.leaves = true;
        }
    }

    /// Renames those that have moved.
    pub fn follow(&mut self, one: &Move) {
        for ((key, name), file) in std::mem::take(&mut self.files) {
            let name = one.new_name(&name).unwrap_or(name);
            self.files.insert((key, name), file);
        }
    }

    /// Tells whether one has that name.
    pub fn knows(&self, name: &str) -> bool {
        self.files.keys().any(|(_, known)| known == name)
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the names of those of a dataset.
    pub fn names(&self, key: &DatasetKey) -> Vec<String> {
        let of = self.files.keys().filter(|(of, _)| of == key);
        of.map(|(_, name)| name.clone()).collect()
    }

    /// Notes what can be read here of a sealed file.
    pub fn keep(&mut self, key: &DatasetKey, name: String, here: Arc<PartHere>) {
        self.sealed.insert((key.clone(), name), here);
    }

    /// Notes that the dataset is sealed: what this node has of its files can be read here.
    pub fn seal(&mut self, key: &DatasetKey) {
        for ((_, name), file) in self.files.iter_mut().filter(|((of, _), _)| of == key) {
            if let Some(here) = file.dealt.take() {
                self.sealed.insert((key.clone(), name.clone()), Arc::new(here));
            }
        }
    }

    /// Notes that the dataset has left the cache.
    pub fn forget(&mut self, key: &DatasetKey) {
        self.sealed.retain(|(of, _), _| of != key);
        self.heard.retain(|(of, _)| of != key);
    }

    /// Returns what can be read here of a sealed file.
    pub fn sealed(&self, key: &DatasetKey, name: &str) -> Option<Arc<PartHere>> {
        let place = || (key.clone(), name.to_string());
        if self.sealed.is_empty() { None } else { self.sealed.get(&place()).cloned() }
    }

    /// Notes that all ranks have told what they have done before the sync point `now`.
    pub fn all_told(&mut self, now: u64) {
        self.told_at = now;
        self.files.values_mut().for_each(|file| file.near.clear());
    }

    /// Notes that others may have written what this rank is to know of, and has not heard of.
    pub fn not_all_told(&mut self) {
        self.told_at = u64::MAX;
    }

    /// Tells whether all that others have done before the last sync point, `now`, is known.
    pub fn is_up_to_date(&self, now: u64) -> bool {
        self.told_at == now
    }

    /// Tells whether there is something to tell.
    pub fn has_news(&self) -> bool {
        let has_news = |file: &PartedFile| file.is_new() || file.untold().next().is_some();
        self.files.values().any(has_news)
    }

    /// Takes what this rank has done before the sync point `now`, and not told.
    pub fn take_news(&mut self, now: u64) -> Vec<(DatasetKey, String, Accesses)> {
        let mut news = Vec::new();
        for ((key, name), file) in &mut self.files {
            let done = in_force(file.untold().filter(|one| one.stamp.points < now));
            let is_new = file.is_new();
            (file.told, file.announced) = (now, file.announced || is_new);
            if is_new || !done.is_empty() {
                news.push((key.clone(), name.clone(), Accesses::new(0, done)));
            }
        }
        news
    }

    /// Takes what this rank has done, and has not told ranks that have a file open by themselves.
    pub fn take_group_news(&mut self) -> Vec<(DatasetKey, String, Accesses)> {
        let mut news = Vec::new();
        for ((key, name), file) in &mut self.files {
            let done = in_force(file.untold_from(file.shown));
            file.shown = file.log.map_or(0, |log| log.all().count());
            if !done.is_empty() {
                news.push((key.clone(), name.clone(), Accesses::new(0, done)));
            }
        }
        news
    }

    /// Takes in what one of them, on `node`, has told of a file; this rank has told it, too.
    pub fn hear_of_group(&mut self, key: &DatasetKey, name: &str, node: usize, done: Accesses) {
        let file = self.files.get_mut(&(key.clone(), name.to_string()));
        if let Some(file) = file.filter(|file| file.log.is_some()) {
            file.near.extend(done.all.into_iter().map(|access| Act { node, access }));
        }
    }

    /// Forgets the files of a dataset that is not in progress any more; gives their logs.
    pub fn end(&mut self, key: &DatasetKey) -> Vec<(String, &'static AccessLog)> {
        let all = std::mem::take(&mut self.files).into_iter();
        let (ended, kept) = all.partition::<BTreeMap<_, _>, _>(|((of, _), _)| of == key);
        self.files = kept;
        ended.into_iter().filter_map(|((_, name), file)| Some((name, file.log?))).collect()
    }

    /// Notes that all ranks have brought the file to the PFS. Returns whether this one had opened
    /// it.
    pub fn leave_for_good(&mut self, key: &DatasetKey, name: &str) -> bool {
        let place = (key.clone(), name.to_string());
        let file = self.files.remove(&place);
        self.outside.insert(place);
        file.is_some_and(|file| file.log.is_some())
    }

    /// Tells whether all ranks have brought it there.
    pub fn is_outside(&self, key: &DatasetKey, name: &str) -> bool {
        !self.outside.is_empty() && self.outside.contains(&(key.clone(), name.to_string()))
    }
}
