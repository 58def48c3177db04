//! A prefix as the C implementation (3.0, 3.1) leaves it, written from what its documents say.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use scr_core::kvtree::KvTree;
use scr_core::kvtree::file::to_file_bytes;

/// What is in files, by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A dataset of it.
pub struct Theirs {
    pub id: u64,
    pub name: &'static str,
    pub complete: bool,
    /// Name and content, by rank.
    pub files: Vec<(String, String)>,
}

/// Two checkpoints of 4 ranks: `1` is complete and `2` is not, rank 3 lacks its file.
pub fn two(file: impl Fn(u64, usize) -> (String, String)) -> Vec<Theirs> {
    let of = |id: u64, name: &'static str, ranks: usize| Theirs {
        id,
        name,
        complete: ranks == 4,
        files: (0..ranks).map(|rank| file(id, rank)).collect(),
    };
    vec![of(1, "ckpt.1", 4), of(2, "ckpt.2", 3)]
}

fn fields(one: &Theirs) -> KvTree {
    let mut tree = KvTree::new();
    tree.set_value("ID", one.id);
    tree.set_value("NAME", one.name);
    tree.set_value("CREATED", 1_312_853_507_675_143_u64);
    tree.set_value("USER", "user1");
    tree.set_value("JOBNAME", "simulation123");
    tree.set_value("JOBID", 112_573);
    tree.set_value("CKPT", one.id);
    tree.set_value("FILES", one.files.len());
    tree.set_value("SIZE", one.files.iter().map(|(_, content)| content.len()).sum::<usize>());
    tree.set_value("COMPLETE", u8::from(one.complete));
    tree
}

/// Writes them; `level` is what 3.1 calls NAME and its documents DIR. `current` is the first one.
pub fn write(prefix: &Path, level: &str, all: &[Theirs]) {
    let own = prefix.join(".scr");
    fs::create_dir_all(&own).unwrap();
    let mut index = KvTree::new();
    index.set_value("VERSION", 1);
    index.set_value("CURRENT", all[0].name);
    for one in all {
        index.child_mut(level).child_mut(one.name).set_value("DSET", one.id);
        let entry = index.set_kv("DSET", one.id).child_mut(level).child_mut(one.name);
        entry.set_value("COMPLETE", u8::from(one.complete));
        entry.set_value("FLUSHED", "2011-08-08T18:31:47");
        entry.set("DSET", fields(one));
        for (name, content) in &one.files {
            fs::create_dir_all(prefix.join(name).parent().unwrap()).unwrap();
            fs::write(prefix.join(name), content).unwrap();
        }
        let dir = own.join(format!("scr.dataset.{}", one.id));
        fs::create_dir_all(&dir).unwrap();
        let mut summary = KvTree::new();
        summary.set_value("VERSION", 6);
        summary.set_value("COMPLETE", u8::from(one.complete));
        summary.set("DSET", fields(one));
        summary.write_file(dir.join("summary.scr")).unwrap();
        write_map(&dir, one);
    }
    index.write_file(own.join("index.scr")).unwrap();
}

/// A root, and below it two maps in one file.
fn write_map(dir: &Path, one: &Theirs) {
    let mut root = KvTree::new();
    root.set_value("LEVEL", 1);
    root.set_value("RANKS", 4);
    let mut part = fs::File::create(dir.join("rank2file.0.0.scr")).unwrap();
    let mut offset = 0;
    for ranks in [0..2, 2..4] {
        let reader = root.set_kv("RANK", ranks.start);
        reader.set_value("FILE", ".scr/rank2file.0.0.scr");
        reader.set_value("OFFSET", offset);
        let mut leaf = KvTree::new();
        leaf.set_value("LEVEL", 0);
        leaf.set_value("RANKS", 2);
        for rank in ranks {
            let entry = leaf.set_kv("RANK", rank);
            if let Some((name, content)) = one.files.get(rank) {
                entry.child_mut("FILE").child_mut(name).set_value("SIZE", content.len());
            }
        }
        let bytes = to_file_bytes(&leaf).unwrap();
        part.write_all(&bytes).unwrap();
        offset += bytes.len();
    }
    root.write_file(dir.join("rank2file")).unwrap();
}

/// Says in its flush file that this dataset is in caches alone.
pub fn leave_cached(prefix: &Path, id: u64, name: &str) {
    let mut tree = KvTree::new();
    let entry = tree.set_kv("DSET", id);
    entry.child_mut("LOCATION").child_mut("CACHE");
    entry.set_value("DIR", name);
    tree.write_file(prefix.join(".scr/flush.scr")).unwrap();
}

/// All that it has written, by name: none of it is to change.
pub fn bytes(prefix: &Path) -> Files {
    let mut found = BTreeMap::new();
    let mut dirs = vec![prefix.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(prefix).unwrap().display().to_string();
                    found.insert(name, fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    found
}
