//! What the listing of a directory shows beyond, or hides from, what the PFS has.

use std::collections::BTreeSet;
use std::path::Path;

use super::names::{is_ours, parent};
use super::view::View;
use crate::session::answer::Entry;

/// The entries of the directory `dir` (relative to `prefix`, empty for the prefix itself).
/// Directories are real, so layers add files only.
pub fn entries(view: &View, prefix: &Path, dir: &str) -> Vec<Entry> {
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for layer in view.layers().iter().filter(|layer| !layer.hidden) {
        read(&layer.dir.join(dir), |name, is_dir| {
            if !is_dir {
                shown.insert(name);
            }
        });
        // What has moved to the PFS since is listed there, or gone; a sealed copy may be left here.
        for name in layer.on_prefix.iter().filter_map(|name| child_of(dir, name)) {
            shown.remove(&name);
        }
        shown.extend(layer.elsewhere.keys().filter_map(|name| child_of(dir, name)));
    }
    shown.extend(view.ghosts().filter_map(|(name, _)| child_of(dir, name)));
    shown.extend(view.private_names().filter_map(|name| child_of(dir, name)));
    let mut out = Vec::new();
    read(&prefix.join(dir), |name, is_dir| {
        shown.remove(&name);
        let full = join(dir, &name);
        if is_ours(&full) || view.is_absent(&full) || view.is_removed_dir(&full) {
            out.push(Entry { name, is_dir, hide: true });
        }
    });
    for name in shown {
        let full = join(dir, &name);
        if !is_ours(&full) && !view.is_absent(&full) {
            out.push(Entry { name, is_dir: false, hide: false });
        }
    }
    out
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_string() } else { format!("{dir}/{name}") }
}

/// The last part of `name` if it lies in `dir`.
fn child_of(dir: &str, name: &str) -> Option<String> {
    (parent(name) == dir).then(|| name.rsplit('/').next().unwrap_or(name).to_string())
}

fn read(dir: &Path, mut entry: impl FnMut(String, bool)) {
    let Ok(all) = std::fs::read_dir(dir) else { return };
    for one in all.flatten() {
        let is_dir = one.file_type().is_ok_and(|kind| kind.is_dir());
        if let Ok(name) = one.file_name().into_string() {
            entry(name, is_dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::machine::DatasetKey;
    use crate::session::namespace::{Layer, Remote};

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
        layer.elsewhere.insert("c/far".into(), Remote::default());
        layer.elsewhere.insert("c/s2/far".into(), Remote::default());
        let mut view = View::default();
        view.put(layer);
        view.delete("c/old");
        std::fs::write(base.path().join("d/c/moved"), "").unwrap();
        view.layer_mut(&DatasetKey::new(0, "", 0)).unwrap().on_prefix.insert("c/moved".into());
        let text = |dir: &str| -> Vec<String> {
            let flag = |e: &Entry| if e.hide { "-" } else { "" };
            entries(&view, &prefix, dir).iter().map(|e| format!("{}{}", e.name, flag(e))).collect()
        };
        assert_eq!(text("c"), ["old-", "far", "new"]);
        assert_eq!(text(""), [".scr-"]);
    }
}
