//! Datasets on their way to the prefix.

pub(super) mod background;
pub(super) mod places;
pub(super) mod run_record;
pub(super) mod serving;
mod together;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::account::flush_file::PlacesTold;
use crate::launch::site::Site;
use crate::session::{
    node::Node, rank::Rank, stores::Stores, unsealed::Unsealed, updates::Updates,
};
use crate::transfer::{AsyncFlush, Background};

/// Flushes, and what is told of them.
pub(crate) struct Flusher {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    pub(super) unsealed: Arc<Unsealed>,
    /// All ranks write one together. Held while what threads have written gets its names.
    pub(super) flushing: Mutex<bool>,
    pub(super) background: Mutex<Option<(u64, Background)>>,
    pub(super) flushes: Mutex<BTreeMap<u64, AsyncFlush>>,
    /// What the flush file says, as far as it is ours to say.
    pub(super) places: Mutex<PlacesTold>,
}

#[cfg(test)]
mod tests {
    use crate::error::Result;
    use crate::machine::{DatasetKey, Outcome};
    use crate::session::alone::Alone;
    use crate::transfer::background_ids;

    #[test]
    fn a_complete_dataset_comes_to_the_prefix() -> Result<()> {
        let one = Alone::new();
        one.checkpoint("1");
        let (flusher, key) = (&one.session.flush, DatasetKey::new(0, "1", 0));
        let links = one.session.rank.links().unwrap();
        assert!(flusher.has_to_flush(&links, &key, &[])?);
        let id = flusher.node.state().machine.id_of(&key);
        let mut outcome = flusher.flush(&links, &key, id, &[])?;
        while outcome == Outcome::Touched {
            flusher.complete_flushes(&links, u64::MAX)?;
            outcome = flusher.flush(&links, &key, id, &[])?;
        }
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(std::fs::read_to_string(one.prefix().join("ck/1/file")).unwrap(), "1");
        Ok(())
    }

    /// What is staged then has the same names.
    #[test]
    fn what_threads_have_written_gets_no_names_while_all_ranks_write() -> Result<()> {
        let one = Alone::new();
        one.checkpoint("1");
        let (flusher, key) = (&one.session.flush, DatasetKey::new(0, "1", 0));
        let id = flusher.node.state().machine.id_of(&key);
        let record = flusher.site.filemap.get_id(id).unwrap();
        flusher.begin_background(record, &key)?.finish()?;
        let told = |flushing| {
            *flusher.flushing.lock().unwrap() = flushing;
            flusher.tell_published();
            background_ids(&one.prefix()).map(|left| left.is_empty())
        };
        assert!(!told(true)? && told(false)?);
        Ok(())
    }
}
