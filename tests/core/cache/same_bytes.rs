//! What the commands make of a dataset is byte for byte what the engine makes of it.
//!
//! Two things differ by nature, and nothing else: FLUSHED in the index is the second in which that
//! copy was made; and CREATED stands in neither for datasets of these tests, which no session has
//! sealed, so it is given here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use scr_core::cache::{self, SealRequest};
use scr_core::operations::{add_dataset, build_index, drop_datasets};
use scr_core::records::{FileMeta, PrefixIndex, Record as _, Timestamp};
use scr_core::transfer::{Which, copy_remains, flush_sync, publish_remains};

use super::cluster::Cluster;
use super::found::{copy, identity, publish, tree};
use super::job::Dataset;

/// Checkpoints 1 to `count`, of so many files of rank 0, on nodes a, b and c.
fn sealed(scheme: (&'static str, usize), files: usize, count: u64) -> (Cluster, Vec<Dataset>) {
    let cluster = Cluster::new();
    let sizes = vec![vec![7; files], vec![100, 0], vec![3000]];
    let one =
        |id| Dataset { id, scheme, set_size: 3, group: "NODE", store: "ram", sizes: sizes.clone() };
    let all: Vec<Dataset> = (1..=count).map(one).collect();
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, &identity(3)).unwrap();
        all.iter().for_each(|dataset| seal(ctx, dataset));
    });
    (cluster, all)
}

/// As a session does it: with the tags of a checkpoint.
fn seal(ctx: &cache::Ctx, dataset: &Dataset) {
    let files = dataset.content(ctx.world.rank());
    let dir = ctx.layout.open_dir("ram", &dataset.key());
    for (name, bytes) in &files {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), bytes).unwrap();
    }
    let (set, descriptor) = ctx.protection.choose(&dataset.descriptor()).unwrap();
    let tags = [("CKPT", dataset.id.to_string()), ("CREATED", "1300000000".into())];
    let tags: BTreeMap<String, String> =
        tags.into_iter().chain([("JOBID", "77".into())]).map(|(k, v)| (k.to_owned(), v)).collect();
    let meta = |name: &String| FileMeta { name: name.clone(), ..FileMeta::default() };
    let request = SealRequest {
        key: &dataset.key(),
        id: dataset.id,
        epoch: 0xf00 + dataset.id,
        store: "ram",
        files: files.keys().map(meta).collect(),
        tags,
        gone: BTreeMap::new(),
        set: &set,
        descriptor: &descriptor,
    };
    let prepared = cache::prepare(ctx, request, None, &|action| action().map(|()| true)).unwrap();
    cache::commit(ctx, &prepared, true).unwrap();
}

/// Another cluster with the same caches; its prefix is empty.
fn twin(cluster: &Cluster, hosts: &str) -> Cluster {
    let other = Cluster::new();
    for host in hosts.chars().map(String::from) {
        copy(&cluster.node(&host), &other.node(&host));
    }
    other
}

/// What the prefix has: the program's files, summary and maps, by their paths; the index with one
/// time for all copies.
fn made(prefix: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut index = PrefixIndex::read(&prefix.join(".scr/index.scr")).unwrap().unwrap();
    let all: Vec<_> = index.newest_first().cloned().collect();
    for mut entry in all {
        assert!(entry.flushed.is_some());
        entry.flushed = Some(Timestamp::from_unix_seconds(1_300_000_000));
        index.insert(entry);
    }
    let same_time = prefix.join("index with one time");
    index.write(&same_time).unwrap();
    let left_out = ["index.scr", "flush.scr", "lease"];
    let is_one = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        !left_out.contains(&&*name) && !name.ends_with(".lock")
    };
    let files = tree(prefix).into_iter().filter(|(path, _)| is_one(path));
    let relative = |path: PathBuf| path.strip_prefix(prefix).unwrap().to_path_buf();
    let files: BTreeMap<_, _> = files.map(|(path, bytes)| (relative(path), bytes)).collect();
    fs::remove_file(same_time).unwrap();
    files
}

fn assert_same(what: &str, engine: &Path, command: &Path) {
    let (engine, command) = (made(engine), made(command));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&engine), names(&command), "{what}");
    for (name, bytes) in &engine {
        assert!(command[name] == *bytes, "{what}: {} differs", name.display());
    }
}

/// What the engine makes of it, on the prefix of `cluster`.
fn flush(cluster: &Cluster, datasets: &[Dataset]) {
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, &identity(3)).unwrap();
        datasets.iter().for_each(|one| drop(flush_sync(ctx, one.id, &|_| false).unwrap()));
    });
    let summary = |one: &Dataset| format!(".scr/scr.dataset.{}/summary.scr", one.id);
    assert!(datasets.iter().all(|one| cluster.prefix().join(summary(one)).exists()));
}

/// What `scr scavenge` makes of the copies of these nodes, on the prefix of `cluster`.
fn scavenge(cluster: &Cluster, hosts: &str) {
    let folder = cluster.prefix().join(".scr/scavenge");
    for host in hosts.chars().map(String::from) {
        copy_remains(&cluster.layout(&host), &folder, &host, &|_| true).unwrap();
    }
    cluster.launch("z").run(|ctx| {
        let done = publish_remains(ctx, &folder, Which::All, &|| {}).unwrap().unwrap();
        assert_eq!(done.withheld, []);
    });
    fs::remove_dir_all(folder).unwrap();
}

/// What `scr index build` makes of the prefix of another cluster, whose index is lost.
fn index_anew(prefix: &Path) -> Cluster {
    let other = Cluster::new();
    copy(prefix, &other.prefix());
    fs::remove_file(other.prefix().join(".scr/index.scr")).unwrap();
    build_index(&other.prefix()).unwrap();
    other
}

#[test]
fn scavenge_rebuild_and_index_make_what_the_engine_makes() {
    for (scheme, files) in [(("XOR", 1), 3), (("PARTNER", 1), 2), (("RS", 2), 1)] {
        let (cluster, datasets) = sealed(scheme, files, 2);
        // Of three nodes one is lost.
        let [scavenged, rebuilt, merged] = [(); 3].map(|()| twin(&cluster, "ac"));
        flush(&cluster, &datasets);
        let engine = cluster.prefix();
        scavenge(&scavenged, "ac");
        assert_same("scavenge", &engine, &scavenged.prefix());
        // From whole nodes, and from their datasets alone.
        publish(&rebuilt, &[rebuilt.node("")], Which::All).unwrap().unwrap();
        assert_same("rebuild", &engine, &rebuilt.prefix());
        let dirs = ["a", "c"].map(|host| merged.node(host).join("ram"));
        publish(&merged, &dirs, Which::All).unwrap().unwrap();
        assert_same("rebuild without records", &engine, &merged.prefix());

        let other = index_anew(&engine);
        assert_same("index build", &engine, &other.prefix());
        for (id, name) in [("1", "scr.dataset.1"), ("2", "ckpt.20")] {
            drop_datasets(&other.prefix(), id, false).unwrap();
            add_dataset(&other.prefix(), name).unwrap();
        }
        assert_same("index add", &engine, &other.prefix());
    }
}

#[test]
fn the_maps_of_a_dataset_of_many_files_are_the_same_too() {
    let (cluster, datasets) = sealed(("XOR", 1), 4094, 1);
    let scavenged = twin(&cluster, "ac");
    flush(&cluster, &datasets);
    assert!(cluster.prefix().join(".scr/scr.dataset.1/rank2file.1.scr").exists());
    scavenge(&scavenged, "ac");
    assert_same("scavenge", &cluster.prefix(), &scavenged.prefix());
    assert_same("index build", &cluster.prefix(), &index_anew(&cluster.prefix()).prefix());
}
