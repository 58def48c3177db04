//! What ranks have written to files of several nodes, told at sync points.
//!
//! ```text
//! PARTED / <directory name of the key> / <name> / MODE, BYTES (packed, in hexadecimal)
//! ```

use std::collections::BTreeMap;

use crate::cache::disk::describe;
use crate::kvtree::KvTree;
use crate::machine::{Accesses, DatasetKey};
use crate::namespace::{FarMessage, Layer};
use crate::records::{self, text};
use crate::session::{node::State, rank::Rank, updates::Updates};

const KEY: &str = "PARTED";

/// Adds what this rank has written since it was last told.
pub(super) fn tell_parts(state: &mut State, rank: &Rank, news: &mut FarMessage) {
    let now = state.machine.points_entered();
    for (key, name, done) in state.own.parted.take_news(now) {
        let here = state.view.layer(&key).map(|layer| layer.dir.join(&name));
        let mode = here.and_then(|here| describe(&here, &name).ok()).map_or(0o600, |it| it.mode);
        let tree = news.0.child_mut(KEY).child_mut(rank.record_key(&key).directory_name());
        let tree = tree.child_mut(&name);
        tree.set_value("MODE", format_args!("{mode:o}"));
        tree.set_value("BYTES", text::hex_text(&done.to_bytes()));
    }
}

impl Updates {
    /// Takes in what all ranks, this one as well, have told.
    pub(super) fn hear_of_parts(&self, all: &[Vec<u8>]) {
        let mut files: BTreeMap<(DatasetKey, String), Vec<(usize, u32, Accesses)>> =
            BTreeMap::new();
        for (rank, bytes) in all.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            let Some(news) = FarMessage::from_bytes(bytes) else { continue };
            for (key, names) in news.0.child(KEY) {
                let key = records::DatasetKey::from_directory_name(key);
                let Some(key) = key.and_then(|key| self.rank.machine_key(&key)) else { continue };
                for (name, tree) in names {
                    let Some((mode, done)) = read(tree) else { continue };
                    files.entry((key.clone(), name.into())).or_default().push((rank, mode, done));
                }
            }
        }
        if files.is_empty() {
            return;
        }
        let mut state = self.node.state();
        for ((key, name), told) in files {
            self.show_part(&mut state, &key, &name, told[0].0, told[0].1);
            let State { machine, own, .. } = &mut *state;
            let told = told.into_iter().map(|(rank, _, done)| (machine.nodes()[rank], done));
            own.parted.entry(&key, &name).hear(told);
        }
    }

    /// Lets the file be seen, which lies in parts on several nodes.
    fn show_part(&self, state: &mut State, key: &DatasetKey, name: &str, owner: usize, mode: u32) {
        if state.view.layer(key).is_none() {
            let store = self.stores.store_for(state, key);
            let dir = self.site.layout.open_dir(&store, &self.rank.record_key(key));
            state.view.put(Layer::new(key.clone(), dir));
        }
        if let Some(layer) = state.view.layer_mut(key) {
            layer.put_parted(name, owner, mode);
        }
    }
}

fn read(tree: &KvTree) -> Option<(u32, Accesses)> {
    let mode = u32::from_str_radix(tree.get_value("MODE")?, 8).ok()?;
    Some((mode, Accesses::from_bytes(&text::parse_hex(tree.get_value("BYTES")?)?)?))
}
