//! What the calls come to: of each byte, who may have written it last, if between two sync points
//! nobody knows the order of two nodes' calls.

use std::collections::{BTreeMap, BTreeSet};

use scr_abi::accesses::Deed;

use super::draw::{Call, Drawn, SIZE_MAX};

/// A byte of the file.
#[derive(Debug, Default)]
pub struct Byte {
    /// What each node did to it last, of those that may have been the last: wrote this, or cut the
    /// file off before it.
    pub last: BTreeMap<usize, Option<u8>>,
    /// Two nodes have met there: whoever sees the calls, but not the order of those of two ranks,
    /// cannot know which was last.
    pub is_met: bool,
}

/// The file.
#[derive(Debug)]
pub struct Model {
    pub bytes: Vec<Byte>,
    /// How long it may be.
    pub sizes: BTreeSet<u64>,
}

/// Returns what a file is after `calls`.
pub fn content<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Vec<u8> {
    let mut file = Vec::new();
    for call in calls {
        let end = call.end as usize;
        match call.deed {
            Deed::Cut => file.resize(end, 0),
            _ => file.resize(file.len().max(end), 0),
        }
        if call.deed == Deed::Write {
            file[call.begin as usize..end].fill(call.byte);
        }
    }
    file
}

impl Byte {
    /// Tells whether it is not known what it is.
    pub fn is_open(&self) -> bool {
        let writes = self.last.values().any(Option::is_some);
        writes && self.last.len() > 1
    }

    /// Tells whether it may be this.
    pub fn may_be(&self, byte: u8) -> bool {
        let is = |last: &Option<u8>| last.unwrap_or(0) == byte;
        self.last.values().any(is) || (self.last.is_empty() && byte == 0)
    }

    fn take(&mut self, drawn: &Drawn, calls: &[Call], at: u64) {
        let of = |call: &Call| drawn.nodes[call.rank];
        let touch = calls.iter().filter(|call| call.writes(at) || call.cuts_off(at));
        let touch: Vec<&Call> = touch.collect();
        if touch.is_empty() {
            return;
        }
        let last = |call: &&Call| (of(call), (call.deed == Deed::Write).then_some(call.byte));
        self.last = touch.iter().map(last).collect();
        let leaves = |call: &Call| call.deed != Deed::Write && call.end > at;
        let leave = calls.iter().filter(|call| leaves(call));
        let differ = |one: &Call, other: &Call| {
            of(one) != of(other) && !(one.cuts_off(at) && other.cuts_off(at))
        };
        let meet = |one: &&Call| {
            let cut_off = |other: &Call| one.cuts_off(at) && of(one) != of(other);
            touch.iter().any(|other| differ(one, other)) || leave.clone().any(cut_off)
        };
        self.is_met = touch.iter().any(meet);
    }
}

impl Model {
    pub fn of(drawn: &Drawn) -> Self {
        let mut bytes: Vec<Byte> = (0..SIZE_MAX).map(|_| Byte::default()).collect();
        let mut sizes = BTreeSet::from([0]);
        for calls in drawn.calls.chunk_by(|one, next| one.stamp == next.stamp) {
            let numbered = bytes.iter_mut().zip(0..);
            numbered.for_each(|(byte, at)| byte.take(drawn, calls, at));
            sizes = sizes_after(&sizes, drawn, calls);
        }
        Model { bytes, sizes }
    }

    /// Tells whether it is not known what the file is.
    pub fn is_open(&self) -> bool {
        self.sizes.len() > 1 || self.bytes.iter().any(Byte::is_open)
    }

    /// Tells whether who sees the logs may take it for not known.
    pub fn may_be_open(&self) -> bool {
        self.bytes.iter().any(|byte| byte.is_met)
    }
}

/// What a node does to the size between two sync points.
#[derive(Default)]
struct Sizing {
    /// Its last cut.
    cut: Option<u64>,
    /// To make it at least so long, since.
    longer: Vec<u64>,
}

fn sizes_after(before: &BTreeSet<u64>, drawn: &Drawn, calls: &[Call]) -> BTreeSet<u64> {
    let mut nodes: BTreeMap<usize, Sizing> = BTreeMap::new();
    for call in calls {
        let node = nodes.entry(drawn.nodes[call.rank]).or_default();
        match call.deed {
            Deed::Cut => *node = Sizing { cut: Some(call.end), longer: Vec::new() },
            _ => node.longer.push(call.end),
        }
    }
    let longest = |longer: &[u64]| longer.iter().copied().max().unwrap_or(0);
    let mut sizes = BTreeSet::new();
    for (node, Sizing { cut, longer }) in &nodes {
        // It cuts last: of what the others did after their own cuts, some came before it.
        let Some(cut) = cut else { continue };
        let mut all = BTreeSet::from([longest(longer).max(*cut)]);
        for (_, other) in nodes.iter().filter(|(other, _)| *other != node) {
            let since = |from| longest(&other.longer[from..]);
            let after: Vec<u64> = (0..=other.longer.len()).map(since).collect();
            all = all.iter().flat_map(|one| after.iter().map(|after| *one.max(after))).collect();
        }
        sizes.append(&mut all);
    }
    if sizes.is_empty() {
        let all: Vec<u64> = nodes.values().flat_map(|node| node.longer.clone()).collect();
        sizes = before.iter().map(|size| longest(&all).max(*size)).collect();
    }
    sizes
}
