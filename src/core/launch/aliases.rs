//! Directories that the patterns name and that are symbolic links, made before the launch
//! (`ckpt -> /scratch/me/ckpt`). What lies there keeps the name below the prefix, through the link,
//! for the shim, the cache and the flush alike. A link that comes later, or leads to another
//! directory on each node, is no alias: its files go straight to where it leads, and that is told.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::comm::Comm;
use crate::error::Result;
use crate::patterns::SeriesSet;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The link, relative to the prefix.
    pub name: String,
    /// Where it leads, symlinks resolved.
    pub place: PathBuf,
}

/// Finds the aliases that all ranks see alike. Collective.
pub(crate) fn agree(world: &dyn Comm, prefix: &Path, series: &SeriesSet) -> Result<Vec<Alias>> {
    let own = find(prefix, series);
    let lines: Vec<_> = own.iter().map(|alias| (fingerprint(alias), alias)).collect();
    let text: String = lines.iter().map(|(line, _)| line.as_str()).collect();
    let all = world.all_gather(text.as_bytes())?;
    let has = |text: &[u8], line: &str| {
        text.split_inclusive(|&byte| byte == 0).any(|one| one == line.as_bytes())
    };
    let alike = |line: &str| all.iter().all(|text| has(text, line));
    Ok(lines.into_iter().filter(|(line, _)| alike(line)).map(|(_, alias)| alias.clone()).collect())
}

/// What is the same on two nodes only if they mean the same directory; ends with a NUL.
fn fingerprint(alias: &Alias) -> String {
    let found = alias.place.metadata();
    // Node-local file systems may well count alike.
    let identity = found.map(|found| (found.ino(), found.created().ok()));
    format!("{} {:?} {:?}\0", alias.name, alias.place, identity.ok())
}

/// Links among the directories that the patterns name.
fn find(prefix: &Path, series: &SeriesSet) -> Vec<Alias> {
    let mut names = BTreeSet::new();
    for directory in series.literal_directories() {
        let cuts = directory.match_indices('/').map(|(at, _)| at).chain([directory.len()]);
        names.extend(cuts.map(|at| directory[..at].to_string()));
    }
    let mut found: Vec<Alias> = Vec::new();
    for name in names.into_iter().filter(|_| prefix != Path::new("/")) {
        let link = prefix.join(&name);
        if !link.symlink_metadata().is_ok_and(|it| it.is_symlink()) {
            continue;
        }
        let Ok(place) = link.canonicalize() else { continue };
        // Everything would get a name below the link, or what has a name of its own another one.
        let inside = place.strip_prefix(prefix).ok().and_then(Path::to_str);
        let named = prefix.starts_with(&place)
            || inside.is_some_and(|inside| series.could_match_below(inside));
        if place.is_dir() && !named && !found.iter().any(|other| other.place == place) {
            found.push(Alias { name, place });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::patterns::{PatternConfig, PatternText};

    fn series(prefix: &Path, text: &str) -> SeriesSet {
        let [name, place, text] = ["SCR_CHECKPOINT_PATTERN", "", text].map(str::to_string);
        let (prefix, one) = (prefix.to_path_buf(), PatternText { name, place, text });
        let config = PatternConfig { prefix, checkpoint: vec![one], ..PatternConfig::default() };
        SeriesSet::new(&config).unwrap()
    }

    #[test]
    fn links_that_patterns_name_are_aliases_and_no_others() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let prefix = top.join("p");
        for folder in ["p/real/in", "far/deep"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        for (to, name) in [
            ("../far", "out"),
            ("real", "near"),
            (".", "dot"),
            ("missing", "dangling"),
            ("../far/deep", "real/in/deeper"),
            ("../../../far/deep", "real/in/two"),
        ] {
            symlink(to, prefix.join(name)).unwrap();
        }
        for (text, want) in [
            ("out/{id}/**", &[("out", "far")][..]),
            ("out/deep/f.{id}", &[("out", "far")]),
            ("re:out/f_(?P<id>[0-9]+)", &[("out", "far")]),
            ("near/{id}", &[("near", "p/real")]),
            ("near/{id}, real/{id}", &[]),
            ("real/in/two/{id}", &[("real/in/two", "far/deep")]),
            ("dot/{id}", &[]),
            ("dangling/{id}", &[]),
            ("real/{id}", &[]),
            ("**/out/{id}", &[]),
            ("out", &[]),
        ] {
            let found = find(&prefix, &series(&prefix, text));
            let alias =
                |(name, to): &(&str, &str)| Alias { name: name.to_string(), place: top.join(to) };
            let want: Vec<Alias> = want.iter().map(alias).collect();
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn a_link_to_a_directory_of_each_node_is_none() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        for folder in ["0/own", "1/own", "shared"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        for rank in ["0", "1"] {
            symlink("own", top.join(rank).join("local")).unwrap();
            symlink("../shared", top.join(rank).join("all")).unwrap();
        }
        let agreed = crate::comm::threads::run(2, |comm| {
            let prefix = top.join(comm.rank().to_string());
            agree(comm.as_ref(), &prefix, &series(&prefix, "local/{id}, all/{id}")).unwrap()
        });
        let all = Alias { name: "all".to_string(), place: top.join("shared") };
        assert_eq!(agreed, [vec![all.clone()], vec![all]]);
    }
}
