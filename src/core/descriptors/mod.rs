//! Groups, stores and redundancy descriptors: who fails together, where files are cached, and which
//! scheme protects which checkpoint. All of it is a pure function of settings and hosts, so it is
//! equal on all ranks.

mod checkpoint_lines;
mod group;
mod overhead;
mod redundancy;
mod sets;
mod store;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::log::{Id, messages};
use crate::params::{LineKind, Settings, Source, keys};

pub(crate) use group::Groups;
pub use overhead::Overhead;
pub use redundancy::{RedundancyDesc, SchemeKind};
pub(crate) use sets::NODE;
pub use sets::{Membership, choose_sets, rings_by_hops};
pub(crate) use store::StoreDesc;

/// All descriptors of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptors {
    /// Who fails together.
    pub groups: Groups,
    /// In the order of their indices.
    pub stores: Vec<StoreDesc>,
    /// In the order of their indices.
    pub redundancy: Vec<RedundancyDesc>,
    /// Sentences for the user: what was ignored, and each scheme that this job is too small for.
    pub warnings: Vec<(Id, String)>,
}

impl Descriptors {
    pub(crate) fn in_words(&self) -> Vec<String> {
        let one = |scheme: &RedundancyDesc| {
            let store = scheme.base.display();
            let when = match (scheme.interval, scheme.output) {
                (_, true) => "output".to_owned(),
                (1, _) => "every checkpoint".to_owned(),
                (interval, _) => format!("every checkpoint that {interval} divides"),
            };
            format!("{} in {store}, failure group {}: {when}", scheme.scheme.name(), scheme.group)
        };
        self.redundancy.iter().filter(|scheme| scheme.enabled).map(one).collect()
    }

    /// Returns the sentences of the warnings.
    pub fn sentences(&self) -> Vec<String> {
        self.warnings.iter().map(|(_, text)| text.clone()).collect()
    }

    /// Takes `hosts` by world rank.
    pub fn new(settings: &Settings, hosts: &[String]) -> Result<Descriptors> {
        let mut warnings = Vec::new();
        let groups = Groups::new(settings, hosts, &mut warnings)?;
        let mut stores = store::stores(settings, &groups)?;
        let redundancy =
            checkpoint_lines::descriptors(settings, &groups, &mut stores, &mut warnings)?;
        let mut descriptors = Descriptors { groups, stores, redundancy, warnings };
        descriptors.warn_of_flat_stores();
        descriptors.warn_of_unused_stores(settings);
        descriptors.warn_of_degraded();
        Ok(descriptors)
    }

    /// Returns the descriptor for the checkpoint with this number (from 1, by series): of those
    /// whose INTERVAL divides it the one with the largest. Output takes the one marked OUTPUT, if
    /// any.
    pub fn select(&self, checkpoint: u64, output: bool) -> &RedundancyDesc {
        let usable = || self.redundancy.iter().filter(|descriptor| descriptor.enabled);
        let marked = usable().find(|descriptor| output && descriptor.output);
        let dividing = usable().filter(|d| checkpoint.is_multiple_of(d.interval));
        // The first of equals: later ones are never better.
        marked
            .or_else(|| {
                dividing.reduce(|best, d| if d.interval > best.interval { d } else { best })
            })
            .unwrap_or(&self.redundancy[0])
    }

    /// Returns interval and store of all descriptors that [`Descriptors::select`] chooses among.
    pub fn intervals(&self, output: bool) -> Vec<(u64, usize)> {
        let usable = || self.redundancy.iter().filter(|descriptor| descriptor.enabled);
        match usable().find(|descriptor| output && descriptor.output) {
            Some(marked) => vec![(1, marked.store)],
            None => usable().map(|descriptor| (descriptor.interval, descriptor.store)).collect(),
        }
    }

    /// Returns the store that a descriptor names.
    pub fn store(&self, descriptor: &RedundancyDesc) -> &StoreDesc {
        &self.stores[descriptor.store]
    }

    /// Chooses the set of `rank` on the present placement under the descriptor `tree`, which may be
    /// of an earlier run, and returns it with the tree completed.
    pub fn choose(&self, tree: &KvTree, rank: usize) -> Result<(Membership, KvTree)> {
        let wrong =
            || Error::Unreadable("a dataset's redundancy descriptor is not readable".to_string());
        let descriptor = RedundancyDesc::from_tree(tree).ok_or_else(wrong)?;
        let membership = self.groups.membership(&descriptor, rank).ok_or_else(wrong)?;
        let mut tree = tree.clone();
        membership.put(&mut tree);
        Ok((membership, tree))
    }

    /// Returns by descriptor, what it keeps on `rank` beside the files.
    pub fn overheads(&self, rank: usize) -> Vec<Overhead> {
        let overhead = |descriptor| {
            let membership = self.groups.membership(descriptor, rank);
            let members = membership.map_or(1, |membership| membership.members.len());
            Overhead::new(descriptor, members)
        };
        self.redundancy.iter().map(overhead).collect()
    }

    /// Tells whether a set of `ranks` still serves under the stored descriptor `tree`: no two of
    /// them share a failure group, and a set smaller than its scheme needs could not be larger. A
    /// scheme that protects nothing is always spread.
    pub fn is_spread(&self, tree: &KvTree, ranks: &[usize]) -> bool {
        let Some(descriptor) = RedundancyDesc::from_tree(tree) else { return false };
        let groups = self.groups.of_descriptor(&descriptor);
        let mut taken: Vec<_> = ranks.iter().map(|rank| groups.get(*rank)).collect();
        let complete = taken.iter().all(Option::is_some);
        taken.sort();
        taken.dedup();
        complete && taken.len() == ranks.len() && !self.is_too_small(&descriptor, ranks)
    }

    /// Returns the failure group of a stored descriptor, if the settings no longer have it: NODE
    /// stands in.
    pub fn former_group(&self, tree: &KvTree) -> Option<String> {
        let descriptor = RedundancyDesc::from_tree(tree)?;
        let matters = descriptor.scheme != SchemeKind::Single;
        let is_known = self.groups.of_ranks(&descriptor.group).is_some();
        (matters && !is_known).then_some(descriptor.group)
    }

    /// The placement allows a larger set where `ranks` are fewer than needed.
    fn is_too_small(&self, descriptor: &RedundancyDesc, ranks: &[usize]) -> bool {
        let needed = descriptor.set_failures.saturating_add(1);
        if ranks.len() >= needed {
            return false;
        }
        let sets = self.groups.sets(descriptor);
        let own = ranks.first().and_then(|first| sets.iter().find(|set| set.contains(first)));
        own.is_some_and(|own| own.len().min(needed) > ranks.len())
    }

    /// A dataset is a directory, and the program's files may lie in directories of their own.
    fn warn_of_flat_stores(&mut self) {
        let used = |store: &&StoreDesc| {
            self.redundancy.iter().any(|one| one.enabled && one.store == store.index)
        };
        for store in self.stores.iter().filter(|store| !store.mkdir).filter(used) {
            self.warnings.push((messages::STORE_FLAT, format!(
                "the store {} cannot hold directories (MKDIR=0), so nothing is cached in it: what \
                 would go there goes straight to the parallel file system",
                store.base.display()
            )));
        }
    }

    fn warn_of_unused_stores(&mut self, settings: &Settings) {
        let lines = settings.lines(LineKind::Store);
        for line in lines.filter(|line| line.source != Source::SystemFile) {
            let base: PathBuf = Path::new(&line.subject).components().collect();
            let store = self.stores.iter().find(|store| store.base == base && store.enabled);
            let named = |index: usize| self.redundancy.iter().any(|one| one.store == index);
            if store.is_none_or(|store| named(store.index)) {
                continue;
            }
            let names = match settings.get(keys::COPY_TYPE) == "FILE" {
                true => "no CKPT line names it".to_string(),
                false => format!("SCR_CACHE_BASE is {}", settings.get(keys::CACHE_BASE).display()),
            };
            self.warnings.push((
                messages::SETTING_INEFFECTIVE,
                format!(
                    "{}: nothing is cached in the store {}: {names}",
                    line.place,
                    base.display()
                ),
            ));
        }
    }

    fn warn_of_degraded(&mut self) {
        for descriptor in self.redundancy.iter().filter(|d| d.enabled && !d.bypass) {
            let told = self.groups.degraded(descriptor);
            self.warnings.extend(told.map(|text| (messages::PROTECTION_LESS, text)));
        }
    }
}
