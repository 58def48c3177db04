//! The code that ships, on nodes that are directories: what ranks tell at a seal, and what they
//! have of the file after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use scr_abi::accesses::trait_bit;
use scr_core::cache::{Dealt, PartedWhole, RankTold};
use scr_core::comm::Comm;
use scr_core::error::Result;
use scr_core::parts::{CrcShare, NodeLog, whole_crc32};
use scr_core::records::{FileContent, FileMeta, FilePart};

use super::draw::{Call, Drawn};
use super::model::content;

const NAME: &str = "all";
const NODES_MAX: usize = 4;

/// A rank's place in a group whose ranks come one after the other.
struct Seat {
    rank: usize,
    size: usize,
    said: Mutex<Vec<u8>>,
    all: Vec<Vec<u8>>,
}

impl Seat {
    fn new(rank: usize, size: usize, all: Vec<Vec<u8>>) -> Self {
        Seat { rank, size, said: Mutex::default(), all }
    }
}

impl Comm for Seat {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.size
    }
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.said.lock().unwrap().extend(bytes);
        Ok(self.all.clone())
    }
    /// What one rank says of its node's file is seen by what it returns.
    fn all_max(&self, _words: &mut [i64]) -> Result<()> {
        Ok(())
    }
    fn barrier(&self) -> Result<()> {
        unreachable!()
    }
    fn broadcast(&self, _bytes: &mut Vec<u8>, _root: usize) -> Result<()> {
        unreachable!()
    }
    fn exchange(&self, _out: &[u8], _to: usize, _into: &mut [u8], _from: usize) -> Result<()> {
        unreachable!()
    }
    fn send(&self, _bytes: &[u8], _to: usize) -> Result<()> {
        unreachable!()
    }
    fn receive(&self, _from: usize) -> Result<Vec<u8>> {
        unreachable!()
    }
    fn sparse_exchange(&self, _out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        unreachable!()
    }
    fn split(&self, _color: i64, _key: i64) -> Result<Option<Box<dyn Comm>>> {
        unreachable!()
    }
}

/// Nodes, one after the other those of many jobs.
pub struct Nodes(tempfile::TempDir);

impl Nodes {
    pub fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        (0..NODES_MAX).for_each(|node| fs::create_dir(dir.path().join(node.to_string())).unwrap());
        Nodes(dir)
    }

    fn dir(&self, node: usize) -> PathBuf {
        self.0.path().join(node.to_string())
    }
}

/// A job whose ranks have written the file.
pub struct Job<'a> {
    pub drawn: &'a Drawn,
    nodes: &'a Nodes,
    /// The files of the nodes of which a rank has opened it.
    pub files: Vec<Option<Vec<u8>>>,
    /// What each rank has done, if it has opened it.
    pub logs: Vec<Option<NodeLog>>,
}

impl<'a> Job<'a> {
    pub fn new(drawn: &'a Drawn, nodes: &'a Nodes) -> Self {
        let of_node = |node: usize| {
            let calls = drawn.calls.iter().filter(move |call| drawn.nodes[call.rank] == node);
            calls.clone().next().map(|_| content(calls))
        };
        let files: Vec<Option<Vec<u8>>> = (0..NODES_MAX).map(of_node).collect();
        for (node, file) in files.iter().enumerate() {
            let place = nodes.dir(node).join(NAME);
            file.iter().for_each(|file| fs::write(&place, file).unwrap());
        }
        let log = |rank: usize| {
            let calls = || drawn.calls.iter().filter(move |call| call.rank == rank);
            let logged = calls().filter(|call| call.is_logged).map(Call::access);
            calls().next().map(|_| NodeLog::of(logged))
        };
        let logs = (0..drawn.nodes.len()).map(log).collect();
        Job { drawn, nodes, files, logs }
    }

    /// Returns how long the file of a node is.
    pub fn length(&self, node: usize) -> u64 {
        self.files[node].as_ref().map_or(0, |file| file.len() as u64)
    }

    /// Returns the ranks of a node.
    fn ranks_of(&self, node: usize) -> Vec<usize> {
        (0..self.drawn.nodes.len()).filter(|rank| self.drawn.nodes[*rank] == node).collect()
    }

    /// Returns the parts that the seal gives the ranks, as they are recorded, each with its node;
    /// `None` if it is refused.
    pub fn sealed(&self) -> Result<Option<Vec<(usize, FileMeta)>>> {
        let (nodes, size) = (&self.drawn.nodes, self.drawn.nodes.len());
        let tell = |rank: usize| {
            let seat = Seat::new(rank, size, Vec::new());
            PartedWhole::gather(&seat, nodes, &self.told(rank))?;
            Ok(seat.said.into_inner().unwrap())
        };
        let all = (0..size).map(tell).collect::<Result<Vec<_>>>()?;
        let wholes = PartedWhole::gather(&Seat::new(0, size, all), nodes, &[])?;
        let mut parts = Vec::new();
        for whole in &wholes {
            for (rank, node) in nodes.iter().enumerate() {
                let ranks = self.ranks_of(*node);
                let place = ranks.iter().position(|one| *one == rank).unwrap_or_default();
                let world = Seat::new(rank, size, Vec::new());
                let here = Seat::new(place, ranks.len(), Vec::new());
                let file = self.nodes.dir(*node).join(NAME);
                let dealt = whole.deal(&world, &here, *node, Some(&file))?;
                let Some(Dealt { part, .. }) = dealt else { return Ok(None) };
                parts.extend(part.map(|part| (*node, part)));
            }
        }
        Ok(Some(parts))
    }

    fn told(&self, rank: usize) -> Vec<(String, RankTold)> {
        let Some(log) = self.logs[rank].clone() else { return Vec::new() };
        let is_full = self.drawn.overfull == Some(rank);
        let traits = if is_full { trait_bit::OVERFULL } else { 0 };
        let here = (self.length(self.drawn.nodes[rank]), 0o644);
        let told = RankTold { log, traits, here, ..RankTold::default() };
        vec![(NAME.to_string(), told)]
    }

    /// Puts the file together from parts, dealt out finer, as their records say; with each byte the
    /// number of parts that have it. Checks that the checksum is that of the whole.
    pub fn put_together(
        &self,
        parts: &[(usize, FileMeta)],
    ) -> std::result::Result<Vec<u8>, String> {
        let whole = |(_, file): &(usize, FileMeta)| file.part.as_ref().map(|part| part.whole);
        let size = parts.iter().find_map(whole).unwrap_or(0);
        let (mut bytes, mut sum) = (vec![None; size as usize], CrcShare::new(size));
        for (node, file) in parts {
            let part = file.part.as_ref().ok_or("a part is none")?;
            let (dir, owners) = (self.nodes.dir(*node), self.ranks_of(*node).len());
            for extents in part.extents.dealt_out(owners, self.drawn.unit) {
                let size = extents.bytes();
                let part = Some(FilePart { extents, ..(**part).clone() }.into());
                let own = FileMeta { part, size, ..file.clone() };
                let own = FileMeta::from_tree(&own.to_tree()).ok_or("no record is read")?;
                put(&mut bytes, &mut sum, &own, &dir)?;
            }
        }
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte.unwrap_or(0)).collect();
        let same = whole_crc32(size, [sum.value()]) == scr_core::files::crc32(&bytes);
        same.then_some(bytes).ok_or_else(|| "the checksum is not that of the whole".to_string())
    }
}

/// Puts a part's bytes to their places, where nobody else's are, and into the checksum.
fn put(
    whole: &mut [Option<u8>],
    sum: &mut CrcShare,
    file: &FileMeta,
    dir: &Path,
) -> std::result::Result<(), String> {
    let mut owned_twice = None;
    let content = FileContent::of(dir, file).map_err(|error| error.to_string())?;
    let read = content.pass(|begin, bytes| {
        sum.add(begin, bytes);
        for (at, byte) in (begin as usize..).zip(bytes) {
            owned_twice = owned_twice.or(whole[at].replace(*byte).map(|_| at));
        }
        Ok(())
    });
    read.map_err(|error| error.to_string())?;
    owned_twice.map_or(Ok(()), |at| Err(format!("byte {at} has two owners")))
}
