//! Checksums that a seal leaves out, since nothing but a checksum would need a look at the files:
//! they come later, and until then nobody takes such a file for damaged.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use scr_core::cache::{self, Ctx, LateChecksums};
use scr_core::files::crc32;
use scr_core::parts::{Extent, Extents};
use scr_core::records::{FileMeta, FilePart, Record, Summary};
use scr_core::transfer::{self, Advance, AsyncFlush, Background, BackgroundJob, Check, PublishIf};

use super::cluster::{Cluster, IDENTITY, key, offered_ids, record_open};
use super::job::{Dataset, restart, run};
use super::reading::{flip, read_bytes};
use super::together::seal_files;

const BYTES: usize = 4 << 20;

fn dataset(id: u64, scheme: &'static str) -> Dataset {
    let sizes = vec![vec![BYTES, BYTES + 5, 100]; 2];
    Dataset { id, scheme: (scheme, 1), set_size: 2, group: "NODE", store: "ram", sizes }
}

fn files(ctx: &Ctx, id: u64) -> Vec<FileMeta> {
    ctx.filemap.get_id(id).unwrap().files
}

fn unknown(ctx: &Ctx, id: u64) -> usize {
    files(ctx, id).iter().filter(|file| file.crc32.is_none()).count()
}

fn path(ctx: &Ctx, id: u64, at: usize) -> PathBuf {
    ctx.layout.dataset_dir("ram", id).join(&files(ctx, id)[at].name)
}

fn late() -> LateChecksums {
    LateChecksums::new(|| {})
}

/// Does what the helper thread does until `done`, which is soon.
fn advance_until(ctx: &Ctx, late: &mut LateChecksums, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        late.advance(ctx.filemap).unwrap();
        sleep(Duration::from_millis(1));
    }
}

/// Gives the helper thread time enough for any work.
fn advance_long(ctx: &Ctx, late: &mut LateChecksums) {
    let begin = Instant::now();
    advance_until(ctx, late, || begin.elapsed() > Duration::from_millis(500));
}

fn check_crcs(one: &Dataset, rank: usize, files: &[FileMeta]) {
    let content = one.content(rank);
    assert_eq!(files.len(), content.len());
    assert!(files.iter().all(|file| file.crc32 == Some(crc32(&content[&file.name]))), "{files:?}");
}

/// A launch of two ranks that seals the dataset and does `act`.
fn sealed(cluster: &Cluster, one: &Dataset, act: impl Fn(&Ctx) + Sync) {
    let outcome = cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        one.write(ctx).unwrap();
        act(ctx);
    });
    assert!(outcome.results.iter().all(Option::is_some));
}

#[test]
fn a_seal_reads_what_its_scheme_does_and_the_checksums_are_there_later() {
    for (scheme, expected) in [("SINGLE", 0), ("PARTNER", BYTES * 2), ("XOR", BYTES * 2)] {
        let (cluster, one) = (Cluster::new(), dataset(1, scheme));
        let outcome = cluster.launch("ab").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            let before = read_bytes();
            one.write(ctx).unwrap();
            let read = (read_bytes() - before) as usize;
            assert!(read >= expected && read < expected + BYTES / 8, "{scheme}: {read}");
            assert_eq!(unknown(ctx, 1), if scheme == "SINGLE" { 2 } else { 0 });
            advance_until(ctx, &mut late(), || unknown(ctx, 1) == 0);
            check_crcs(&one, ctx.world.rank(), &files(ctx, 1));
        });
        assert!(outcome.results.iter().all(Option::is_some));
        assert_eq!(offered_ids(&restart(&cluster, "ab", std::slice::from_ref(&one))), [1]);
    }
}

/// Each rank of two nodes has half of a file.
fn seal_halves(ctx: &Ctx, scheme: &str) {
    let (dir, begin) = (ctx.layout.open_dir("ram", &key(10)), ctx.world.rank() * BYTES);
    record_open(ctx, &key(10), "ram").unwrap();
    fs::create_dir_all(&dir).unwrap();
    let file = File::create(dir.join("all")).unwrap();
    file.write_all_at(&vec![7; BYTES], begin as u64).unwrap();
    let (begin, whole) = (begin as u64, 2 * BYTES as u64);
    let extents = Extents::from_iter([Extent::new(begin, begin + BYTES as u64)]);
    let part = FilePart { of: "all".into(), extents, whole, share: None, live: true };
    let name = FilePart::file_name(ctx.world.rank(), "all");
    let part = FileMeta { name, part: Some(part.into()), ..FileMeta::default() };
    seal_files(ctx, scheme, vec![part]).unwrap();
}

#[test]
fn of_parts_a_seal_reads_what_its_scheme_does_too() {
    for (scheme, expected) in [("SINGLE", 0), ("PARTNER", BYTES), ("XOR", BYTES)] {
        let cluster = Cluster::new();
        let outcome = cluster.launch("ab").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            let before = read_bytes();
            seal_halves(ctx, scheme);
            let read = (read_bytes() - before) as usize;
            assert!(read >= expected && read < expected + BYTES / 8, "{scheme}: {read}");
            advance_until(ctx, &mut late(), || unknown(ctx, 1) == 0);
            assert_eq!(files(ctx, 1)[0].crc32, Some(crc32(&vec![7; BYTES])));
            transfer::flush_sync(ctx, 1, &|_| false).unwrap();
        });
        assert!(outcome.results.iter().all(Option::is_some));
        let summary = cluster.prefix().join(".scr/scr.dataset.1/summary.scr");
        let summary = Summary::read(&summary).unwrap().unwrap();
        let mut files = summary.files.values().flatten();
        assert_eq!(files.next().unwrap().crc32, Some(crc32(&vec![7; 2 * BYTES])), "{scheme}");
    }
}

#[test]
fn damage_is_noticed_once_the_checksum_is_there() {
    for in_time in [true, false] {
        let (cluster, one) = (Cluster::new(), dataset(1, "SINGLE"));
        sealed(&cluster, &one, |ctx| {
            if in_time {
                advance_until(ctx, &mut late(), || unknown(ctx, 1) == 0);
            }
            flip(&path(ctx, 1, 0));
        });
        let outcome = cluster.launch("ab").run(|ctx| {
            let offered = offered_ids(&cache::rebuild(ctx, IDENTITY).unwrap());
            // What was not compared is no damage.
            assert_eq!(offered.is_empty(), in_time, "{offered:?}");
        });
        assert!(outcome.results.iter().all(Option::is_some));
    }
}

#[test]
fn what_was_changed_since_the_seal_gets_no_checksum() {
    let (cluster, one) = (Cluster::new(), dataset(1, "SINGLE"));
    sealed(&cluster, &one, |ctx| {
        sleep(Duration::from_millis(20));
        flip(&path(ctx, 1, 0));
        let mut late = late();
        advance_until(ctx, &mut late, || unknown(ctx, 1) < 2);
        advance_long(ctx, &mut late);
        assert_eq!(unknown(ctx, 1), 1, "the other one has it");
    });
    // The same if the dataset was opened again, evicted or sealed anew, as far as it concerns it.
    let cluster = Cluster::new();
    sealed(&cluster, &one, |ctx| {
        let (sealed, mut late) = (ctx.filemap.get_id(1).unwrap(), late());
        late.advance(ctx.filemap).unwrap();
        ctx.filemap.revoke(&sealed.key).unwrap();
        advance_long(ctx, &mut late);
        assert_eq!(unknown(ctx, 1), 2);
    });
}

#[test]
fn the_newest_dataset_comes_first() {
    let (cluster, one) = (Cluster::new(), dataset(1, "SINGLE"));
    sealed(&cluster, &one, |ctx| {
        let mut late = late();
        late.advance(ctx.filemap).unwrap();
        dataset(2, "SINGLE").write(ctx).unwrap();
        advance_until(ctx, &mut late, || unknown(ctx, 2) == 0);
        assert_eq!(unknown(ctx, 1), 2);
        advance_until(ctx, &mut late, || unknown(ctx, 1) == 0);
    });
}

fn check_summary(cluster: &Cluster, one: &Dataset) {
    let path = cluster.prefix().join(".scr/scr.dataset.1/summary.scr");
    let summary = Summary::read(&path).unwrap().unwrap();
    assert_eq!(summary.files.len(), 2);
    summary.files.iter().for_each(|(rank, files)| check_crcs(one, *rank, files));
}

fn always() -> PublishIf {
    Box::new(|_, publish| publish().map(|()| true))
}

#[test]
fn a_flush_finds_the_checksums_on_its_way() {
    let (cluster, one) = (Cluster::new(), dataset(1, "SINGLE"));
    sealed(&cluster, &one, |ctx| {
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
        let verified = transfer::verify_on_prefix(ctx, 1, Check::Contents).unwrap();
        assert_eq!(verified.fault, None);
    });
    check_summary(&cluster, &one);
}

#[test]
fn a_flush_by_threads_finds_the_checksums_on_its_way() {
    let (cluster, one) = (Cluster::new(), dataset(1, "SINGLE"));
    sealed(&cluster, &one, |ctx| {
        let mut begun = AsyncFlush::begin(ctx, 1, &|_| false, None, || {}, always()).unwrap();
        let begin = Instant::now();
        let index = ctx.prefix.join(".scr/scr.dataset.1/summary.scr");
        while !index.exists() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            if ctx.world.rank() == 0 {
                assert!(!matches!(begun.advance(), Advance::Failed(_)), "{:?}", begun.outcome());
            }
            sleep(Duration::from_millis(5));
        }
        begun.stop();
    });
    check_summary(&cluster, &one);
}

#[test]
fn a_flush_without_agreement_finds_the_checksums_on_its_way() {
    let (cluster, one) = (Cluster::new(), dataset(1, "SINGLE"));
    run(&cluster, "ab", std::slice::from_ref(&one));
    let outcome = cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let record = ctx.filemap.get_id(1).unwrap();
        if ctx.world.rank() == 0 {
            transfer::announce_background(ctx.prefix, &record, 2, 0).unwrap();
        }
        ctx.world.barrier().unwrap();
        let job = BackgroundJob {
            prefix: ctx.prefix.to_path_buf(),
            rank: ctx.world.rank(),
            world_size: 2,
            width: 2,
            record,
        };
        Background::start(job, || {}, always()).unwrap().finish().unwrap();
        ctx.world.barrier().unwrap();
        if ctx.world.rank() == 0 {
            assert!(transfer::complete_background(ctx.prefix, 1, 0).unwrap().is_some());
        }
    });
    assert!(outcome.results.iter().all(Option::is_some));
    check_summary(&cluster, &one);
}
