//! What the listing of a directory shows beyond, or hides from, what the PFS has.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::Path;

use super::answer::Entry;
use super::view::View;
use crate::namespace::names::{is_ours, parent};

struct Shown {
    ino: u64,
    /// It stands for its file even if the PFS has one, too.
    over: bool,
}

/// Returns what a listing of the directory (relative to `prefix`, empty for the prefix itself)
/// shows beyond, or hides from, what the PFS has. Directories are real, so layers add files only.
pub fn entries(view: &View, prefix: &Path, dir: &str) -> Vec<Entry> {
    let mut shown = shown_in(view, dir);
    let mut out = Vec::new();
    read(&prefix.join(dir), |name, is_dir, ino| {
        if shown.get(&name).is_some_and(|one| !one.over) {
            shown.remove(&name);
        }
        let full = join(dir, &name);
        if is_ours(&full) || view.is_absent(&full) || view.is_removed_dir(&full) {
            out.push(Entry { name, ino, is_dir, hide: true });
        }
    });
    for (name, Shown { ino, .. }) in shown {
        let full = join(dir, &name);
        if !is_ours(&full) && !view.is_absent(&full) {
            out.push(Entry { name, ino, is_dir: false, hide: false });
        }
    }
    out
}

fn shown_in(view: &View, dir: &str) -> BTreeMap<String, Shown> {
    let mut shown = BTreeMap::new();
    for layer in view.layers().iter().filter(|layer| !layer.hidden) {
        read(&layer.dir.join(dir), |name, is_dir, ino| {
            if !is_dir {
                shown.insert(name, Shown { ino, over: true });
            }
        });
        for (full, known) in layer.known_below(dir) {
            let Some(name) = child_of(dir, &full) else { continue };
            // What has moved to the PFS since is listed there, or gone; a sealed copy may be left
            // here.
            if known.on_prefix {
                shown.remove(&name);
            }
            if let Some(remote) = known.remote {
                shown.insert(name, Shown { ino: remote.attributes().ino, over: !known.on_prefix });
            }
        }
    }
    shown.retain(|name, _| !view.is_left_alone(&join(dir, name)));
    for (full, evicted) in view.evicted_names() {
        if let Some(name) = child_of(dir, full) {
            shown.entry(name).or_insert(Shown { ino: evicted.ino, over: false });
        }
    }
    for (full, path) in view.private() {
        if let Some(name) = child_of(dir, full) {
            let ino = path.symlink_metadata().map_or(0, |found| found.ino());
            shown.insert(name, Shown { ino, over: true });
        }
    }
    shown
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_string() } else { format!("{dir}/{name}") }
}

fn child_of(dir: &str, name: &str) -> Option<String> {
    (parent(name) == dir).then(|| name.rsplit('/').next().unwrap_or(name).to_string())
}

fn read(dir: &Path, mut entry: impl FnMut(String, bool, u64)) {
    let Ok(all) = std::fs::read_dir(dir) else { return };
    for one in all.flatten() {
        let is_dir = one.file_type().is_ok_and(|kind| kind.is_dir());
        if let Ok(name) = one.file_name().into_string() {
            entry(name, is_dir, one.ino());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DatasetKey;
    use crate::namespace::{Layer, Place, Remote};
    use crate::records::FileMeta;

    fn remote(name: &str) -> Remote {
        Remote { owner: 3, meta: FileMeta { name: name.into(), ..FileMeta::default() } }
    }

    #[test]
    fn a_listing_adds_what_is_cached_and_hides_what_is_deleted_or_ours() {
        let base = tempfile::tempdir().unwrap();
        let (prefix, dir) = (base.path().join("p"), base.path().join("d"));
        for folder in [prefix.join("c"), prefix.join(".scr"), dir.join("c/s1"), dir.join(".scr")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in ["p/c/old", "p/c/both", "d/c/both", "d/c/new"] {
            std::fs::write(base.path().join(file), "").unwrap();
        }
        let mut layer = Layer::new(DatasetKey::new(0, "", 0), dir);
        layer.put_elsewhere(remote("c/far"));
        layer.put_elsewhere(remote("c/s2/far"));
        let mut view = View::default();
        view.put(layer);
        view.delete("c/old");
        std::fs::write(base.path().join("d/c/moved"), "").unwrap();
        view.layer_mut(&DatasetKey::new(0, "", 0)).unwrap().set_on_prefix("c/moved", true);
        let text = |view: &View, dir: &str| -> Vec<String> {
            let flag = |e: &Entry| if e.hide { "-" } else { "" };
            entries(view, &prefix, dir).iter().map(|e| format!("{}{}", e.name, flag(e))).collect()
        };
        assert_eq!(text(&view, "c"), ["old-", "both", "far", "new"]);
        assert_eq!(text(&view, ""), [".scr-"]);
        view.leave_alone("c/both");
        assert_eq!(text(&view, "c"), ["old-", "far", "new"]);
        for entry in entries(&view, &prefix, "c").iter().filter(|entry| !entry.hide) {
            let found = match view.place(&format!("c/{}", entry.name)) {
                Place::Cached(_, path) => path.metadata().unwrap().ino(),
                Place::Elsewhere(_, remote) => remote.attributes().ino,
                other => panic!("{}: {other:?}", entry.name),
            };
            assert_eq!(entry.ino, found, "{}", entry.name);
        }
    }
}
