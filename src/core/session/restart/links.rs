//! Symbolic links that lead to the newest checkpoint. After a loss of caches one may lead to a
//! checkpoint that is gone (docs/internals/restart.md: a pointer never points past a roll-back).

use std::collections::BTreeSet;
use std::fs::{read_dir, read_link, rename};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cache::RebuildReport;
use crate::files::remove_file_if_there;
use crate::log::messages;
use crate::namespace as ns;
use crate::namespace::Answer;
use crate::session::{
    prefix::abandoned::{IdPart, InPlace},
    restart::Restorer,
};
use crate::transfer::staged_name;

impl Restorer {
    /// Links that a pattern names and that lead to a checkpoint which cannot be seen, or all if the
    /// user has `chosen`, lead to the one that the program begins with. For rank 0, at the end.
    pub(crate) fn repoint_links(
        &self,
        report: &RebuildReport,
        in_place: Option<&InPlace>,
        chosen: bool,
    ) {
        let Some(newest) = self.prefix.newest(report, in_place) else { return };
        let parts = self.prefix.id_parts(&newest, true);
        let parents = parts.iter().flat_map(|part| Path::new(&part.parent).ancestors());
        let dirs: BTreeSet<&str> = parents.filter_map(Path::to_str).collect();
        for name in dirs.into_iter().flat_map(|dir| self.links_in(dir)) {
            self.repoint(&name, &parts, newest.captured, chosen);
        }
    }

    /// Of links that a pattern without an id names.
    fn links_in(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = read_dir(self.site.on_prefix(dir)) else { return Vec::new() };
        let links = entries.flatten().filter(|one| one.file_type().is_ok_and(|it| it.is_symlink()));
        let name = |file: String| if dir.is_empty() { file } else { format!("{dir}/{file}") };
        let names = links.filter_map(|one| one.file_name().into_string().ok()).map(name);
        names
            .filter(|name| self.rank.match_name(name).is_some_and(|it| it.is_companion()))
            .collect()
    }

    fn repoint(&self, name: &str, parts: &[IdPart], captured: &str, chosen: bool) {
        let link = self.site.on_prefix(name);
        let Ok(text) = read_link(&link) else { return };
        let Some(text) = text.to_str() else { return };
        let goal = self.site.on_prefix(ns::parent(name)).join(text);
        if !chosen && self.sees(&goal) {
            return;
        }
        let other = text.split('/').rev().find_map(|own| {
            parts.iter().find_map(|part| Some((own, part, self.prefix.other_id(part, own)?)))
        });
        let Some((own, part, _)) = other.filter(|(_, _, id)| *id != captured) else { return };
        let (head, tail) = text.rsplit_once(own).unwrap_or_default();
        let new = format!("{head}{}{captured}{}{tail}", part.before, part.after);
        // As a flush names a file on its way: the program does not see it.
        let file = name.rsplit('/').next().unwrap_or(name);
        let staged = link.with_file_name(staged_name(file, 0));
        let made = remove_file_if_there(&staged).is_ok()
            && symlink(&new, &staged).and_then(|()| rename(&staged, &link)).is_ok();
        match made {
            true => self.rank.tell(
                messages::LINK_TURNED,
                format_args!("{name} led to {text}, and leads to {new} now"),
            ),
            false => drop(remove_file_if_there(&staged)),
        }
    }

    fn sees(&self, path: &Path) -> bool {
        match self.names.lookup(path) {
            Answer::Fail(_) => false,
            Answer::Redirect { .. } | Answer::Known(_) => true,
            _ => path.exists(),
        }
    }
}
