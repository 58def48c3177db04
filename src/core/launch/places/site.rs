//! What stays the same for the life of a launch: who we are, where things lie, whom we can talk to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::bytes::stable_number;
use crate::cache::{Ctx, FilemapFile, Layout, Sets, Sharing};
use crate::comm::Comm;
use crate::descriptors::{Descriptors, Overhead};
use crate::error::Result;
use crate::params::{Settings, keys};
use crate::patterns::Series;
use crate::records::Zone;
use crate::transfer::Options;

use crate::launch::aliases::Alias;
use crate::launch::host::Host;
use crate::namespace as ns;

pub struct Site {
    pub host: Arc<dyn Host>,
    pub rank: usize,
    pub size: usize,
    pub node_name: String,
    /// The program's directory, symlinks resolved.
    pub prefix: PathBuf,
    /// Directories below it that are symbolic links, and that keep their names.
    pub aliases: Vec<Alias>,
    pub layout: Layout,
    pub filemap: FilemapFile,
    pub leads_node: bool,
    pub ranks_on_node: u64,
    /// Ranks that share each store of the layout.
    pub store_sharers: Vec<u64>,
    /// Settings of rank 0.
    pub settings: Settings,
    pub transfer: Options,
    pub descriptors: Descriptors,
    /// What each redundancy descriptor keeps on this rank beside its files.
    pub overheads: Vec<Overhead>,
    /// When the allocation ends, as the resource manager says, seconds since 1970.
    pub end_time: Option<u64>,
    /// Time zone of the people who read the log of events.
    pub zone: Zone,
    pub begun: SystemTime,
}

impl Site {
    pub fn state_dir(&self) -> PathBuf {
        self.prefix.join(ns::STATE_FOLDER)
    }

    /// Tells whether all that the program keeps of a series has to reach the PFS: nobody has said
    /// which datasets do (`SCR_FLUSH`), nor does the program, by calls of SCR.
    pub fn keeps(&self, series: &Series) -> bool {
        !series.is_explicit() && !self.settings.is_chosen(keys::FLUSH.param.name)
    }

    pub fn on_prefix(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }

    /// Removes a file in whose place a new one is made, in its turn among the ranks of all nodes.
    ///
    /// # Errors
    /// See [`ns::Outdated::remove`].
    pub fn remove_outdated(&self, file: &ns::Outdated) -> Result<()> {
        let lock = format!("anew.{:016x}", stable_number(&file.path().to_string_lossy()));
        let host = self.host.clone();
        file.remove(&self.state_dir().join(lock), move || host.enter_thread())
    }

    pub fn purges(&self) -> bool {
        self.settings.get(keys::CACHE_PURGE) || self.settings.get(keys::PREFIX_PURGE)
    }

    /// Returns where private copies lie that the store cannot have.
    pub fn fallback_dir(&self) -> PathBuf {
        self.state_dir().join(ns::FALLBACK_DIR)
    }
}

/// The communicators, alive until MPI_Finalize. Used at sync points only.
pub struct Links {
    pub world: Arc<dyn Comm>,
    pub node: Box<dyn Comm>,
    pub node_ranks: Vec<usize>,
    /// The leaders of all nodes; on them only.
    pub leaders: Option<Box<dyn Comm>>,
    pub sets: Sets,
    pub sharing: Sharing,
}

impl Links {
    pub fn ctx<'a>(&'a self, site: &'a Site) -> Ctx<'a> {
        Ctx {
            world: self.world.as_ref(),
            node: self.node.as_ref(),
            node_ranks: &self.node_ranks,
            leaders: self.leaders.as_deref(),
            host: &site.node_name,
            layout: &site.layout,
            sharing: &self.sharing,
            filemap: &site.filemap,
            prefix: Path::new(&site.prefix),
            protection: &self.sets,
            transfer: site.transfer,
        }
    }
}
