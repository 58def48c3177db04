//! Where things lie on a node: control directory, cache directories, dataset directories.
//!
//! All names follow from the job, the dataset's key and its id, so the ranks of a node find one
//! another's files without talking.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::address::{Address, job_dir};
use super::names::SEALED_PREFIX;
use super::owner::Owner;
use crate::records::{DatasetKey, DatasetRecord};

/// A place that can hold datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Name in descriptors and records: the base directory as the settings give it. The same on
    /// every node.
    pub name: String,
    /// Its directory on this node, at the [`Address`] below its base; exists once the launch was
    /// accepted.
    pub cache_dir: PathBuf,
    /// Datasets can lie in it. One that only records of an earlier launch name may be gone from
    /// this node; the first store stands in for it.
    pub usable: bool,
    /// The user says that other nodes reach it, even if this launch has but one.
    pub is_shared: bool,
}

/// The directories that a prefix has of a job on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// At the [`Address`] below `SCR_CNTL_BASE`; holds filemaps and `launch.scr`.
    pub control_dir: PathBuf,
    /// The stores, in the order of the settings; the first is the default.
    pub stores: Vec<Store>,
    /// Whose datasets count in them.
    pub owner: Owner,
}

impl Layout {
    /// Makes the layout for base directories as the settings give them, on a node whose files begin
    /// at `root` (see [`super::names::on_node`]).
    #[must_use]
    pub fn new(
        root: &Path,
        control_base: &Path,
        store_bases: &[String],
        address: &Address,
    ) -> Self {
        let control_dir = address.below(root, control_base);
        let mut layout = Layout { control_dir, stores: Vec::new(), owner: Owner::default() };
        for base in store_bases {
            layout.add_store(root, base, address, true);
        }
        layout
    }

    /// Returns user and job id, as the control directory has them.
    #[must_use]
    pub fn user_and_job(&self) -> (String, String) {
        let text = |name: Option<&OsStr>| {
            name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let of_job = job_dir(&self.control_dir);
        let job = text(of_job.file_name());
        let user = text(of_job.parent().and_then(Path::file_name));
        (user, job.strip_prefix("scr.").unwrap_or(&job).to_string())
    }

    /// Takes the user's word that several nodes reach this store.
    pub fn declare_shared(&mut self, base: &str) {
        for store in self.stores.iter_mut().filter(|store| store.name == base) {
            store.is_shared = true;
        }
    }

    /// Adds a store, unless it is there.
    pub fn add_store(&mut self, root: &Path, base: &str, address: &Address, usable: bool) {
        if self.stores.iter().all(|store| store.name != base) {
            let cache_dir = address.below(root, Path::new(base));
            let name = base.to_owned();
            self.stores.push(Store { name, cache_dir, usable, is_shared: false });
        }
    }

    /// Finds the store called `name`, if datasets can lie in it.
    #[must_use]
    pub fn store(&self, name: &str) -> Option<&Store> {
        self.stores.iter().find(|store| store.name == name && store.usable)
    }

    /// Returns the place in the list of the store called `name`, or of the one that stands in for
    /// it.
    #[must_use]
    pub fn store_index(&self, name: &str) -> usize {
        self.stores.iter().position(|store| store.name == name && store.usable).unwrap_or(0)
    }

    /// Returns the name under which what belongs into store `name` lies on this node.
    #[must_use]
    pub fn stand_in<'a>(&'a self, name: &'a str) -> &'a str {
        self.stores.get(self.store_index(name)).map_or(name, |store| &store.name)
    }

    /// Returns the cache directory of the store called `name`; that of the first store if no such
    /// store is configured (a record may name a store that the settings no longer have), the
    /// control directory if there is none at all.
    #[must_use]
    pub fn cache_dir(&self, name: &str) -> &Path {
        self.store(name).or(self.stores.first()).map_or(&self.control_dir, |store| &store.cache_dir)
    }

    /// Returns the directory of the sealed dataset `id` in the store called `store`.
    #[must_use]
    pub fn dataset_dir(&self, store: &str, id: u64) -> PathBuf {
        self.cache_dir(store).join(format!("{SEALED_PREFIX}{id}"))
    }

    /// Returns the directory of a dataset in progress in the store called `store`.
    #[must_use]
    pub fn open_dir(&self, store: &str, key: &DatasetKey) -> PathBuf {
        self.cache_dir(store).join(key.directory_name())
    }

    /// Finds where the data of `record` lies on this node, whichever name its directory has by now:
    /// a record of an id may still lie under the key when a kill came before the rename.
    #[must_use]
    pub fn data_dir(&self, record: &DatasetRecord) -> PathBuf {
        let store = store_of(record);
        let open = self.open_dir(store, &record.key);
        if record.dataset_id == 0 {
            return open;
        }
        let sealed = self.dataset_dir(store, record.dataset_id);
        if !sealed.exists() && open.exists() { open } else { sealed }
    }
}

/// Returns the name of the store that a record's data lies in (key STORE of its descriptor).
#[must_use]
pub fn store_of(record: &DatasetRecord) -> &str {
    record.descriptor.get_value("STORE").unwrap_or_default()
}
