//! Nodes as directories: a launch is a world of threads, each rank on a node of its choice; a node
//! that dies loses its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use scr_core::cache::{
    self, Address, Ctx, FilemapFile, Layout, Offered, Owner, Prepared, Protect, RebuildReport,
    SealRequest, Sharing, Store,
};
use scr_core::comm::Comm;
use scr_core::comm::threads::{ThreadWorld, WorldOutcome};
use scr_core::descriptors::choose_sets;
use scr_core::error::Result;
use scr_core::kvtree::KvTree;
use scr_core::records::{FileMeta, RecordKey};
use scr_core::redundancy::{RedundancySet, Scheme, scheme_by_name};
use scr_core::transfer::Options;
use tempfile::TempDir;

/// What all launches of the tests share.
pub const IDENTITY: &str = "prefix=/p size=any patterns=x";

/// User and job of nodes with real names.
pub const JOB: (&str, &str) = ("me", "7");

/// A prefix and nodes, in a directory that goes away with it.
pub struct Cluster {
    root: TempDir,
    more_stores: bool,
    as_settings_say: bool,
}

/// A launch that is to come.
pub struct Launch<'a> {
    cluster: &'a Cluster,
    hosts: Vec<String>,
    kill: Option<(usize, usize)>,
    transfer: Options,
    /// What all its ranks have and no other launch: a dead one's looks at stores are not its own.
    number: u64,
}

impl Cluster {
    pub fn new() -> Cluster {
        // On a RAM disk an fsync costs nothing, and there are thousands.
        Cluster::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    /// All nodes and the prefix are in `root`.
    pub fn at(root: TempDir) -> Cluster {
        fs::create_dir(root.path().join("prefix")).unwrap();
        Cluster { root, more_stores: false, as_settings_say: false }
    }

    /// Nodes have a second store, `ssd`, and all reach a third, `bb`.
    pub fn with_more_stores() -> Cluster {
        Cluster { more_stores: true, ..Cluster::new() }
    }

    /// Each node has the directories of job `JOB` where settings with [`Cluster::base`] say, below
    /// a root of its own.
    pub fn with_real_names() -> Cluster {
        Cluster { as_settings_say: true, ..Cluster::new() }
    }

    pub fn prefix(&self) -> PathBuf {
        self.root.path().join("prefix")
    }

    /// Where a node of [`Cluster::with_real_names`] sees its own directories.
    pub fn base(&self) -> PathBuf {
        self.root.path().join("base")
    }

    /// Name of the first store.
    pub fn store(&self) -> String {
        match self.as_settings_say {
            true => self.base().join("cache").display().to_string(),
            false => "ram".to_owned(),
        }
    }

    pub fn node(&self, host: &str) -> PathBuf {
        self.root.path().join("nodes").join(host)
    }

    /// Everything that was on the node is gone.
    pub fn lose(&self, host: &str) {
        // A rank that died first may never have made it.
        let _ = fs::remove_dir_all(self.node(host));
        assert!(!self.node(host).exists());
    }

    /// The node goes away and can come back as it was.
    pub fn unplug(&self, host: &str) {
        fs::rename(self.node(host), self.root.path().join(host)).unwrap();
    }

    pub fn plug_in(&self, host: &str) {
        let _ = fs::remove_dir_all(self.node(host));
        fs::rename(self.root.path().join(host), self.node(host)).unwrap();
    }

    pub fn layout(&self, host: &str) -> Layout {
        let node = self.node(host);
        if self.as_settings_say {
            let control = self.base().join("control");
            let address = Address::new(JOB.0, JOB.1, &self.prefix());
            return Layout::new(&node, &control, &[self.store()], &address);
        }
        let store = |name: &str, dir: PathBuf| {
            let (name, cache_dir) = (name.to_owned(), dir.join(name));
            Store { is_shared: name == "bb", name, cache_dir, usable: true }
        };
        let mut stores = vec![store("ram", node.clone())];
        if self.more_stores {
            stores.push(store("ssd", node.clone()));
            stores.push(store("bb", self.root.path().to_path_buf()));
        }
        Layout { control_dir: node.join("control"), stores, owner: Owner::default() }
    }

    /// Rank i runs on the i-th of `hosts`, which are letters.
    pub fn launch(&self, hosts: &str) -> Launch<'_> {
        let hosts = hosts.chars().map(String::from).collect();
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Launch { cluster: self, hosts, kill: None, transfer: Options::default(), number }
    }

    /// Restarts on `hosts` and checks the content of everything that is offered.
    pub fn restart(&self, hosts: &str) -> RebuildReport {
        let outcome = self.launch(hosts).run(|ctx| {
            let report = cache::rebuild(ctx, IDENTITY).unwrap();
            report.offered.iter().for_each(|offered| check(ctx, offered));
            report
        });
        outcome.results.into_iter().flatten().next().unwrap()
    }

    /// Names of dataset directories on a node.
    pub fn datasets(&self, host: &str) -> Vec<String> {
        let dir = &self.layout(host).stores[0].cache_dir;
        let mut names: Vec<String> = fs::read_dir(dir)
            .map(|entries| entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.retain(|name| !cache::Evicted::is_folder(name)); // put aside: none any more
        names.sort();
        names
    }
}

impl Launch<'_> {
    /// Kills `rank` instead of its communication call number `call`.
    pub fn kill(mut self, rank: usize, call: usize) -> Self {
        self.kill = Some((rank, call));
        self
    }

    /// Flushes go by these settings.
    pub fn transfer(mut self, options: Options) -> Self {
        self.transfer = options;
        self
    }

    pub fn run<T: Send>(self, body: impl Fn(&Ctx) -> T + Sync) -> WorldOutcome<T> {
        let mut world = ThreadWorld::new(self.hosts.len());
        if let Some((rank, call)) = self.kill {
            world = world.kill_after(rank, call);
        }
        // A death during the set-up below is an outcome like any other: no result.
        let outcome = world.run(|comm| self.run_rank(&*comm, &body).ok());
        let results = outcome.results.into_iter().map(Option::flatten).collect();
        WorldOutcome { results, calls: outcome.calls }
    }

    fn run_rank<T>(&self, world: &dyn Comm, body: &impl Fn(&Ctx) -> T) -> Result<T> {
        let me = world.rank();
        let host = &self.hosts[me];
        let first = self.hosts.iter().position(|other| other == host).unwrap();
        let node = world.split(first as i64, me as i64)?.unwrap();
        let leaders = world.split(if node.rank() == 0 { 0 } else { -1 }, me as i64)?;
        let node_ranks: Vec<usize> =
            (0..self.hosts.len()).filter(|rank| self.hosts[*rank] == *host).collect();
        let layout = self.cluster.layout(host);
        fs::create_dir_all(&layout.control_dir).unwrap();
        for store in &layout.stores {
            fs::create_dir_all(&store.cache_dir).unwrap();
        }
        let meet = || world.barrier();
        let (sharing, ()) = Sharing::observe(world, node_ranks[0], &layout, self.number, meet)?;
        let filemap = FilemapFile::new(&layout, node.rank(), me);
        let protection =
            Sets { world: world.split(0, me as i64)?.unwrap(), hosts: self.hosts.clone() };
        let ctx = Ctx {
            world,
            node: &*node,
            node_ranks: &node_ranks,
            leaders: leaders.as_deref(),
            host,
            layout: &layout,
            sharing: &sharing,
            filemap: &filemap,
            transfer: self.transfer,
            prefix: &self.cluster.prefix(),
            protection: &protection,
        };
        Ok(body(&ctx))
    }
}

/// Sets across hosts.
pub struct Sets {
    world: Box<dyn Comm>,
    hosts: Vec<String>,
}

impl Protect for Sets {
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme> {
        scheme_by_name(type_name).map(|scheme| scheme as &dyn Scheme)
    }

    fn choose(&self, descriptor: &KvTree) -> Result<(RedundancySet, KvTree)> {
        let me = self.world.rank();
        let sets = sets(&self.hosts, descriptor);
        let number = sets.iter().position(|set| set.contains(&me)).unwrap();
        let world_ranks = sets[number].clone();
        let set = RedundancySet {
            comm: self.world.split(number as i64, me as i64)?.unwrap().into(),
            hosts: world_ranks.iter().map(|rank| self.hosts[*rank].clone()).collect(),
            group_id: world_ranks[0],
            world_size: self.world.size(),
            failures: descriptor.parse("SET_FAILURES").unwrap_or(1),
            piece_bytes: self.piece_bytes(),
            world_ranks,
        };
        Ok((set, descriptor.clone()))
    }

    fn piece_bytes(&self) -> usize {
        128 << 10
    }

    fn is_spread(&self, descriptor: &KvTree, world_ranks: &[usize]) -> bool {
        let all = groups(&self.hosts, descriptor);
        let taken: BTreeSet<_> = world_ranks.iter().map(|rank| &all[*rank]).collect();
        let failures = descriptor.parse("SET_FAILURES").unwrap_or(1);
        let first = world_ranks.first();
        let could_be = sets(&self.hosts, descriptor).into_iter();
        let could_be = could_be.filter(|set| first.is_some_and(|first| set.contains(first)));
        let too_small = |set: Vec<usize>| world_ranks.len() < set.len().min(failures + 1);
        taken.len() == world_ranks.len() && !could_be.into_iter().any(too_small)
    }
}

/// The redundancy sets of ranks on these hosts.
pub fn sets(hosts: &[String], descriptor: &KvTree) -> Vec<Vec<usize>> {
    if descriptor.get_value("TYPE") == Some("SINGLE") {
        return (0..hosts.len()).map(|rank| vec![rank]).collect();
    }
    let size = |key: &str, default| descriptor.parse::<usize>(key).unwrap_or(default);
    let least = size("SET_SIZE", 8).max(size("SET_FAILURES", 1) + 1);
    choose_sets(&groups(hosts, descriptor), least)
}

/// The failure group of each rank: its node, or under SWITCH its pair of nodes (a and b, c and d,
/// ...).
pub fn groups(hosts: &[String], descriptor: &KvTree) -> Vec<String> {
    let switch = |host: &String| ((host.as_bytes()[0] - b'a') / 2).to_string();
    match descriptor.get_value("GROUP") {
        Some("SWITCH") => hosts.iter().map(switch).collect(),
        _ => hosts.to_vec(),
    }
}

pub fn key(step: u64) -> RecordKey {
    RecordKey { series: "ckpt".into(), id: step.to_string(), generation: 0 }
}

/// A digit after the scheme's name is the number of losses to be survived.
pub fn descriptor(scheme: &str) -> KvTree {
    let mut tree = KvTree::new();
    let name = scheme.trim_end_matches(|c: char| c.is_ascii_digit());
    tree.set_value("TYPE", name);
    tree.set_value("SET_FAILURES", scheme[name.len()..].parse().unwrap_or(1));
    tree.set_value("SET_SIZE", 4);
    tree
}

/// What rank `rank` writes at a step: rank 1 nothing, others one or two files of odd sizes, one of
/// them empty now and then.
pub fn content(step: u64, rank: usize) -> BTreeMap<String, Vec<u8>> {
    let bytes = |salt: usize, length: usize| -> Vec<u8> {
        (0..length).map(|i| (i * 31 + salt * 7 + step as usize * 13 + rank) as u8).collect()
    };
    let mut files = BTreeMap::new();
    if rank != 1 {
        files.insert(format!("ckpt/{step}/rank_{rank}.dat"), bytes(1, 1000 + 137 * rank));
    }
    if rank % 3 == 2 {
        files.insert(format!("ckpt/{step}/extra/{rank}"), bytes(2, (rank - 2) * 4000));
    }
    files
}

/// Notes that a dataset has begun, in the file, too.
pub fn record_open(ctx: &Ctx, key: &RecordKey, store: &str) -> Result<()> {
    ctx.filemap.note_open(key, store);
    // The first look finds it young.
    ctx.filemap.write_begun().and_then(|()| ctx.filemap.write_begun())
}

/// The program's part: opens and writes its files in the cache.
pub fn write_files(ctx: &Ctx, step: u64) -> Vec<FileMeta> {
    let files = content(step, ctx.world.rank());
    if !files.is_empty() {
        record_open(ctx, &key(step), "ram").unwrap();
    }
    let dir = ctx.layout.open_dir("ram", &key(step));
    for (name, bytes) in &files {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), bytes).unwrap();
    }
    let meta = |name: &String| FileMeta { name: name.clone(), ..FileMeta::default() };
    files.keys().map(meta).collect()
}

/// First phase of a seal.
pub fn prepare(ctx: &Ctx, step: u64, id: u64, epoch: u64, scheme: &str) -> Result<Prepared> {
    prepare_if(ctx, (step, id, epoch), scheme, &|action| action().map(|()| true))
}

/// First phase of a seal (step, id, epoch) under a program that touches its files meanwhile.
pub fn prepare_if(
    ctx: &Ctx,
    (step, id, epoch): (u64, u64, u64),
    scheme: &str,
    if_untouched: cache::IfUntouched<'_>,
) -> Result<Prepared> {
    let files = content(step, ctx.world.rank());
    let (set, descriptor) = ctx.protection.choose(&descriptor(scheme))?;
    let request = SealRequest {
        key: &key(step),
        id,
        epoch,
        store: "ram",
        files: files
            .keys()
            .map(|name| FileMeta { name: name.clone(), ..Default::default() })
            .collect(),
        tags: BTreeMap::new(),
        gone: BTreeMap::new(),
        set: &set,
        descriptor: &descriptor,
    };
    cache::prepare(ctx, request, None, if_untouched)
}

/// Writes and seals a checkpoint.
pub fn checkpoint(ctx: &Ctx, id: u64, scheme: &str, confirmed: bool) -> Result<()> {
    write_files(ctx, id * 10);
    let prepared = prepare(ctx, id * 10, id, 0xe0 + id, scheme)?;
    cache::commit(ctx, &prepared, confirmed)
}

/// Writes and seals a dataset of these files of rank 0, which nothing protects.
pub fn seal_files(ctx: &Ctx, key: &RecordKey, id: u64, files: &[(&str, &str)]) {
    let own = if ctx.world.rank() == 0 { files } else { &[] };
    record_open(ctx, key, "ram").unwrap();
    let dir = ctx.layout.open_dir("ram", key);
    for (name, content) in own {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), content).unwrap();
    }
    let (set, descriptor) = ctx.protection.choose(&descriptor("SINGLE")).unwrap();
    let meta = |name: &str| FileMeta { name: name.to_owned(), ..FileMeta::default() };
    let request = SealRequest {
        key,
        id,
        epoch: 0xf0 + id,
        store: "ram",
        files: own.iter().map(|(name, _)| meta(name)).collect(),
        tags: BTreeMap::new(),
        gone: BTreeMap::new(),
        set: &set,
        descriptor: &descriptor,
    };
    let prepared = cache::prepare(ctx, request, None, &|action| action().map(|()| true)).unwrap();
    cache::commit(ctx, &prepared, true).unwrap();
}

/// Takes over and makes checkpoints `ids`, all confirmed.
pub fn run_and_seal(cluster: &Cluster, hosts: &str, ids: &[u64], scheme: &str) {
    let outcome = cluster.launch(hosts).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        ids.iter().for_each(|id| checkpoint(ctx, *id, scheme, true).unwrap());
    });
    assert!(outcome.results.iter().all(Option::is_some));
}

/// Checks this rank's files of an offered dataset byte for byte, and that the catalog knows all.
pub fn check(ctx: &Ctx, offered: &Offered) {
    let step: u64 = offered.key.id.parse().unwrap();
    let expected = content(step, ctx.world.rank());
    check_files(&offered.dir, &expected);
    assert_eq!(offered.files.len(), expected.len());
    let all: usize = (0..ctx.world.size()).map(|rank| content(step, rank).len()).sum();
    assert_eq!(offered.catalog.size().0, all as u64);
}

pub fn check_files(dir: &Path, expected: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in expected {
        let found = fs::read(dir.join(name)).unwrap_or_else(|e| panic!("{name} in {dir:?}: {e}"));
        assert!(found == *bytes, "{name} has another content");
    }
}

/// Ids of what a report offers.
pub fn offered_ids(report: &RebuildReport) -> Vec<u64> {
    report.offered.iter().map(|offered| offered.id).collect()
}
