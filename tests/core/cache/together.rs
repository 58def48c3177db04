//! A dataset with a file of which each rank has a part, beside one of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use scr_core::cache::{self, Ctx, SealRequest};
use scr_core::error::Result;
use scr_core::parts::{Extent, Extents};
use scr_core::records::{FileMeta, FilePart};

use super::cluster::{descriptor, key, record_open};

/// Its name.
pub const WHOLE: &str = "ckpt/10/all";
pub const EPOCH: u64 = 0xe1;
pub const PIECE: usize = 700;

/// Who has a piece; some are written by nobody.
pub fn owner(piece: usize, ranks: usize) -> Option<usize> {
    (piece % 7 != 5).then_some(piece * 5 % 11 % ranks)
}

fn pieces() -> usize {
    40
}

/// What the ranks have written together.
pub fn whole(ranks: usize) -> Vec<u8> {
    let byte = |at: usize| owner(at / PIECE, ranks).map_or(0, |rank| (at * 7 + rank + 1) as u8);
    (0..pieces() * PIECE - 123).map(byte).collect()
}

pub fn extents(rank: usize, ranks: usize) -> Extents {
    let end = whole(ranks).len();
    let own = (0..pieces()).filter(|piece| owner(*piece, ranks) == Some(rank));
    own.map(|at| Extent::new((at * PIECE) as u64, ((at + 1) * PIECE).min(end) as u64)).collect()
}

/// Writes and seals dataset 1: a file of all ranks, and one of each. `live` tells whose bytes lie
/// in the file that the ranks of a node write.
pub fn seal(ctx: &Ctx, scheme: &str, live: impl Fn(usize) -> bool) -> Result<()> {
    let (rank, ranks) = (ctx.world.rank(), ctx.world.size());
    let (all, extents) = (whole(ranks), extents(rank, ranks));
    let store = &ctx.layout.stores[0].name;
    record_open(ctx, &key(10), store)?;
    let dir = ctx.layout.open_dir(store, &key(10));
    let name = FilePart::file_name(rank, WHOLE);
    let live = live(rank);
    let place = dir.join(if live { WHOLE } else { &name });
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::create_dir_all(dir.join("ckpt/10")).unwrap();
    let file = File::options().write(true).create(true).truncate(false).open(&place).unwrap();
    let mut packed = 0;
    for one in extents.iter() {
        let at = if live { one.begin } else { packed };
        file.write_all_at(&all[one.begin as usize..one.end as usize], at).unwrap();
        packed += one.len();
    }
    let own = format!("ckpt/10/rank_{rank}");
    fs::write(dir.join(&own), format!("own {rank}")).unwrap();
    ctx.world.barrier()?;
    let part = FilePart { of: WHOLE.into(), extents, whole: all.len() as u64, share: None, live };
    let part = FileMeta { name, part: Some(part.into()), ..FileMeta::default() };
    seal_files(ctx, scheme, vec![FileMeta { name: own, ..FileMeta::default() }, part])
}

/// Seals `files`, which lie there, as dataset 1.
pub fn seal_files(ctx: &Ctx, scheme: &str, files: Vec<FileMeta>) -> Result<()> {
    let (set, descriptor) = ctx.protection.choose(&descriptor(scheme))?;
    let request = SealRequest {
        key: &key(10),
        id: 1,
        epoch: EPOCH,
        store: &ctx.layout.stores[0].name,
        files,
        tags: BTreeMap::new(),
        gone: BTreeMap::new(),
        set: &set,
        descriptor: &descriptor,
    };
    let prepared = cache::prepare(ctx, request, None, &|action| action().map(|()| true))?;
    cache::commit(ctx, &prepared, true)
}
