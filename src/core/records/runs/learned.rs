//! What was learned of how the program writes, kept in `<prefix>/.scr/learned.scr` by rank 0.
//!
//! ```text
//! VERSION / 1
//! LAUNCH / <prefix, world size, patterns, as one line>
//! SERIES / <name> / SETTLE, CLEAN, INTERVAL, UNSAFE / <hash>..., LOUD / <hash>..., PREFIX,
//!                   TOGETHER / <hash> / <ranks>, REWRITES, DISTANCE, OUTLIVED
//!                 / RANK / <rank> / FILES, MARKED, TEMPORARY / <template>...,
//!                                   SIZE / <hash> / <bytes>
//! ```
//! A launch with another LAUNCH line learns anew.

use std::path::Path;

use crate::comm::{Comm, trees};
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::log::{self, messages};
use crate::machine::{Habit, Knowledge, Why};
use crate::patterns::SeriesSet;

const VERSION: u64 = 1;

/// Name of the file below the state folder.
const FILE_NAME: &str = "learned.scr";

/// Reads what was learned for this launch: rank 0 finds the file, the same for all ranks, and each
/// takes its own part.
///
/// # Errors
/// Communication failed. A damaged file is as none.
pub fn read(
    state_dir: &Path,
    identity: &str,
    series: &SeriesSet,
    world: &dyn Comm,
) -> Result<Vec<Knowledge>> {
    let mut known = KvTree::new();
    if world.rank() == 0 {
        let path = state_dir.join(FILE_NAME);
        let tree = KvTree::read_file(&path).unwrap_or_default().unwrap_or_default();
        let ours =
            tree.get_u64("VERSION") == Some(VERSION) && tree.get_value("LAUNCH") == Some(identity);
        if ours {
            known = tree;
        }
    }
    let tree = trees::from_root(world, &known, 0)?;
    let of = |name: &str| from_tree(tree.child("SERIES").child(name), world.rank());
    Ok(series.series().iter().map(|one| of(&one.name)).collect())
}

/// Gathers what all ranks know and has rank 0 keep it. Collective.
///
/// # Errors
/// Communication failed; a file that cannot be written is told, and learned again next time.
pub fn store(
    state_dir: &Path,
    identity: &str,
    series: &SeriesSet,
    known: &[Knowledge],
    world: &dyn Comm,
) -> Result<()> {
    let mut own = KvTree::new();
    for (series, known) in series.series().iter().zip(known) {
        own.set(&series.name, own_tree(known));
    }
    let gathered = trees::all_gather(world, &own)?;
    if world.rank() != 0 {
        return Ok(());
    }
    let mut tree = KvTree::new();
    tree.set_value("VERSION", VERSION);
    tree.set_value("LAUNCH", identity);
    for (series, known) in series.series().iter().zip(known) {
        tree.child_mut("SERIES").set(&series.name, shared_tree(known));
    }
    for (rank, of_rank) in gathered.iter().enumerate() {
        for name in of_rank.keys() {
            let series = tree.child_mut("SERIES").child_mut(name);
            series.child_mut("RANK").set(rank, of_rank.child(name).clone());
        }
    }
    if let Err(error) = tree.write_file(state_dir.join(FILE_NAME)) {
        log::warn_once(
            messages::LEARNED_NOT_KEPT,
            format_args!("{error}; the next run learns again"),
        );
    }
    Ok(())
}

/// The shared part of a series, and that of this rank.
fn from_tree(tree: &KvTree, rank: usize) -> Knowledge {
    let own = tree.child("RANK").child(&rank.to_string());
    let hash = |text: &str| u64::from_str_radix(text, 16).ok();
    let sizes = own
        .child("SIZE")
        .keys()
        .filter_map(|name| Some((hash(name)?, own.child("SIZE").get_u64(name)?)));
    let unsafe_names = tree.child("UNSAFE").keys().filter_map(|name| {
        let why = tree.child("UNSAFE").get_value(name).and_then(Why::from_word);
        Some((hash(name)?, why.unwrap_or(Why::Writers)))
    });
    let together = tree.child("TOGETHER").keys().filter_map(|name| {
        let ranks = tree.child("TOGETHER").get_value(name)?.split(',').map(str::parse);
        Some((hash(name)?, ranks.collect::<std::result::Result<_, _>>().ok()?))
    });
    Knowledge {
        files: own.get_value("FILES").and_then(hash),
        settle_ms: tree.get_u64("SETTLE").unwrap_or(0),
        clean_seals: tree.get_u64("CLEAN").unwrap_or(0).try_into().unwrap_or(0),
        interval_ms: tree.get_u64("INTERVAL").unwrap_or(0),
        unsafe_names: unsafe_names.collect(),
        together: together.collect(),
        prefix_only: tree.get_value("PREFIX").and_then(Why::from_word),
        marked: own.get_value("MARKED").map(str::to_string),
        rewrites: tree.get_flag("REWRITES"),
        restless: tree.child("LOUD").keys().filter_map(hash).collect(),
        temporaries: own.child("TEMPORARY").keys().map(str::to_string).collect(),
        kinds: own.child("KIND").keys().filter_map(hash).collect(),
        sizes: sizes.collect(),
        habit: Habit {
            distance: tree.get_u64("DISTANCE"),
            outlived: tree.get_u64("OUTLIVED").unwrap_or(0),
        },
    }
}

/// The part that is equal on all ranks.
fn shared_tree(known: &Knowledge) -> KvTree {
    let mut tree = KvTree::new();
    tree.set_value("SETTLE", known.settle_ms);
    tree.set_value("CLEAN", known.clean_seals);
    tree.set_value("INTERVAL", known.interval_ms);
    if let Some(why) = known.prefix_only {
        tree.set_value("PREFIX", why.word());
    }
    tree.set_flag("REWRITES", known.rewrites);
    if let Some(distance) = known.habit.distance {
        tree.set_value("DISTANCE", distance);
    }
    tree.set_value("OUTLIVED", known.habit.outlived);
    for (name, why) in &known.unsafe_names {
        tree.child_mut("UNSAFE").set_value(format!("{name:016x}"), why.word());
    }
    for (name, ranks) in &known.together {
        let ranks = ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        tree.child_mut("TOGETHER").set_value(format!("{name:016x}"), ranks);
    }
    for name in &known.restless {
        tree.child_mut("LOUD").child_mut(format!("{name:016x}"));
    }
    tree
}

/// The part of one rank.
fn own_tree(known: &Knowledge) -> KvTree {
    let mut tree = KvTree::new();
    if let Some(files) = known.files {
        tree.set_value("FILES", format!("{files:016x}"));
    }
    if let Some(name) = &known.marked {
        tree.set_value("MARKED", name);
    }
    for template in &known.temporaries {
        tree.child_mut("TEMPORARY").child_mut(template);
    }
    for kind in &known.kinds {
        tree.child_mut("KIND").child_mut(format!("{kind:016x}"));
    }
    for (name, bytes) in &known.sizes {
        tree.child_mut("SIZE").set_value(format!("{name:016x}"), bytes);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_survives_the_file() {
        let known = Knowledge {
            files: Some(7),
            settle_ms: 50,
            clean_seals: 3,
            interval_ms: 900,
            unsafe_names: [(1, Why::Writers), (u64::MAX, Why::GoesOn)].into(),
            together: [(8, [0, 3].into())].into(),
            prefix_only: Some(Why::Readers),
            marked: Some("state".into()),
            rewrites: true,
            restless: [5].into(),
            temporaries: vec!["0\tsuffix\t.tmp\t".into()],
            kinds: [3].into(),
            sizes: [(9, 4096)].into(),
            habit: Habit { distance: Some(2), outlived: 1 },
        };
        let mut tree = shared_tree(&known);
        tree.child_mut("RANK").set(3, own_tree(&known));
        let back = KvTree::decode(&tree.encode()).unwrap();
        assert_eq!(from_tree(&back, 3), known);
        assert_eq!(from_tree(&back, 2).files, None);
    }
}
