//! Which prefix this is: the ranks settle it together, since the caches of all nodes have a word.
//!
//! Rank 0 reads the identity. If it alone is lost, with records of runs still there, or the user
//! wants it so (`SCR_CACHE_ADOPT`), the prefix is the one that the newest dataset in the caches was
//! made for; if there was no launch in this directory yet, it gets an identity of its own. That is
//! durable before anything in a cache names it.

use crate::cache::agree::agree;
use crate::cache::{Owner, former_path, newest_owner};
use crate::comm::Comm;
use crate::error::{Error, Result, again};
use crate::kvtree::KvTree;
use crate::launch::start::prepare::Preparation;
use crate::log::{self, messages};
use crate::namespace::STATE_FOLDER;
use crate::params::keys;
use crate::records::{PrefixIdentity, Record};

/// What rank 0 has found.
const KNOWN: &str = "PREFIX";
/// It has found nothing of a run.
const ANEW: &str = "ANEW";
/// What the prefix is called from now on, if nothing names it.
const RANDOM: &str = "RANDOM";
/// What a node's cache names, and the dataset that does.
const CACHED: &str = "CACHED";
const CACHED_BY: &str = "CACHED_BY";
/// Under which path a node has a cache of the prefix that was moved.
const FORMER: &str = "FORMER";

impl Preparation {
    /// Adds to what this rank tells `own` what it knows of the prefix: rank 0, if it has the lock,
    /// and who leads a node. Local.
    pub(crate) fn tell_owner(
        &self,
        leads_node: bool,
        has_lock: bool,
        own: &mut KvTree,
    ) -> Result<()> {
        if let Some((id, cached)) = newest_owner(&self.layout.control_dir).filter(|_| leads_node) {
            own.set_value(CACHED, cached.text());
            own.set_value(CACHED_BY, id);
        }
        let state_dir = self.prefix.join(STATE_FOLDER);
        let moved = leads_node.then(|| former_path(&self.layout.control_dir, &state_dir));
        moved.flatten().into_iter().for_each(|path| own.set_value(FORMER, path));
        if self.rank != 0 || !has_lock {
            return Ok(());
        }
        own.set_value(RANDOM, PrefixIdentity::random().text());
        match again(|| Owner::of_state_dir(&state_dir))? {
            Owner::Prefix(known) => own.set_value(KNOWN, known.text()),
            Owner::Nobody => own.set_flag(ANEW, true),
            Owner::Anybody => {}
        }
        Ok(())
    }

    /// Settles it by what all ranks have told, and makes it durable. Collective.
    pub(crate) fn settle_owner(&mut self, world: &dyn Comm, all: &[KvTree]) -> Result<()> {
        let Some(of_root) = all.first() else { return Ok(()) };
        let identity = |tree: &KvTree, key: &str| PrefixIdentity::parse(tree.get_value(key)?);
        let newest = all.iter().max_by_key(|tree| tree.get_u64(CACHED_BY));
        let cached = newest.and_then(|tree| identity(tree, CACHED));
        let known = identity(of_root, KNOWN);
        let adopts =
            self.settings.get(keys::CACHE_ADOPT) || (known.is_none() && !of_root.get_flag(ANEW));
        let now = cached.filter(|_| adopts).or_else(|| known.clone());
        let Some(now) = now.or_else(|| identity(of_root, RANDOM)) else {
            return Err(Error::Unreadable("rank 0 does not tell which prefix it is".into()));
        };
        if known.as_ref() != Some(&now) {
            let path = self.prefix.join(STATE_FOLDER).join(PrefixIdentity::NAME);
            let written = if self.rank == 0 { again(|| now.write(&path)) } else { Ok(()) };
            agree(world, written)?;
        }
        self.layout.owner = Owner::Prefix(now);
        let former = all.iter().find_map(|tree| tree.get_value(FORMER));
        if let (0, Some(path)) = (self.rank, former) {
            let now = self.prefix.display();
            log::warn(
                messages::PREFIX_MOVED,
                format_args!(
                    "the cache has checkpoints of {now} that were made when it was {path}: they \
                     are not offered. Move it back there to go on from them"
                ),
            );
        }
        Ok(())
    }
}
