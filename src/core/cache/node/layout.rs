//! Where things lie on a node. All names follow from the job, the dataset's key and its id, so the
//! ranks of a node find one another's files without talking.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::address::{Address, job_dir};
use super::names::SEALED_PREFIX;
use super::owner::Owner;
use crate::records::{DatasetRecord, RecordKey};

/// A place that holds datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The base directory as the settings give it, which descriptors and records have; the same on
    /// every node.
    pub name: String,
    /// At the [`Address`] below its base; it exists once the launch was accepted.
    pub cache_dir: PathBuf,
    /// False for a store that only records of an earlier launch name: it may be gone from this
    /// node, and the first store stands in for it.
    pub usable: bool,
    /// The user says that other nodes reach it, even if this launch has only one.
    pub is_shared: bool,
}

/// The directories that a prefix has of a job on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// At the [`Address`] below `SCR_CNTL_BASE`; holds filemaps and `launch.scr`.
    pub control_dir: PathBuf,
    /// The first is the default.
    pub stores: Vec<Store>,
    /// Whose datasets count in them.
    pub owner: Owner,
}

impl Layout {
    /// Makes a layout; `root` is where the files of the node begin (`names::on_node`).
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

    pub(crate) fn user_and_job(&self) -> (String, String) {
        let text = |name: Option<&OsStr>| {
            name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let of_job = job_dir(&self.control_dir);
        let job = text(of_job.file_name());
        let user = text(of_job.parent().and_then(Path::file_name));
        (user, job.strip_prefix("scr.").unwrap_or(&job).to_string())
    }

    pub(crate) fn declare_shared(&mut self, base: &str) {
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
    pub fn store(&self, name: &str) -> Option<&Store> {
        self.stores.iter().find(|store| store.name == name && store.usable)
    }

    /// Returns the index of the store called `name`, or of the one that stands in for it.
    pub fn store_index(&self, name: &str) -> usize {
        self.stores.iter().position(|store| store.name == name && store.usable).unwrap_or(0)
    }

    /// Returns the name under which data of the store `name` lies on this node.
    pub fn stand_in<'a>(&'a self, name: &'a str) -> &'a str {
        self.stores.get(self.store_index(name)).map_or(name, |store| &store.name)
    }

    /// Returns the cache directory of the store `name`; that of the first store if the settings no
    /// longer have it, the control directory if they have none at all.
    pub fn cache_dir(&self, name: &str) -> &Path {
        self.store(name).or(self.stores.first()).map_or(&self.control_dir, |store| &store.cache_dir)
    }

    /// Returns the directory of the sealed dataset `id` in the store called `store`.
    pub fn dataset_dir(&self, store: &str, id: u64) -> PathBuf {
        self.cache_dir(store).join(format!("{SEALED_PREFIX}{id}"))
    }

    /// Returns the directory of a dataset in progress in the store called `store`.
    pub fn open_dir(&self, store: &str, key: &RecordKey) -> PathBuf {
        self.cache_dir(store).join(key.directory_name())
    }

    /// Returns where the data of `record` lies on this node: a sealed dataset may still have the
    /// name of its key if a kill came before the rename.
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

pub fn store_of(record: &DatasetRecord) -> &str {
    record.descriptor.get_value("STORE").unwrap_or_default()
}
