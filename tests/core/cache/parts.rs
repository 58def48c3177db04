//! Files that several nodes have written: parts in the caches, one file on the prefix.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use scr_core::cache::{self, Ctx, Takeover};
use scr_core::error::{Error, Result};
use scr_core::files::crc32;
use scr_core::kvtree::KvTree;
use scr_core::records::{FilePart, IndexEntry, Record, Summary, TransferCommand};
use scr_core::transfer::{
    self, Advance, AsyncFlush, Background, Check, FetchStore, Fetched, Options, PublishIf,
    list_prefix,
};

use super::background::left_unfinished;
use super::cluster::{Cluster, IDENTITY, descriptor, offered_ids, run_and_seal};
use super::flush::{files_below, job};
use super::found::tree as tree_of;
use super::together::{EPOCH, PIECE, WHOLE, extents, owner, seal, whole};
use crate::support::syncs::{self, Fault};

/// Two ranks on each of two nodes.
const HOSTS: &str = "aabb";

fn sealed(hosts: &str, scheme: &str, live: impl Fn(usize) -> bool + Sync) -> Cluster {
    let cluster = Cluster::new();
    let outcome = cluster.launch(hosts).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        seal(ctx, scheme, &live).unwrap();
    });
    assert!(outcome.results.iter().all(Option::is_some));
    cluster
}

/// The prefix has all of it and nothing else, and says what it is.
pub fn check_prefix(cluster: &Cluster, ranks: usize) {
    assert_eq!(checked_prefix(cluster, ranks), Some(crc32(&whole(ranks))));
}

/// The same; returns the checksum that it tells of the whole.
fn checked_prefix(cluster: &Cluster, ranks: usize) -> Option<u32> {
    let prefix = cluster.prefix();
    assert!(fs::read(prefix.join(WHOLE)).unwrap() == whole(ranks), "the whole file differs");
    for rank in 0..ranks {
        let own = fs::read_to_string(prefix.join(format!("ckpt/10/rank_{rank}"))).unwrap();
        assert_eq!(own, format!("own {rank}"));
    }
    assert_eq!(files_below(&prefix.join("ckpt")).len(), ranks + 1);
    let own = prefix.join(".scr");
    let summary = Summary::read(&own.join("scr.dataset.1/summary.scr")).unwrap().unwrap();
    let own_bytes = (ranks * "own 0".len()) as u64;
    let bytes = whole(ranks).len() as u64 + own_bytes;
    assert_eq!((summary.dataset.files, summary.dataset.bytes), (ranks as u64 + 1, bytes));
    let shared: Vec<_> = summary
        .files
        .iter()
        .flat_map(|(rank, all)| all.iter().map(|one| (*rank, one)))
        .filter(|(_, file)| file.is_shared)
        .collect();
    let [(0, file)] = shared[..] else { panic!("{shared:?}") };
    assert_eq!((file.name.as_str(), file.size), (WHOLE, whole(ranks).len() as u64));
    assert_eq!(file.part, None);
    assert!(list_prefix(&prefix).unwrap()[0].restorable);
    let outcome = cluster
        .launch("ab")
        .run(|ctx| transfer::verify_on_prefix(ctx, 1, Check::Contents).unwrap());
    let verified = outcome.results[0].as_ref().unwrap();
    assert_eq!((verified.names.len(), &verified.fault), (ranks + 1, &None));
    assert_eq!((verified.anew, &verified.remark), (false, &None));
    let crc32 = file.crc32;
    assert_eq!(verified.unchecked.files == 0, crc32.is_some(), "{:?}", verified.unchecked);
    crc32
}

fn always() -> PublishIf {
    Box::new(|_, publish| publish().map(|()| true))
}

/// Ways to the prefix.
type Flush = fn(&Ctx) -> Result<()>;

fn together(ctx: &Ctx) -> Result<()> {
    transfer::flush_sync(ctx, 1, &|_| false).map(drop)
}

fn by_threads(ctx: &Ctx) -> Result<()> {
    let mut flush = AsyncFlush::begin(ctx, 1, &|_| false, None, || (), always())?;
    loop {
        let seen = match ctx.world.rank() {
            0 => flush.advance(),
            _ => Advance::Pending,
        };
        let failed = matches!(seen, Advance::Failed(_)) || flush.is_unheard();
        let own = [u8::from(failed), u8::from(seen == Advance::Done)];
        let all = ctx.world.all_gather(&own)?;
        if all.iter().any(|one| one[0] == 1) {
            flush.abandon(ctx)?;
            return Err(Error::Stopped);
        }
        if all.iter().any(|one| one[1] == 1) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn each_its_own(ctx: &Ctx) -> Result<()> {
    let job = job(ctx, 1);
    if ctx.world.rank() == 0 {
        transfer::announce_background(ctx.prefix, &job.record, ctx.world.size(), 0)?;
    }
    ctx.world.barrier()?;
    let done = Background::start(job, || {}, always())?.finish();
    let all = ctx.world.all_gather(&[u8::from(done.is_ok())])?;
    done?;
    if all.iter().any(|one| one[0] == 0) {
        return Err(Error::Stopped);
    }
    assert!(ctx.prefix.join(WHOLE).exists(), "the last one gives it its name");
    if ctx.world.rank() == 0 {
        transfer::complete_background(ctx.prefix, 1, 0)?;
    }
    ctx.world.barrier()
}

const FLUSHES: [Flush; 3] = [together, by_threads, each_its_own];

#[test]
fn a_file_of_many_ranks_is_one_file_on_the_prefix() {
    for flush in FLUSHES {
        for live in [|_| true, |_| false, |rank| rank % 3 == 0] {
            let cluster = sealed(HOSTS, "XOR", live);
            cluster.launch(HOSTS).run(|ctx| {
                cache::rebuild(ctx, IDENTITY).unwrap();
                flush(ctx).unwrap();
            });
            check_prefix(&cluster, 4);
        }
    }
}

#[test]
fn the_parts_of_a_lost_node_are_files_of_their_own_and_go_the_same_way() {
    for (scheme, after) in [("PARTNER", "adc"), ("XOR", "adc"), ("XOR", "cba"), ("RS2", "ade")] {
        let cluster = sealed("abc", scheme, |_| true);
        let lost = "bc".chars().filter(|host| !after.contains(*host));
        lost.for_each(|host| cluster.lose(&host.to_string()));
        cluster.launch(after).run(|ctx| {
            let report = cache::rebuild(ctx, IDENTITY).unwrap();
            assert_eq!(offered_ids(&report), [1], "{scheme} {after}: {report:?}");
            together(ctx).unwrap();
        });
        check_prefix(&cluster, 3);
    }
}

/// The next start: completes or undoes what is begun, and flushes.
fn start(cluster: &Cluster, hosts: &str) {
    let outcome = cluster.launch(hosts).run(|ctx| {
        if ctx.world.rank() == 0 {
            transfer::settle_background(ctx.prefix, 0).unwrap();
        }
        ctx.world.barrier().unwrap();
        let report = transfer::recover_journal(ctx).unwrap();
        report.unfinished.iter().for_each(|id| transfer::roll_back(ctx, *id).unwrap());
        ctx.world.barrier().unwrap();
        let complete = list_prefix(ctx.prefix).unwrap().iter().any(|one| one.restorable);
        ctx.world.barrier().unwrap();
        complete
    });
    let complete = outcome.results[0].unwrap();
    let there = cluster.prefix().join("ckpt");
    let found = if there.exists() { files_below(&there) } else { Vec::new() };
    let staged = |path: &&PathBuf| path.to_string_lossy().contains(".scr-");
    assert_eq!(found.iter().find(staged), None);
    match complete {
        // What nobody has read since the seal has no checksum if the flush has died after it.
        true => {
            let (crc32, right) = (checked_prefix(cluster, hosts.len()), crc32(&whole(hosts.len())));
            assert!(crc32.is_none_or(|crc32| crc32 == right));
        }
        // Given up after the commit it may have its name, but never in part.
        false => {
            assert!(fs::read(there.join("10/all")).map_or(true, |all| all == whole(hosts.len())))
        }
    }
    cluster.launch(hosts).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        together(ctx).unwrap();
    });
    check_prefix(cluster, hosts.len());
}

#[test]
fn a_flush_may_fail_or_end_at_every_durable_step() {
    // One after another, so that the steps are the same each time.
    let options = Options { flush_width: 1, ..Options::default() };
    let hosts = "ab";
    for flush in FLUSHES {
        for for_good in [false, true] {
            for after in 0.. {
                let cluster = sealed(hosts, "XOR", |rank| rank != 1);
                let prefix = cluster.prefix();
                let fault = Fault { after, errno: [libc::EIO, libc::ENOSPC][after % 2], for_good };
                syncs::fail_below(&prefix, fault);
                let outcome = cluster.launch(hosts).transfer(options).run(|ctx| {
                    cache::rebuild(ctx, IDENTITY).unwrap();
                    flush(ctx).is_ok()
                });
                let steps = syncs::work_below(&prefix);
                let Some(step) = steps.get(after) else {
                    assert!(outcome.results.iter().all(|one| *one == Some(true)), "{steps:?}");
                    assert!(after > 20, "{steps:?}");
                    break;
                };
                let told = std::panic::catch_unwind(|| start(&cluster, hosts));
                assert!(told.is_ok(), "after {step} failed ({after}, {for_good})");
            }
        }
    }
}

#[test]
fn what_an_attempt_has_left_is_written_over() {
    let all = whole(4);
    let leftovers =
        [all[..1000].to_vec(), vec![0; all.len()], all.iter().map(|at| at | 1).collect()];
    for leftover in leftovers {
        let cluster = sealed(HOSTS, "PARTNER", |rank| rank != 1);
        let staged = transfer::staged_name("all", EPOCH);
        fs::create_dir_all(cluster.prefix().join("ckpt/10")).unwrap();
        // Bytes that are nobody's are never written.
        let of_nobody = |(at, byte)| owner(at / PIECE, 4).map_or(0, |_| byte);
        let leftover: Vec<u8> = leftover.into_iter().enumerate().map(of_nobody).collect();
        fs::write(cluster.prefix().join("ckpt/10").join(staged), leftover).unwrap();
        cluster.launch(HOSTS).run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            by_threads(ctx).unwrap();
        });
        check_prefix(&cluster, 4);
    }
}

#[test]
fn a_process_on_each_node_ends_what_the_program_has_left() {
    let cluster = sealed(HOSTS, "XOR", |rank| rank != 3);
    left_unfinished(&cluster, HOSTS, &[1]);
    let (prefix, free) = (cluster.prefix(), Options::default());
    for host in ["b", "a"] {
        let control = cluster.layout(host).control_dir;
        transfer::set_transfer_command(&control, TransferCommand::Run).unwrap();
        let staged = transfer::stage_node(&prefix, &control, &free, false).unwrap();
        assert!(staged.files >= 2 && staged.troubles.is_empty(), "{staged:?}");
        let done = transfer::complete(&prefix, &control, &free).unwrap();
        assert_eq!(done.done.len(), usize::from(host == "a"), "{done:?}");
    }
    check_prefix(&cluster, 4);
}

#[test]
fn what_one_rank_leaves_out_is_left_out_as_a_whole() {
    let cluster = sealed(HOSTS, "XOR", |_| true);
    fs::create_dir_all(cluster.prefix().join("ckpt/10")).unwrap();
    fs::write(cluster.prefix().join(WHOLE), "the program's").unwrap();
    cluster.launch(HOSTS).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let rank = ctx.world.rank();
        transfer::flush_sync(ctx, 1, &|name| name == WHOLE && rank == 2).unwrap();
    });
    assert_eq!(fs::read_to_string(cluster.prefix().join(WHOLE)).unwrap(), "the program's");
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 5);
}

#[test]
fn a_changed_byte_of_any_part_is_not_flushed_and_one_of_nobody_does_not_matter() {
    for (rank, live) in [(0, true), (1, false), (2, true), (3, false)] {
        let cluster = sealed(HOSTS, "XOR", |_| live);
        let name = if live { WHOLE.to_string() } else { FilePart::file_name(rank, WHOLE) };
        let dir = cluster.layout(&HOSTS[rank..=rank]).dataset_dir("ram", 1);
        let at = if live { extents(rank, 4).iter().next().unwrap().begin } else { 0 };
        let file = File::options().read(true).write(true).open(dir.join(&name)).unwrap();
        let flip = |at: u64| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        };
        cluster.launch(HOSTS).run(|ctx| {
            let by_first = |change: &dyn Fn()| {
                ctx.world.barrier().unwrap();
                if ctx.world.rank() == 0 {
                    change();
                }
                ctx.world.barrier().unwrap();
            };
            cache::rebuild(ctx, IDENTITY).unwrap();
            by_first(&|| flip(at));
            assert!(together(ctx).is_err(), "{rank}");
            assert!(!ctx.prefix.join(WHOLE).exists());
            by_first(&|| flip(at));
            by_first(&|| {
                if live {
                    flip(5 * PIECE as u64)
                }
            });
            together(ctx).unwrap();
        });
        check_prefix(&cluster, 4);
    }
}

#[test]
fn a_changed_byte_of_the_whole_is_found_wherever_it_is() {
    let cluster = sealed(HOSTS, "XOR", |_| true);
    cluster.launch(HOSTS).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        together(ctx).unwrap();
    });
    let (all, path) = (whole(4), cluster.prefix().join(WHOLE));
    for at in [0, 5 * PIECE, all.len() / 2, all.len() - 1] {
        let file = File::options().write(true).open(&path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        let write = |byte: u8| {
            file.write_all_at(&[byte], at as u64).unwrap();
            file.set_modified(modified).unwrap();
        };
        write(all[at] ^ 1);
        let listed = &list_prefix(&cluster.prefix()).unwrap()[0];
        let entry = IndexEntry { id: listed.id, ..IndexEntry::default() };
        let checked = transfer::check_files(&cluster.prefix(), &entry, true);
        assert!(checked.faults.iter().any(|fault| fault.contains(WHOLE)), "{at}: {checked:?}");
        let outcome = cluster
            .launch("abc")
            .run(|ctx| transfer::verify_on_prefix(ctx, 1, Check::Contents).unwrap());
        let fault = outcome.results[1].as_ref().unwrap().fault.clone().unwrap();
        assert!(fault.contains(WHOLE), "{at}: {fault}");
        write(all[at]);
    }
}

#[test]
fn a_restart_reads_it_where_it_is_and_fetches_the_rest() {
    let cluster = sealed(HOSTS, "XOR", |_| true);
    cluster.launch(HOSTS).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        together(ctx).unwrap();
    });
    let fetch = |cluster: &Cluster| {
        ["a", "b"].iter().for_each(|host| cluster.lose(host));
        let outcome = cluster.launch(HOSTS).run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            transfer::fetch(
                ctx,
                1,
                FetchStore { name: "ram", capacity: u64::MAX },
                &descriptor("XOR"),
            )
            .unwrap()
        });
        outcome.results.into_iter().next().flatten().unwrap()
    };
    let Fetched::Cached(offered) = fetch(&cluster) else { panic!("not fetched") };
    let places: Vec<_> =
        offered.files.iter().map(|file| (file.name.as_str(), file.on_prefix)).collect();
    assert_eq!(places, [("ckpt/10/rank_0", false), (WHOLE, true)]);
    let file = File::options().write(true).open(cluster.prefix().join(WHOLE)).unwrap();
    file.write_all_at(b"?", 1).unwrap();
    let Fetched::Fault(fault) = fetch(&cluster) else { panic!("not seen") };
    assert!(fault.contains(WHOLE), "{fault}");
}

fn identity(ranks: usize) -> String {
    format!("/p | {ranks} | ckpt=a/{{id}} | b")
}

#[test]
fn another_number_of_ranks_finds_the_whole_or_nothing() {
    for placement in ["ac", "aaacc", "adcadca"] {
        for spoil in [false, true] {
            let cluster = Cluster::new();
            cluster.launch("abc").run(|ctx| {
                cache::rebuild(ctx, &identity(3)).unwrap();
                seal(ctx, "XOR", |rank| rank != 2).unwrap();
            });
            cluster.lose("b");
            if spoil {
                let dir = cluster.layout("a").dataset_dir("ram", 1);
                let mut catalog = cache::Catalog::read(&dir).unwrap().unwrap();
                let part = catalog.entries.iter_mut().find(|one| one.meta.part.is_some());
                part.unwrap().meta.size += 1;
                for host in ["a", "c"] {
                    let dir = cluster.layout(host).dataset_dir("ram", 1);
                    catalog.to_tree().write_file(dir.join(".scr/catalog.scr")).unwrap();
                }
            }
            let outcome = cluster.launch(placement).run(|ctx| {
                let identity = identity(placement.len());
                transfer::publish_other_size(ctx, &identity, &|| ()).unwrap().unwrap()
            });
            let found = outcome.results[0].as_ref().unwrap();
            let published: Vec<u64> = found.published.iter().map(|one| one.0).collect();
            match spoil {
                false => {
                    assert_eq!(published, [1], "{placement}: {found:?}");
                    check_prefix(&cluster, 3);
                }
                true => {
                    assert!(published.is_empty(), "{placement}");
                    assert!(found.withheld[0].2.contains("not all parts"), "{found:?}");
                    assert!(!cluster.prefix().join(WHOLE).exists());
                }
            }
        }
    }
}

/// VERSION, and the keys, of each node's launch file.
fn launch_files(cluster: &Cluster, hosts: &str) -> Vec<(u64, Vec<String>)> {
    let read = |host: char| {
        let path = cluster.layout(&host.to_string()).control_dir.join("launch.scr");
        let tree = KvTree::read_file(path).unwrap().unwrap();
        (tree.get_u64("VERSION").unwrap(), tree.keys().map(str::to_owned).collect())
    };
    hosts.chars().map(read).collect()
}

#[test]
fn a_version_that_knows_no_parts_takes_the_cache_for_that_of_another_run() {
    let plain = (1, vec!["IDENTITY".to_owned(), "VERSION".to_owned()]);
    let with_parts = (2, vec!["RUN".to_owned(), "VERSION".to_owned()]);
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[5], "XOR");
    assert_eq!(launch_files(&cluster, "ab"), [plain.clone(), plain.clone()]);
    let next = |hosts: &str, body: &(dyn Fn(&Ctx) + Sync)| {
        let outcome = cluster.launch(hosts).run(|ctx| {
            let report = cache::rebuild(ctx, IDENTITY).unwrap();
            body(ctx);
            report
        });
        outcome.results.into_iter().next().flatten().unwrap()
    };
    next("ab", &|ctx| seal(ctx, "XOR", |_| true).unwrap());
    assert_eq!(launch_files(&cluster, "ab"), [with_parts.clone(), with_parts.clone()]);
    // The next launch knows it, also on a node that the parts are brought to.
    cluster.lose("b");
    let report = next("ac", &|_| {});
    assert_eq!((offered_ids(&report), report.takeover), (vec![1, 5], Takeover::Ours));
    assert_eq!(launch_files(&cluster, "ac"), [with_parts.clone(), with_parts]);
    next("ac", &|ctx| cache::evict(ctx, 1).unwrap());
    // The first start finds that the record is of nothing.
    next("ac", &|_| {});
    let report = next("ac", &|_| {});
    assert_eq!(offered_ids(&report), [5]);
    assert_eq!(launch_files(&cluster, "ac"), [plain.clone(), plain]);
}

#[test]
fn the_cache_of_a_newer_version_is_left_alone() {
    let cluster = sealed("ab", "XOR", |_| true);
    for host in ["a", "b"] {
        let path = cluster.layout(host).control_dir.join("launch.scr");
        let mut tree = KvTree::read_file(&path).unwrap().unwrap();
        tree.set_value("VERSION", 3);
        tree.write_file(path).unwrap();
    }
    let before = tree_of(&cluster.node(""));
    let outcome = cluster.launch("ab").run(|ctx| cache::rebuild(ctx, IDENTITY).unwrap().takeover);
    let hosts = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(outcome.results[0], Some(Takeover::Foreign { hosts }));
    assert!(tree_of(&cluster.node("")) == before);
}
