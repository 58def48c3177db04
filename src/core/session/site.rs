//! What stays the same for the life of a launch: who we are, where things lie, whom we can talk to.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cache::{Ctx, FilemapFile, Layout, Sharing};
use crate::comm::Comm;
use crate::descriptors::{Descriptors, Overhead};
use crate::params::Settings;
use crate::transfer::Options;

use super::aliases::Alias;
use super::protection::Sets;

/// What the shim offers, as plain functions (`preload/src/abi.rs`, `Host`).
#[derive(Clone)]
pub struct Host {
    /// The shim library, for messages.
    pub library: PathBuf,
    /// From now on the calling thread's own calls pass all hooks; nests.
    pub enter_thread: extern "C" fn(),
    /// Undoes one `enter_thread`.
    pub leave_thread: extern "C" fn(),
    /// Descriptors that are still open for writing with a token.
    pub open_count: extern "C" fn(token: u64) -> i32,
    /// Names that were answered with `Answer::Foreign` may have become ours.
    pub names_changed: extern "C" fn(),
    /// Has the descriptors of a [`lazy`](super::TOKEN_LAZY) token replaced now. It calls
    /// [`Session::evacuate`](super::Session::evacuate), so no lock may be held.
    pub wake: extern "C" fn(token: u64),
    /// Has the file of a token moved to the PFS with all descriptors that are open on it, if that
    /// is possible. It calls [`Session::evacuate`](super::Session::evacuate), too.
    pub move_out: extern "C" fn(token: u64),
    /// The calling thread is about to wait for other ranks, no lock is held: see [`Host::outside`].
    pub step_out: extern "C" fn() -> u32,
    /// Undoes a `step_out`.
    pub step_in: extern "C" fn(u32),
}

impl Host {
    /// Runs `body` with the hooks off on this thread.
    pub fn inside<T>(&self, body: impl FnOnce() -> T) -> T {
        struct Leave(extern "C" fn());
        impl Drop for Leave {
            fn drop(&mut self) {
                (self.0)();
            }
        }
        (self.enter_thread)();
        let _leave = Leave(self.leave_thread);
        body()
    }

    /// Waits in `body` for other ranks, with no lock held: meanwhile the program's signal handlers
    /// run on this thread, and what they do with files is the program's doing.
    pub fn outside<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = (self.step_out)();
        let result = body();
        (self.step_in)(before);
        result
    }
}

/// The unchanging facts of this rank.
pub struct Site {
    /// The shim.
    pub host: Host,
    /// World rank.
    pub rank: usize,
    /// Ranks in the world.
    pub size: usize,
    /// Name of the node.
    pub node_name: String,
    /// The program's directory, symlinks resolved.
    pub prefix: PathBuf,
    /// Directories below it that are symbolic links, and that keep their names.
    pub aliases: Vec<Alias>,
    /// Directories of this node.
    pub layout: Layout,
    /// This rank's durable records.
    pub filemap: FilemapFile,
    /// The first rank of its node.
    pub leads_node: bool,
    /// Ranks on this node.
    pub ranks_on_node: u64,
    /// Ranks that share each store of the layout.
    pub store_sharers: Vec<u64>,
    /// Settings of rank 0.
    pub settings: Settings,
    /// How files travel between cache and prefix.
    pub transfer: Options,
    /// Stores, schemes and groups.
    pub descriptors: Descriptors,
    /// What each redundancy descriptor keeps on this rank beside its files.
    pub overheads: Vec<Overhead>,
    /// When the allocation ends, as the resource manager says, seconds since 1970.
    pub end_time: Option<u64>,
    /// When the launch began, by this node's clock.
    pub begun: SystemTime,
}

impl Site {
    /// `<prefix>/.scr`.
    pub fn state_dir(&self) -> PathBuf {
        self.prefix.join(super::namespace::STATE_FOLDER)
    }

    /// `name` on the PFS.
    pub fn on_prefix(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }
}

/// The communicators, alive until MPI_Finalize. Used at sync points only.
pub struct Links {
    /// All ranks.
    pub world: Box<dyn Comm>,
    /// The ranks of this node.
    pub node: Box<dyn Comm>,
    /// World ranks of this node, in node order.
    pub node_ranks: Vec<usize>,
    /// The leaders of all nodes; on them only.
    pub leaders: Option<Box<dyn Comm>>,
    /// Schemes and sets.
    pub sets: Sets,
    /// Which nodes reach the same store.
    pub sharing: Sharing,
}

impl Links {
    /// What cache and transfer work on.
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
