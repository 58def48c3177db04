//! At a restart: what a node can read by itself of a file that several nodes have written. That is
//! what its own ranks have, and small pieces of the others: headers and indices, which all ranks
//! read. All of it is put into one file of the node, at its places (`docs/internals/restart.md`).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use super::publish::parts::write_part;
use crate::bytes::{Reader, Writer};
use crate::cache::disk::make_own_dir;
use crate::cache::{Ctx, Offered};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, join_relative, open_own};
use crate::log;
use crate::parts::{Extent, Extents, PartHere};
use crate::records::{FileMeta, FilePart};
use crate::system::space;

/// A larger piece of one node is not brought to the others, nor one of a size of which there are
/// too many,
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// but at most so many of its first and of its last bytes are: a header may lie beside data.
const EDGE_BYTES_MAX: u64 = 8 << 10;
/// To tell of fewer bytes takes as much as they are.
const EDGE_BYTES_MIN: u64 = 512;
/// So much in all comes to each node for one dataset; the smallest pieces first, edges last.
const BROUGHT_BYTES_MAX: u64 = 16 << 20;
/// A copy is made if there is so many times its room.
const ROOM_FACTOR: u64 = 4;
/// Sizes are told apart by their powers of two; the last one is that of all larger pieces.
const SIZES: usize = PIECE_BYTES_MAX.ilog2() as usize + 2;

/// By the name of the whole file.
type WholeNames<T> = BTreeMap<String, T>;

/// Puts what can be read here of the dataset's files into the files of this node. Returns what that
/// is; where something fails locally, less. Collective.
///
/// # Errors
/// Those of the communication.
pub(crate) fn bring_parts_together(
    ctx: &Ctx,
    offered: &Offered,
) -> Result<WholeNames<Arc<PartHere>>> {
    let wholes = CachedWhole::all_of(offered);
    // In a store that others reach their parts lie under the same names.
    if wholes.is_empty() || ctx.sharing.any() {
        return Ok(WholeNames::new());
    }
    let dir = &offered.dir;
    let node = PartsOfNode::of(&ctx.node.all_gather(&told(dir, &lay_out(offered)))?, dir);
    let brought = match ctx.leaders {
        Some(leaders) => {
            let limits = ToldLimits::of(&leaders.all_gather(&node.sizes())?);
            node.put(dir, &wholes, &leaders.all_gather(&node.tell(dir, limits))?)
        }
        None => Vec::new(),
    };
    let mut brought = told_pieces(dir, &brought);
    ctx.node.broadcast(&mut brought, 0)?;
    let mut from = Reader::new(&brought);
    let is_same = from.counted() == Some(dir.as_os_str().as_encoded_bytes());
    let brought = from.list(piece_from).filter(|_| is_same);
    Ok(node.with(&brought.unwrap_or_default(), &wholes))
}

/// A rank's part of a file.
struct LaidPart {
    of: String,
    extents: Vec<Extent>,
    /// It is at its place in the file of the node.
    is_here: bool,
}

/// Puts this rank's parts to their places in the files of the node.
fn lay_out(offered: &Offered) -> Vec<LaidPart> {
    let mut laid = Vec::new();
    for file in offered.files.iter().filter(|file| !file.on_prefix) {
        let Some(part) = &file.part else { continue };
        let done = join_relative(&offered.dir, &part.of).and_then(|path| match part.live {
            true => set_length(&path, part.whole),
            false => lay_dense(&offered.dir, &path, file, part),
        });
        if let Err(error) = &done {
            // Who reads it waits for the prefix then.
            log::message(1, format_args!("{} is not read here: {error}", part.of));
        }
        let (of, extents) = (part.of.clone(), part.extents.iter().collect());
        laid.push(LaidPart { of, extents, is_here: done.is_ok() });
    }
    laid
}

/// A copy, which needs as much room again: the next checkpoint comes first.
fn lay_dense(dir: &Path, path: &Path, file: &FileMeta, part: &FilePart) -> Result<()> {
    let free = space(dir).map_or(0, |space| space.free_bytes);
    if free / ROOM_FACTOR < file.size {
        return Err(Error::Refused("there is no room for it".into()));
    }
    path.parent().map_or(Ok(()), make_own_dir)?;
    let how = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
    write_part(dir, path, file, part, how).map(drop)
}

fn open(path: &Path) -> Result<File> {
    let opened = open_own(path, OpenOptions::new().read(true).write(true));
    opened.map_err(|error| Error::io("cannot open", path, error))
}

fn set_length(path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| Error::io("cannot change the length of", path, error);
    let file = open(path)?;
    let is_right = file.metadata().map_err(failed)?.len() == bytes;
    if is_right { Ok(()) } else { file.set_len(bytes).map_err(failed) }
}

fn told(dir: &Path, laid: &[LaidPart]) -> Vec<u8> {
    let mut out = Writer::new();
    out.counted(dir.as_os_str().as_encoded_bytes()).list(laid, |out, one| {
        out.counted(one.of.as_bytes()).flags(&[one.is_here]);
        put_extents(out, &one.extents);
    });
    out.take()
}

fn put_extents(out: &mut Writer, all: &[Extent]) {
    out.list(all, |out, one| _ = out.word(one.begin).word(one.end));
}

fn extents_from(from: &mut Reader<'_>) -> Option<Vec<Extent>> {
    from.list(|from| Some(Extent::new(from.word()?, from.word()?)))
}

type NamedPiece = (String, Extent);

fn piece_from(from: &mut Reader<'_>) -> Option<NamedPiece> {
    Some((from.text()?, Extent::new(from.word()?, from.word()?)))
}

/// They are in `dir`; ranks with another store have not got them.
fn told_pieces(dir: &Path, pieces: &[NamedPiece]) -> Vec<u8> {
    let put = |out: &mut Writer, (name, piece): &NamedPiece| {
        out.counted(name.as_bytes()).word(piece.begin).word(piece.end);
    };
    Writer::new().counted(dir.as_os_str().as_encoded_bytes()).list(pieces, put).take()
}

/// Which of [`SIZES`] a piece is counted as.
fn class_of(piece: Extent) -> usize {
    match piece.len() {
        bytes if bytes <= PIECE_BYTES_MAX => bytes.next_power_of_two().ilog2() as usize,
        _ => SIZES - 1,
    }
}

/// What all nodes tell one another.
#[derive(Clone, Copy)]
struct ToldLimits {
    /// Pieces of these sizes.
    whole: [bool; SIZES],
    /// Of other pieces, so many bytes at each end.
    edge_bytes: u64,
    /// Which bytes each has: if they are in too many pieces nobody knows what was written by none.
    extents: bool,
}

impl ToldLimits {
    /// Finds them from what each node has told ([`PartsOfNode::sizes`]).
    fn of(told: &[Vec<u8>]) -> ToldLimits {
        let mut all: Vec<Reader<'_>> = told.iter().map(|one| Reader::new(one)).collect();
        let mut next = || {
            let words = all.iter_mut().map(|one| one.word().unwrap_or(u64::MAX));
            words.fold(0, u64::saturating_add)
        };
        let extents = next() <= BROUGHT_BYTES_MAX;
        ToldLimits::new(extents, &std::array::from_fn(|_| [next(), next()]))
    }

    /// `sizes`: of each size how many bytes all its pieces have, and how many those are.
    fn new(extents: bool, sizes: &[[u64; 2]; SIZES]) -> ToldLimits {
        let (mut whole, mut left, mut others) = ([false; SIZES], BROUGHT_BYTES_MAX, 0_u64);
        for (class, [bytes, pieces]) in sizes.iter().enumerate() {
            match left.checked_sub(*bytes).filter(|_| class < SIZES - 1) {
                Some(rest) => (whole[class], left) = (true, rest),
                None => others = others.saturating_add(*pieces),
            }
        }
        let fits = |edge: &u64| others.saturating_mul(2 * edge) <= left;
        let mut edges = (EDGE_BYTES_MIN.ilog2()..=EDGE_BYTES_MAX.ilog2()).rev().map(|log| 1 << log);
        ToldLimits { whole, edge_bytes: edges.find(fits).unwrap_or(0), extents }
    }

    /// Returns what of a piece other nodes get.
    fn of_piece(&self, piece: Extent) -> Vec<Extent> {
        if self.whole[class_of(piece)] || piece.len() <= 2 * self.edge_bytes {
            return vec![piece];
        }
        let first = Extent::new(piece.begin, piece.begin + self.edge_bytes);
        let last = Extent::new(piece.end - self.edge_bytes, piece.end);
        [first, last].into_iter().filter(|edge| !edge.is_empty()).collect()
    }
}

/// What the ranks of this node have.
struct PartsOfNode {
    /// Of them, what is in the directory of this rank.
    here: WholeNames<Extents>,
    all: WholeNames<Extents>,
}

impl PartsOfNode {
    fn of(told: &[Vec<u8>], dir: &Path) -> PartsOfNode {
        let (mut here, mut all) =
            (WholeNames::<Vec<Extent>>::new(), WholeNames::<Vec<Extent>>::new());
        for told in told {
            let mut from = Reader::new(told);
            let is_same = from.counted() == Some(dir.as_os_str().as_encoded_bytes());
            let laid = from.list(|from| Some((from.text()?, from.flags()?, extents_from(from)?)));
            for (name, [is_here], extents) in laid.unwrap_or_default() {
                if is_here && is_same {
                    here.entry(name.clone()).or_default().extend(&extents);
                }
                all.entry(name).or_default().extend(extents);
            }
        }
        let sorted = |all: WholeNames<Vec<Extent>>| {
            all.into_iter().map(|(name, all)| (name, all.into_iter().collect())).collect()
        };
        PartsOfNode { here: sorted(here), all: sorted(all) }
    }

    /// Tells how many bytes it takes to tell which bytes this node has, and of each size how many
    /// its pieces have, and how many those are.
    fn sizes(&self) -> Vec<u8> {
        let mut sizes = [[0; 2]; SIZES];
        for piece in self.here.values().flat_map(Extents::iter) {
            let [bytes, pieces] = &mut sizes[class_of(piece)];
            *bytes += piece.len();
            *pieces += 1;
        }
        let pieces = self.all.values().map(|all| all.iter().count() as u64).sum::<u64>();
        let mut out = Writer::new();
        out.word(pieces.saturating_mul(size_of::<Extent>() as u64));
        sizes.iter().flatten().for_each(|word| _ = out.word(*word));
        out.take()
    }

    /// Tells what of this node's is within the limits; small pieces are read in `dir`.
    fn tell(&self, dir: &Path, limits: ToldLimits) -> Vec<u8> {
        let mut out = Writer::new();
        let told = self.all.iter().filter(|_| limits.extents);
        let extents: Vec<(&String, Vec<Extent>)> =
            told.map(|(name, all)| (name, all.iter().collect())).collect();
        out.list(&extents, |out, (name, all)| put_extents(out.counted(name.as_bytes()), all));
        for (name, all) in &self.here {
            let Ok(file) = join_relative(dir, name).and_then(|path| open(&path)) else { continue };
            for piece in all.iter().flat_map(|one| limits.of_piece(one)) {
                let mut bytes = vec![0; piece.len() as usize];
                if file.read_exact_at(&mut bytes, piece.begin).is_ok() {
                    out.counted(name.as_bytes()).word(piece.begin).counted(&bytes);
                }
            }
        }
        out.take()
    }

    /// Puts what all nodes have told into the files of this one, which get what the program is to
    /// see of the whole ones. Returns what can be read here now.
    fn put(
        &self,
        dir: &Path,
        wholes: &WholeNames<CachedWhole>,
        told: &[Vec<u8>],
    ) -> Vec<NamedPiece> {
        let mut files: WholeNames<File> = WholeNames::new();
        for name in wholes.keys().filter(|name| self.here.contains_key(*name)) {
            let opened = join_relative(dir, name).and_then(|path| open(&path));
            files.extend(opened.ok().map(|file| (name.clone(), file)));
        }
        let (mut brought, mut written) = (Vec::new(), WholeNames::<Vec<Extent>>::new());
        let mut write = |name: String, begin: u64, bytes: &[u8]| {
            let piece = Extent::new(begin, begin.saturating_add(bytes.len() as u64));
            let file = files.get(&name).filter(|_| piece.end <= wholes[&name].meta.size);
            if file.is_some_and(|file| file.write_all_at(bytes, begin).is_ok()) {
                brought.push((name, piece));
            }
        };
        for told in told {
            let mut from = Reader::new(told);
            let extents = from.list(|from| Some((from.text()?, extents_from(from)?)));
            for (name, all) in extents.unwrap_or_default() {
                written.entry(name).or_default().extend(all);
            }
            while let Some((name, begin, bytes)) =
                from.text().and_then(|name| Some((name, from.word()?, from.counted()?)))
            {
                let is_own = |own: &Extents| own.cover(Extent::new(begin, begin + 1));
                if !self.here.get(&name).is_some_and(is_own) {
                    write(name, begin, bytes);
                }
            }
        }
        for (name, written) in written {
            let Some(whole) = wholes.get(&name) else { continue };
            for gap in whole.gaps(&written.into_iter().collect()) {
                write(name.clone(), gap.begin, &vec![0; gap.len() as usize]);
            }
        }
        files.iter().for_each(|(name, file)| _ = wholes[name].meta.give_to(file));
        brought
    }

    /// All ranks have the same names.
    fn with(
        mut self,
        brought: &[NamedPiece],
        wholes: &WholeNames<CachedWhole>,
    ) -> WholeNames<Arc<PartHere>> {
        let here = |(name, whole): (&String, &CachedWhole)| {
            let others = brought.iter().filter(|(of, _)| of == name).map(|(_, piece)| *piece);
            let own = self.here.remove(name).unwrap_or_default();
            let extents = own.iter().chain(others).collect();
            (name.clone(), Arc::new(PartHere { extents, whole: whole.meta.size }))
        };
        wholes.iter().map(here).collect()
    }
}

/// A file of which ranks have parts.
struct CachedWhole {
    meta: FileMeta,
    /// In all parts together, bytes.
    written: u64,
}

impl CachedWhole {
    /// Finds those of the dataset that are in the caches.
    fn all_of(offered: &Offered) -> WholeNames<CachedWhole> {
        let mut wholes = WholeNames::new();
        for meta in offered.catalog.entries().map(|entry| entry.meta) {
            if meta.is_shared && !meta.on_prefix {
                wholes.insert(meta.name.clone(), CachedWhole { meta, written: 0 });
            }
        }
        if wholes.is_empty() {
            return wholes;
        }
        for part in offered.catalog.held().map(|entry| entry.meta) {
            if let Some(whole) = wholes.get_mut(part.whole_name()) {
                whole.written = whole.written.saturating_add(part.size);
            }
        }
        wholes
    }

    /// Returns short pieces that nobody has written, if `written` is all that was.
    fn gaps(&self, written: &Extents) -> Vec<Extent> {
        let (mut gaps, mut at, mut left) = (Vec::new(), 0, BROUGHT_BYTES_MAX);
        if written.bytes() != self.written {
            return gaps;
        }
        let end = Extent::new(self.meta.size, self.meta.size);
        for piece in written.iter().chain([end]) {
            let gap = Extent::new(at, piece.begin);
            if !gap.is_empty() && gap.len() <= PIECE_BYTES_MAX.min(left) {
                left -= gap.len();
                gaps.push(gap);
            }
            at = piece.end;
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_size_of_which_there_are_too_many_keep_no_others_back() {
        let kib = |bytes: u64| bytes << 10;
        // How many pieces of which length there are; the largest that are brought whole, and how
        // much of each end of the others.
        for (pieces, whole, ends) in [
            (vec![(100, 600), (20, kib(100))], 600, kib(8)),
            // Data in pieces of 16 KiB; metadata lies before some of it.
            (vec![(2000, kib(16)), (9, kib(18))], kib(18), kib(4)),
            (vec![(2000, kib(16)), (9, kib(18)), (10_000, kib(70))], kib(18), 512),
            (vec![(9, 600), (20_000, kib(64))], 600, 0),
        ] {
            let mut sizes = [[0; 2]; SIZES];
            for (count, length) in &pieces {
                let [bytes, all] = &mut sizes[class_of(Extent::new(0, *length))];
                (*bytes, *all) = (*bytes + count * length, *all + count);
            }
            let limits = ToldLimits::new(true, &sizes);
            let brought = |bytes| limits.of_piece(Extent::new(5, 5 + bytes));
            assert_eq!(limits.edge_bytes, ends, "{pieces:?}");
            assert_eq!(brought(whole), [Extent::new(5, 5 + whole)], "{pieces:?}");
            let bytes = |length| brought(length).into_iter().map(Extent::len).sum::<u64>();
            let sum: u64 = pieces.iter().map(|(count, length)| count * bytes(*length)).sum();
            assert!(sum <= BROUGHT_BYTES_MAX, "{pieces:?}: {sum}");
        }
    }
}
