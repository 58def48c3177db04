//! Which store a dataset goes to, and whether there is room in it.

use super::machine::{DatasetKey, FileRef, Places};
use super::runtime::{Session, State};
use super::site::Site;
use crate::cache::Store;
use crate::descriptors::RedundancyDesc;
use crate::system::room;

impl Site {
    /// The descriptor for the dataset with this number in its series.
    pub fn descriptor(&self, output: bool, number: u64) -> &RedundancyDesc {
        self.descriptors.select(number, output)
    }

    /// The stores of a series' datasets, for its machine.
    pub fn places(&self, output: bool) -> Places {
        let sizes = self.descriptors.stores.iter();
        let sizes = sizes.map(|store| usize::try_from(store.count).unwrap_or(usize::MAX));
        Places::new(self.descriptors.intervals(output), sizes.collect())
    }
}

impl Session {
    /// The descriptor of the dataset with this number.
    pub(super) fn descriptor(&self, series: usize, number: u64) -> &RedundancyDesc {
        let output = self.series.series().get(series).is_some_and(|one| one.output);
        self.site.descriptor(output, number)
    }

    /// Name of the store for the files of `key`: where its first file on this rank went, else by
    /// its number.
    pub(super) fn store_for(&self, state: &State, key: &DatasetKey) -> String {
        let begun = state.books.get(key).filter(|book| !book.store.is_empty());
        begun.map_or_else(
            || self.store_of_number(key.series, state.machine.number_of(key)),
            |book| book.store.clone(),
        )
    }

    /// Name of the store of the dataset with this number.
    pub(super) fn store_of_number(&self, series: usize, number: u64) -> String {
        self.descriptor(series, number).base.display().to_string()
    }

    /// Whether the store can take a file that is as large as it was last time.
    pub(super) fn has_room(&self, state: &State, file: &FileRef) -> bool {
        if !self.is_routing() {
            return false;
        }
        let number = state.machine.number_for(file);
        let descriptor = self.descriptor(file.series, number);
        if descriptor.bypass {
            return false;
        }
        let expected = state.machine.expected_bytes(file.series, &file.masked);
        let name = descriptor.base.display().to_string();
        let Some(store) = self.site.layout.store(&name) else { return false };
        let free = room(&store.cache_dir).unwrap_or(0) / self.site.ranks_on_node.max(1);
        let enough = free.min(self.capacity_left(state, store)) > expected;
        if !enough {
            self.shortage.met(&store.cache_dir);
        }
        enough
    }

    /// What this rank may still put into a store whose capacity the user has given, bytes.
    fn capacity_left(&self, state: &State, store: &Store) -> u64 {
        let mut described = self.site.descriptors.stores.iter();
        let described = described.find(|one| one.base.as_os_str() == store.name.as_str());
        let Some(capacity) = described.and_then(|one| one.capacity_bytes) else { return u64::MAX };
        let books = state.books.iter().filter(|(_, book)| book.store == store.name);
        let used = books.map(|(key, book)| state.machine.cached_bytes(key) + book.redundancy_bytes);
        (capacity / self.site.ranks_on_node.max(1)).saturating_sub(used.sum())
    }
}
