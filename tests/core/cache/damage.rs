//! Any single file that is damaged, in any way: the restart gets the dataset back from its
//! redundancy, or an older one, never another content, and it ends.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use scr_core::cache;
use scr_core::transfer::{self, Background, BackgroundJob, Check, PublishIf};

use super::background::killed_before_the_commit;
use super::cluster::{Cluster, IDENTITY, check_files, content, offered_ids, run_and_seal};
use super::flush::{files_below, killed_before_the_renames};
use super::job::{Dataset, restart, run};

const HOSTS: &str = "abcd";
/// A restart takes milliseconds; a hang takes for ever.
const LIMIT: Duration = Duration::from_secs(300);

pub type Strike = fn(&Path);

/// What can happen to a file.
pub const KINDS: [(&str, Strike); 11] = [
    ("first byte", |path| flip(path, |_| 0)),
    ("middle byte", |path| flip(path, |length| length / 2)),
    ("last byte", |path| flip(path, |length| length - 1)),
    ("cut in half", |path| cut(path, |length| length / 2)),
    ("cut by one", |path| cut(path, |length| length.saturating_sub(1))),
    ("emptied", |path| cut(path, |_| 0)),
    ("longer", |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.push(7);
        fs::write(path, bytes).unwrap();
    }),
    ("garbage", |path| fs::write(path, [0xff; 40]).unwrap()),
    ("missing", |path| fs::remove_file(path).unwrap()),
    ("a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
        fs::write(path.join("x"), "x").unwrap();
    }),
    ("a link to nowhere", |path| {
        fs::remove_file(path).unwrap();
        symlink("nowhere", path).unwrap();
    }),
];

fn flip(path: &Path, at: fn(usize) -> usize) {
    let mut bytes = fs::read(path).unwrap();
    if !bytes.is_empty() {
        let at = at(bytes.len());
        bytes[at] ^= 0x40;
        fs::write(path, bytes).unwrap();
    }
}

fn cut(path: &Path, length: fn(u64) -> u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

/// Damages every one of `files` in every way; `look` sees a fresh copy each time and panics if it
/// does not like what it sees.
fn sweep(cluster: &Cluster, files: &[PathBuf], look: impl Fn(&Path, &str)) {
    assert!(files.len() > 4, "{files:?}");
    let (saved, mut wrong) = (Saved::of(cluster), Vec::new());
    for path in files {
        for (kind, damage) in KINDS {
            saved.restore(cluster);
            damage(path);
            let what = format!("{}: {kind}", path.display());
            if catch_unwind(AssertUnwindSafe(|| look(path, &what))).is_err() {
                wrong.push(what);
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs `body` on a thread of its own; a hang fails the test.
fn in_time(what: &str, body: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    let in_time = wait.recv_timeout(LIMIT) != Err(mpsc::RecvTimeoutError::Timeout);
    assert!(in_time, "{what}: hangs");
    assert!(worker.join().is_ok(), "{what}: see above");
}

/// A copy of nodes and prefix that each case begins with.
struct Saved(PathBuf);

impl Saved {
    fn of(cluster: &Cluster) -> Saved {
        let saved = Saved(cluster.prefix().with_file_name("saved"));
        Saved::places(cluster).iter().for_each(|(name, place)| copy(place, &saved.0.join(name)));
        saved
    }

    fn restore(&self, cluster: &Cluster) {
        for (name, place) in Saved::places(cluster) {
            fs::remove_dir_all(&place).unwrap();
            copy(&self.0.join(name), &place);
        }
    }

    /// Prefix, nodes, and the store that all of them reach, if there is one.
    fn places(cluster: &Cluster) -> Vec<(&'static str, PathBuf)> {
        let root = cluster.prefix().parent().unwrap().to_path_buf();
        let all = ["prefix", "nodes", "bb"].map(|name| (name, root.join(name)));
        all.into_iter().filter(|(_, place)| place.exists()).collect()
    }
}

/// Times stay: they tell a file from an older one of its name.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

/// Every file on `nodes` damaged in every way; the rank of node `c` has two files.
fn sweep_cache(scheme: &'static str, nodes: &'static [&'static str]) {
    in_time(scheme, move || {
        let cluster = Cluster::new();
        run_and_seal(&cluster, HOSTS, &[1, 2], scheme);
        let files: Vec<_> =
            nodes.iter().flat_map(|host| files_below(&cluster.node(host))).collect();
        sweep(&cluster, &files, |path, what| {
            let report = cluster.restart(HOSTS);
            let offered = offered_ids(&report);
            let of_second = path.components().any(|part| part.as_os_str() == "scr.dataset.2");
            match scheme {
                "SINGLE" if of_second => assert!(offered.contains(&1), "{what}: {report:?}"),
                "SINGLE" => {}
                _ => assert_eq!(offered, [1, 2], "{what}: {report:?}"),
            }
            // What was found is as good as before: the same again.
            assert_eq!(offered_ids(&cluster.restart(HOSTS)), offered, "{what}");
        });
    });
}

#[test]
fn any_damage_to_one_file_in_the_cache_single() {
    sweep_cache("SINGLE", &["c"]);
}

#[test]
fn any_damage_to_one_file_in_the_cache_partner() {
    sweep_cache("PARTNER", &["c"]);
}

#[test]
fn any_damage_to_one_file_in_the_cache_xor() {
    sweep_cache("XOR", &["a", "c"]);
}

#[test]
fn any_damage_to_one_file_in_the_cache_rs() {
    sweep_cache("RS2", &["c"]);
}

/// A node is lost, and of what the rebuild begins with a file is damaged.
fn sweep_beside_a_lost_node(scheme: &'static str, bears_both: bool) {
    in_time(scheme, move || {
        let cluster = Cluster::new();
        run_and_seal(&cluster, HOSTS, &[1, 2], scheme);
        let files = files_below(&cluster.node("c"));
        sweep(&cluster, &files, |path, what| {
            cluster.lose("b");
            let report = cluster.restart("aecd");
            let offered = offered_ids(&report);
            let of = |id: u64| path.to_string_lossy().contains(&format!("scr.dataset.{id}/"));
            for id in [1, 2].into_iter().filter(|id| bears_both || (of(3 - id) && !of(*id))) {
                assert!(offered.contains(&id), "{what}: {report:?}");
            }
            let all = report.offered.iter().all(|one| one.rebuilt.contains(&1));
            assert!(all, "{what}: {report:?}");
            assert_eq!(offered_ids(&cluster.restart("aecd")), offered, "{what}");
        });
    });
}

#[test]
fn any_damage_to_one_file_beside_a_lost_node_xor() {
    sweep_beside_a_lost_node("XOR", false);
}

#[test]
fn any_damage_to_one_file_beside_a_lost_node_rs() {
    sweep_beside_a_lost_node("RS2", true);
}

/// All nodes are gone: what a store that all reach says of itself is all that is known.
#[test]
fn any_damage_to_a_file_of_ours_in_a_shared_store() {
    in_time("shared store", || {
        let cluster = Cluster::with_more_stores();
        let sizes = vec![vec![3000], vec![], vec![10, 0], vec![2000]];
        let dataset = |id| Dataset {
            id,
            scheme: ("XOR", 1),
            set_size: 4,
            group: "NODE",
            store: "bb",
            sizes: sizes.clone(),
        };
        let all = [dataset(1), dataset(2)];
        run(&cluster, "abcd", &all);
        "abcd".chars().for_each(|host| cluster.lose(&host.to_string()));
        let mut files = files_below(&cluster.layout("a").stores[2].cache_dir);
        // One dataset is like the other.
        files.retain(|path| !path.to_string_lossy().contains("scr.dataset.1"));
        files.retain(|path| !path.to_string_lossy().contains("/rank_"));
        sweep(&cluster, &files, |_, what| {
            let report = restart(&cluster, "efgh", &all);
            assert!(offered_ids(&report).contains(&1), "{what}: {report:?}");
        });
    });
}

/// As a start does with the prefix: completes what was under way, repairs, lists, verifies. Returns
/// the ids that are good, newest first.
fn good_on_prefix(cluster: &Cluster) -> Vec<u64> {
    let outcome = cluster.launch(HOSTS).run(|ctx| {
        transfer::recover_journal(ctx).unwrap();
        if ctx.world.rank() == 0 {
            transfer::repair_prefix(ctx.prefix).unwrap();
        }
        ctx.world.barrier().unwrap();
        cache::rebuild(ctx, IDENTITY).unwrap();
        let listed = transfer::list_prefix(ctx.prefix).unwrap();
        ctx.world.barrier().unwrap();
        let mut good = Vec::new();
        for one in listed.iter().filter(|one| one.restorable) {
            let found = transfer::verify_on_prefix(ctx, one.id, Check::Contents).unwrap();
            if found.fault.is_none() && !found.gone {
                check_files(ctx.prefix, &content(one.id * 10, ctx.world.rank()));
                good.push(one.id);
            }
        }
        // The next checkpoint gets there all the same.
        transfer::flush_sync(ctx, 3, &|_| false).unwrap();
        check_files(ctx.prefix, &content(30, ctx.world.rank()));
        good
    });
    let mut results = outcome.results.into_iter().map(Option::unwrap);
    let first = results.next().unwrap();
    assert!(results.all(|other| other == first));
    first
}

#[test]
fn any_damage_to_one_file_on_the_prefix() {
    in_time("prefix", || {
        let cluster = Cluster::new();
        run_and_seal(&cluster, HOSTS, &[1, 2, 3], "SINGLE");
        cluster.launch(HOSTS).run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            (1..=2).for_each(|id| drop(transfer::flush_sync(ctx, id, &|_| false).unwrap()));
        });
        sweep(&cluster, &files_below(&cluster.prefix()), |path, what| {
            let good = good_on_prefix(&cluster);
            let text = path.to_string_lossy();
            let of = |id: u64| {
                let places = [format!("/ckpt/{id}0/"), format!("scr.dataset.{id}/")];
                places.iter().any(|part| text.contains(part))
            };
            assert!([1, 2].iter().all(|id| of(*id) || good.contains(id)), "{what}: {good:?}");
        });
    });
}

/// Every file of an interrupted flush's journal damaged in every way: the start goes on, and the
/// dataset gets to the prefix, by this start or by the next flush. `kept` says what the start must
/// complete all the same.
fn sweep_journal(interrupt: fn(&Cluster), kept: fn(&Path, &str) -> bool) {
    in_time("journal", move || {
        let cluster = Cluster::new();
        interrupt(&cluster);
        let journal = cluster.prefix().join(".scr/journal");
        sweep(&cluster, &files_below(&journal), |path, what| {
            let outcome = cluster.launch(HOSTS).run(|ctx| {
                let report = transfer::recover_journal(ctx).unwrap();
                cache::rebuild(ctx, IDENTITY).unwrap();
                report.unfinished.iter().for_each(|id| transfer::roll_back(ctx, *id).unwrap());
                let good = transfer::list_prefix(ctx.prefix).unwrap().iter().any(|d| d.restorable);
                assert_eq!(good, report.completed == [1], "{what}: {report:?}");
                ctx.world.barrier().unwrap();
                if !good {
                    transfer::flush_sync(ctx, 1, &|_| false).unwrap();
                }
                check_files(ctx.prefix, &content(10, ctx.world.rank()));
                good
            });
            assert!(outcome.results[0] == Some(true) || !kept(path, what), "{what}");
            assert!(transfer::list_prefix(&cluster.prefix()).unwrap()[0].restorable, "{what}");
            assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 4, "{what}");
            assert!(files_below(&journal).is_empty(), "{what}");
        });
    });
}

/// A part, or a file that is not there any more, may be missed.
fn is_missed(path: &Path, what: &str) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.starts_with("part.") || what.ends_with("missing") || what.ends_with("nowhere")
}

#[test]
fn any_damage_to_the_journal_of_a_committed_flush() {
    let interrupt = |cluster: &Cluster| drop(killed_before_the_renames(cluster, HOSTS));
    sweep_journal(interrupt, |path, what| !is_missed(path, what));
}

#[test]
fn any_damage_to_the_journal_of_a_flush_in_the_background() {
    sweep_journal(
        |cluster| killed_before_the_commit(cluster, HOSTS),
        |path, what| !is_missed(path, what),
    );
}

/// The marks of files that other nodes have waited for, when nobody has entered the dataset in the
/// index before the end: the start enters it, or takes no notice of what is there.
#[test]
fn any_damage_to_the_marks_of_what_was_waited_for() {
    in_time("marks", || {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "abcde", &[1], "XOR");
        cluster.launch("abcde").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            let job = BackgroundJob {
                record: ctx.filemap.get_id(1).unwrap(),
                rank: ctx.world.rank(),
                world_size: ctx.world.size(),
                prefix: ctx.prefix.to_path_buf(),
                width: 5,
            };
            let always: PublishIf = Box::new(|_, publish| publish().map(|()| true));
            Background::start(job, || {}, always).unwrap().finish().unwrap();
        });
        let marks = cluster.prefix().join(".scr/background");
        sweep(&cluster, &files_below(&marks), |_, what| {
            cluster.launch("abcde").run(|ctx| {
                let entered = match ctx.world.rank() {
                    0 => transfer::settle_background(ctx.prefix, 0).unwrap(),
                    _ => vec![],
                };
                assert!(entered.is_empty(), "{what}: a rank has no mark");
                cache::rebuild(ctx, IDENTITY).unwrap();
                transfer::flush_sync(ctx, 1, &|_| false).unwrap();
                check_files(ctx.prefix, &content(10, ctx.world.rank()));
            });
            assert!(transfer::background_ids(&cluster.prefix()).unwrap().is_empty(), "{what}");
        });
    });
}

/// What a start that protects all anew for another placement has in hand: files below the
/// directories of the new encoding, and records that tell two encodings.
fn being_encoded(cluster: &Cluster) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let nodes = ["a", "b"].map(|host| files_below(&cluster.node(host))).concat();
    let told =
        |path: &PathBuf| fs::read(path).unwrap().windows(7).any(|seven| seven == b"BEFORE\0");
    let is_next = |path: &PathBuf| path.to_string_lossy().contains("/.scr/next.");
    let is_record = |path: &PathBuf| path.to_string_lossy().contains("/filemap_");
    let next = nodes.iter().filter(|path| is_next(path)).cloned().collect();
    (next, nodes.iter().filter(|path| is_record(path) && told(path)).cloned().collect())
}

/// Such a start in which rank 2 dies at a `call`; `None` if it ends before.
fn killed_while_encoding_again(call: usize) -> Option<Cluster> {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "XOR");
    let launch = cluster.launch("abab").kill(2, call);
    let outcome = launch.run(|ctx| drop(cache::rebuild(ctx, IDENTITY)));
    outcome.results.iter().any(Option::is_none).then_some(cluster)
}

/// The first death with the new redundancy files half made, those with some and with all records
/// telling of both encodings, and with some that have given up the old one.
#[test]
fn any_damage_while_a_dataset_is_protected_anew() {
    in_time("encoded again", || {
        let mut seen = BTreeSet::new();
        for cluster in (0..).map_while(killed_while_encoding_again) {
            let (mut files, records) = being_encoded(&cluster);
            let made = files.iter().filter(|path| path.extension().is_some_and(|e| e == "xor"));
            let stage = (made.count(), records.len());
            if stage.0 == 0 || files.len() < 5 || !seen.insert(stage) {
                continue;
            }
            files.extend(records);
            sweep(&cluster, &files, |_, what| {
                let offered = offered_ids(&cluster.restart("abab"));
                assert_eq!(offered, [1], "{what}");
                assert!(being_encoded(&cluster).0.is_empty(), "{what}");
                // Protected: a node may go.
                cluster.lose("b");
                assert_eq!(offered_ids(&cluster.restart("acac")), [1], "{what}");
            });
        }
        assert!(seen.len() > 2 && seen.iter().any(|stage| stage.1 > 0), "{seen:?}");
    });
}
