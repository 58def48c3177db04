//! Redundancy schemes on in-process ranks: encode, lose, rebuild.
//!
//! A [`Cluster`] has a directory for each member (its node); [`Cluster::lose`] empties one. What a
//! member brings into a rebuild is found out as the cache does it: by `verify`, or unlooked at.

mod golden;
mod killed;
mod partner;
mod parts;
mod pieces;
mod random;
mod reed_solomon;
mod spares;
mod unlooked;
mod xor;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fastrand::Rng;

use scr_core::comm::Comm;
use scr_core::comm::threads::{ThreadWorld, WorldOutcome};
use scr_core::error::Result;
use scr_core::kvtree::KvTree;
use scr_core::records::FileMeta;
use scr_core::redundancy::{
    MemberData, Protection, RedundancySet, Scheme, Survivor, scheme_by_name, verify,
};
use scr_core::system::{Attributes, set_user_attributes, user_attributes_at};

type Rebuilt = Result<(MemberData, Protection)>;

/// The members of one set, each with its node's directory, and what they wrote.
struct Cluster {
    root: tempfile::TempDir,
    scheme: &'static dyn Scheme,
    originals: Vec<MemberData>,
    /// Losses to be survived, copies to be kept.
    failures: usize,
    piece_bytes: usize,
    /// Nobody looks at a member's files before a rebuild.
    unlooked: bool,
    /// What each member's record says: `None` once it is lost with its node.
    protections: Mutex<Vec<Option<Protection>>>,
}

/// Bytes that depend on member, file and position, without a period that chunks could share.
fn content(member: usize, file: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    Rng::with_seed(member as u64 * 31 + file as u64 + 1).fill(&mut bytes);
    bytes
}

impl Cluster {
    /// Writes files of these sizes for each member; not yet encoded. A digit after the scheme's
    /// name is the number of losses to be survived.
    fn new(scheme: &str, sizes: &[Vec<usize>]) -> Self {
        let name = scheme.trim_end_matches(|c: char| c.is_ascii_digit());
        let failures = scheme[name.len()..].parse().unwrap_or(1);
        // Thousands of fsyncs: on a disk they would take minutes.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let originals = (0..sizes.len())
            .map(|member| {
                let dir = root.path().join(format!("node{member}"));
                let write = |(file, &size): (usize, &usize)| {
                    let name = format!("step/r{member}/f{file}");
                    let path = dir.join(&name);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    let attributes = Attributes::from([("user.step".into(), vec![6, 0, 255])]);
                    set_user_attributes(&File::create(&path).unwrap(), &attributes);
                    fs::write(&path, content(member, file, size)).unwrap();
                    let mode = if file % 2 == 0 { 0o640 } else { 0o444 };
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                    let found = fs::metadata(&path).unwrap();
                    FileMeta {
                        name,
                        size: size as u64,
                        mode,
                        mtime_seconds: found.mtime(),
                        mtime_nanoseconds: found.mtime_nsec(),
                        // None where the file system takes none.
                        attributes: user_attributes_at(&path),
                        ..FileMeta::default()
                    }
                };
                fs::create_dir_all(&dir).unwrap();
                let mut record = KvTree::new();
                record.set_kv("SERIES", format!("member {member}"));
                let files = sizes[member].iter().enumerate().map(write).collect();
                MemberData { dir, id: 6, epoch: 0xfeed, files, record }
            })
            .collect();
        Cluster {
            root,
            scheme: scheme_by_name(name).unwrap(),
            failures,
            piece_bytes: 128 << 10,
            unlooked: false,
            originals,
            protections: Mutex::new(vec![None; sizes.len()]),
        }
    }

    /// As [`Cluster::new`], encoded.
    fn encoded(scheme: &str, sizes: &[Vec<usize>]) -> Self {
        let mut cluster = Self::new(scheme, sizes);
        cluster.encode();
        cluster
    }

    fn size(&self) -> usize {
        self.originals.len()
    }

    fn dir(&self, member: usize) -> PathBuf {
        self.root.path().join(format!("node{member}"))
    }

    /// World ranks differ from ranks in the set.
    fn set(&self, comm: Box<dyn Comm>) -> RedundancySet {
        let world_ranks: Vec<_> = (0..self.size()).map(|member| 2 * member + 3).collect();
        RedundancySet {
            comm: comm.into(),
            hosts: world_ranks.iter().map(|rank| format!("host{rank}")).collect(),
            group_id: 3,
            world_ranks,
            world_size: 99,
            failures: self.failures,
            piece_bytes: self.piece_bytes,
        }
    }

    /// Encodes on a world whose deaths are arranged; keeps the protections of those who got one.
    fn encode_on(&self, world: ThreadWorld) -> WorldOutcome<Result<Protection>> {
        world.run(|comm| {
            let rank = comm.rank();
            let encoded = self.scheme.encode(&self.set(comm), Ok(self.originals[rank].clone()));
            if let Ok(protection) = &encoded {
                self.protections.lock().unwrap()[rank] = Some(protection.clone());
            }
            encoded
        })
    }

    /// Encodes, and puts the checksums into the records as a seal would.
    fn encode(&mut self) {
        for (member, result) in
            self.encode_on(ThreadWorld::new(self.size())).results.into_iter().enumerate()
        {
            let crcs = result.unwrap().unwrap().file_crcs;
            assert_eq!(crcs.len(), self.originals[member].files.len());
            for (file, crc32) in self.originals[member].files.iter_mut().zip(crcs) {
                file.crc32 = crc32;
            }
        }
    }

    /// Empties a member's node; its record goes with it.
    fn lose(&self, member: usize) {
        self.protections.lock().unwrap()[member] = None;
        fs::remove_dir_all(self.dir(member)).unwrap();
        fs::create_dir_all(self.dir(member)).unwrap();
    }

    /// What the member finds on its node.
    fn survivor(&self, member: usize) -> Survivor {
        let dir = self.dir(member);
        let data = self.originals[member].clone();
        let protection = self.protections.lock().unwrap()[member].clone();
        let right = |files: &[FileMeta]| self.unlooked || verify(&dir, files);
        Survivor {
            id: 6,
            epoch: 0xfeed,
            // Without its record a member is lost even if it had no files.
            data: protection.is_some().then_some(data).filter(|data| right(&data.files)),
            protection: protection.filter(|protection| right(&protection.files)),
            compared: !self.unlooked,
            dir,
        }
    }

    fn rebuild_on(&self, world: ThreadWorld) -> WorldOutcome<Rebuilt> {
        let survivors: Vec<_> =
            (0..self.size()).map(|member| Mutex::new(Some(self.survivor(member)))).collect();
        world.run(|comm| {
            let own = survivors[comm.rank()].lock().unwrap().take().unwrap();
            let rank = comm.rank();
            let rebuilt = self.scheme.rebuild(&self.set(comm), &own);
            if let Ok((_, protection)) = &rebuilt {
                self.protections.lock().unwrap()[rank] = Some(protection.clone());
            }
            rebuilt
        })
    }

    fn rebuild(&self) -> Vec<Rebuilt> {
        let outcome = self.rebuild_on(ThreadWorld::new(self.size()));
        outcome.results.into_iter().map(Option::unwrap).collect()
    }

    /// Rebuilds; everyone must have everything again, with contents, modes and times.
    #[track_caller]
    fn rebuild_and_check(&self) {
        for (member, rebuilt) in self.rebuild().into_iter().enumerate() {
            let (data, protection) = rebuilt.unwrap_or_else(|error| panic!("{member}: {error}"));
            assert_eq!(data, self.originals[member], "member {member}");
            assert!(verify(&self.dir(member), &protection.files), "parity of {member}");
            self.check_files(member);
        }
    }

    #[track_caller]
    fn check_files(&self, member: usize) {
        self.check_originals(member);
        let temporary = |name: &&String| name.contains("rebuild.") || name.ends_with(".tmp");
        assert_eq!(self.files_below(member).iter().find(temporary), None);
    }

    #[track_caller]
    fn check_originals(&self, member: usize) {
        for (index, file) in self.originals[member].files.iter().enumerate() {
            let path = self.dir(member).join(&file.name);
            let found = fs::metadata(&path).unwrap();
            assert_eq!(found.mode() & 0o7777, file.mode, "{}", file.name);
            let times = (file.mtime_seconds, file.mtime_nanoseconds);
            assert_eq!((found.mtime(), found.mtime_nsec()), times, "{}", file.name);
            assert_eq!(user_attributes_at(&path), file.attributes, "{}", file.name);
            let expected = content(member, index, file.size as usize);
            assert!(fs::read(&path).unwrap() == expected, "content of {}", file.name);
        }
    }

    /// Rebuild must fail on all members in the way that callers act on.
    #[track_caller]
    fn assert_unrecoverable(&self) {
        let before: Vec<_> = (0..self.size()).map(|m| self.snapshot(m)).collect();
        for rebuilt in self.rebuild() {
            let error = rebuilt.unwrap_err();
            assert!(matches!(error, scr_core::error::Error::Unrecoverable(_)), "{error}");
        }
        let after: Vec<_> = (0..self.size()).map(|m| self.snapshot(m)).collect();
        assert!(before == after, "a rebuild that cannot work changes nothing");
    }

    /// Every file of a node with its content.
    fn snapshot(&self, member: usize) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let bytes = fs::read(self.dir(member).join(&name)).unwrap();
            (name, bytes)
        };
        self.files_below(member).into_iter().map(read).collect()
    }

    fn files_below(&self, member: usize) -> Vec<String> {
        fn walk(dir: &Path, base: &Path, names: &mut Vec<String>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => walk(&path, base, names),
                    false => names.push(path.strip_prefix(base).unwrap().display().to_string()),
                }
            }
        }
        let (dir, mut names) = (self.dir(member), Vec::new());
        walk(&dir, &dir, &mut names);
        names.sort();
        names
    }

    /// The member's own parity file or last manifest.
    fn redundancy_file(&self, member: usize) -> PathBuf {
        let protections = self.protections.lock().unwrap();
        let files = &protections[member].as_ref().unwrap().files;
        self.dir(member).join(&files.last().unwrap().name)
    }
}

/// Changes one bit; the size stays.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Sizes that meet every rule at least once: several files, none, empty ones, unequal ones.
fn mixed_sizes(members: usize) -> Vec<Vec<usize>> {
    let kinds = [vec![5, 0, 1000], vec![], vec![3], vec![0, 0], vec![777, 1, 64, 4096, 9]];
    (0..members).map(|member| kinds[member % kinds.len()].clone()).collect()
}
