//! Redundancy descriptors: which scheme, on which store, for which checkpoints.

use std::path::PathBuf;

use super::sets::{Membership, NODE, rings_by_hops};
use crate::kvtree::KvTree;
use crate::params::did_you_mean;

/// A redundancy scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemeKind {
    /// Survives the loss of processes.
    Single,
    /// A full copy on another node.
    Partner,
    /// Parity: survives the loss of one member of each set.
    Xor,
    /// Reed-Solomon codes: survives the loss of any SET_FAILURES members of each set.
    ReedSolomon,
}

/// Most ranks that may be asked for in a set under RS: sets have up to twice as many, and the code
/// has room for 256.
const RS_SET_SIZE_MAX: usize = 128;

impl SchemeKind {
    /// Returns the word for it in config files and records.
    pub fn name(self) -> &'static str {
        match self {
            SchemeKind::Single => "SINGLE",
            SchemeKind::Partner => "PARTNER",
            SchemeKind::Xor => "XOR",
            SchemeKind::ReedSolomon => "RS",
        }
    }

    /// Returns the error is a sentence that says what there is instead.
    pub fn parse(word: &str) -> std::result::Result<SchemeKind, String> {
        let all =
            [SchemeKind::Single, SchemeKind::Partner, SchemeKind::Xor, SchemeKind::ReedSolomon];
        let upper = word.to_ascii_uppercase();
        // LOCAL is what SINGLE was called in the first versions.
        let name = if upper == "LOCAL" { "SINGLE" } else { &upper };
        if let Some(kind) = all.into_iter().find(|kind| kind.name() == name) {
            return Ok(kind);
        }
        let hint = did_you_mean(word, all.map(SchemeKind::name));
        Err(format!("no scheme is called {word} (SINGLE, PARTNER, XOR, RS){hint}"))
    }
}

/// How some of the checkpoints are cached and protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedundancyDesc {
    /// It may be used.
    pub enabled: bool,
    /// The number of its CKPT line.
    pub index: usize,
    /// It is for every checkpoint number that this divides, unless a larger one does.
    pub interval: u64,
    /// Name of the failure group.
    pub group: String,
    /// Index of the store; 0 in a descriptor from a record, where `base` counts.
    pub store: usize,
    /// Directory of the store.
    pub base: PathBuf,
    /// The scheme.
    pub scheme: SchemeKind,
    /// Smallest number of ranks in a set.
    pub set_size: usize,
    /// Losses that a set survives under RS, copies of each file under PARTNER; 1 under XOR, 0 under
    /// SINGLE.
    pub set_failures: usize,
    /// Groups from a rank to its partner.
    pub hop_distance: usize,
    /// Checkpoints go straight to the parallel file system.
    pub bypass: bool,
    /// For datasets that are output.
    pub output: bool,
}

impl RedundancyDesc {
    pub(crate) fn set_size_min(&self) -> usize {
        let least = self.set_size.max(self.set_failures.saturating_add(1));
        match self.scheme {
            // A stored descriptor may ask for anything.
            SchemeKind::ReedSolomon => least.min(RS_SET_SIZE_MAX),
            _ => least,
        }
    }

    /// Puts a set into ring order: each one's right neighbour is HOP_DISTANCE members further on.
    /// Under PARTNER, where copies go to neighbours only, rings that are large enough are sets of
    /// their own. Parity is shared by all members, so its rings follow one another.
    pub(super) fn rings(&self, set: &[usize]) -> Vec<Vec<usize>> {
        let rings = rings_by_hops(set, self.hop_distance);
        let large_enough = |ring: &Vec<usize>| ring.len() > self.set_failures.max(1);
        match self.scheme == SchemeKind::Partner && rings.iter().all(large_enough) {
            true => rings,
            false => vec![rings.concat()],
        }
    }

    /// Settles SET_FAILURES: what was asked for, as far as the scheme has a choice.
    pub(super) fn settle_failures(
        &mut self,
        asked: Option<usize>,
        default: usize,
    ) -> std::result::Result<(), String> {
        self.set_failures = match self.scheme {
            SchemeKind::Single => 0,
            SchemeKind::Xor => 1,
            SchemeKind::Partner => asked.unwrap_or(1),
            SchemeKind::ReedSolomon => asked.unwrap_or(default),
        };
        let most = RS_SET_SIZE_MAX;
        match self.scheme {
            SchemeKind::ReedSolomon if self.set_failures >= most => Err(format!(
                "SET_FAILURES={} is too much for RS: it has to be less than {most}",
                self.set_failures
            )),
            SchemeKind::ReedSolomon if self.set_size > most => {
                Err(format!("SET_SIZE={} is too much for RS: at most {most}", self.set_size))
            }
            _ => Ok(()),
        }
    }

    /// Says that the scheme does not survive what was asked for.
    pub(super) fn unheeded_failures(&self, asked: usize) -> Option<String> {
        let survived = match self.set_failures {
            0 => "no loss",
            _ => "one loss in each set",
        };
        let scheme = self.scheme.name();
        (self.enabled && !self.bypass && asked > self.set_failures).then(|| {
            format!(
                "SET_FAILURES={asked} has no effect: {scheme} survives {survived}. RS and PARTNER \
                 can survive more"
            )
        })
    }

    /// Returns the hash of the descriptor manual. Datasets lie in `directory`,
    /// `<base>/<user>/scr.<jobid>`.
    pub fn to_tree(&self, directory: &str, membership: Option<&Membership>) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("ENABLED", u8::from(self.enabled));
        tree.set_value("INDEX", self.index);
        tree.set_value("INTERVAL", self.interval);
        tree.set_value("BASE", self.base.display());
        tree.set_value("DIRECTORY", directory);
        tree.set_value("TYPE", self.scheme.name());
        tree.set_value("GROUP", &self.group);
        tree.set_value("HOP_DISTANCE", self.hop_distance);
        tree.set_value("SET_SIZE", self.set_size);
        tree.set_value("SET_FAILURES", self.set_failures);
        tree.set_value("BYPASS", u8::from(self.bypass));
        tree.set_value("OUTPUT", u8::from(self.output));
        if let Some(membership) = membership {
            membership.put(&mut tree);
        }
        tree
    }

    /// Returns `None` if a key is missing or malformed. Keys that the descriptor manual does not
    /// have may be missing. [`Membership::get`] reads the set.
    pub fn from_tree(tree: &KvTree) -> Option<RedundancyDesc> {
        let optional = |key: &str, default: u64| match tree.contains(key) {
            true => tree.get_u64(key),
            false => Some(default),
        };
        let size = |number: u64| usize::try_from(number).ok();
        let scheme = SchemeKind::parse(tree.get_value("TYPE")?).ok()?;
        let failures = if scheme == SchemeKind::ReedSolomon { 2 } else { 1 };
        Some(RedundancyDesc {
            enabled: optional("ENABLED", 1)? == 1,
            index: size(optional("INDEX", 0)?)?,
            interval: optional("INTERVAL", 1)?.max(1),
            group: tree.get_value("GROUP").unwrap_or(NODE).to_string(),
            store: 0,
            base: PathBuf::from(tree.get_value("BASE").or_else(|| tree.get_value("STORE"))?),
            scheme,
            set_size: size(optional("SET_SIZE", 8)?)?,
            set_failures: size(optional("SET_FAILURES", failures)?)?,
            hop_distance: size(optional("HOP_DISTANCE", 1)?)?.max(1),
            bypass: optional("BYPASS", 0)? == 1,
            output: optional("OUTPUT", 0)? == 1,
        })
    }
}
