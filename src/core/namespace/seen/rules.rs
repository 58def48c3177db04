//! What calls that change names say before anything is done, as the kernel would say it of what the
//! program sees.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::answer::Answer;
use super::listing::entries;
use super::place::Place;
use super::target::may_create;
use super::view::View;
use crate::namespace::names::{parent, relative};

/// The names of a call that has two; `None` for a path that is not below the prefix.
#[derive(Debug, Clone, Copy)]
pub struct OldAndNew<'a> {
    pub from: Option<&'a str>,
    pub to: Option<&'a str>,
}

pub fn unlink_rules(view: &View, name: &str, path: &Path) -> Option<Answer> {
    match view.place(name) {
        Place::Deleted => Some(Answer::Fail(libc::ENOENT)),
        Place::Private(_) | Place::Evicted(_) => None,
        Place::Prefix if path.symlink_metadata().is_err() => Some(Answer::PASS),
        _ if !may_create(path) => Some(Answer::Fail(libc::EACCES)),
        Place::Prefix if path.is_dir() => Some(Answer::PASS),
        _ => None,
    }
}

pub fn rename_rules(view: &View, from: &Path, to: &Path, names: OldAndNew<'_>) -> Option<Answer> {
    match names.from.map_or(Place::Prefix, |name| view.place(name)) {
        Place::Deleted => return Some(Answer::Fail(libc::ENOENT)),
        // The kernel finds the right words.
        Place::Prefix if from.symlink_metadata().is_err() => return Some(Answer::PASS),
        _ => {}
    }
    if names.to.is_some_and(|to| view.is_removed_dir(parent(to))) {
        return Some(Answer::Fail(libc::ENOENT));
    }
    if !to.parent().is_some_and(Path::is_dir) {
        return Some(Answer::PASS);
    }
    let mut places = names.from.into_iter().chain(names.to).map(|name| view.place(name));
    let on_prefix = places.all(|place| place == Place::Prefix);
    if from == to || on_prefix && same_file(from, to) {
        return Some(Answer::Done);
    }
    let is_dir = to.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_dir && !names.to.is_some_and(|to| view.is_removed_dir(to)) {
        return Some(Answer::Fail(libc::EISDIR));
    }
    // What a symlink leads to is not its own: it takes no part in a checkpoint.
    let moves_link = from.symlink_metadata().is_ok_and(|found| found.is_symlink());
    (moves_link && on_prefix).then_some(Answer::PASS)
}

pub fn link_rules(
    view: &View,
    OldAndNew { from: old, to: new }: OldAndNew<'_>,
    target: &Path,
    path: &Path,
) -> Option<Answer> {
    let source = old.map_or(Place::Prefix, |name| view.place(name));
    if source == Place::Prefix && new.is_none() {
        return Some(Answer::PASS);
    }
    let goal = new.map_or(Place::Prefix, |name| view.place(name));
    match (&source, &goal) {
        (Place::Deleted | Place::Evicted(_), _) => return Some(Answer::Fail(libc::ENOENT)),
        (Place::Prefix, _) if target.symlink_metadata().is_err() => return Some(Answer::PASS),
        (_, Place::Prefix | Place::Deleted) => {}
        _ => return Some(Answer::Fail(libc::EEXIST)),
    }
    if !path.parent().is_some_and(Path::is_dir) {
        return Some(Answer::PASS);
    }
    let taken = goal == Place::Prefix && path.symlink_metadata().is_ok();
    taken.then_some(Answer::Fail(libc::EEXIST))
}

/// Returns `None` if it is for us to remove the directory.
pub fn rmdir_rules(view: &mut View, prefix: &Path, name: &str) -> Option<Answer> {
    if view.is_removed_dir(name) {
        return Some(Answer::Fail(libc::ENOENT));
    }
    let shown = entries(view, prefix, name);
    if shown.iter().any(|entry| !entry.hide) {
        return Some(Answer::Fail(libc::ENOTEMPTY));
    }
    // The PFS decides; what waits there for its deletion keeps the directory, which then goes
    // with the last of it.
    shown.is_empty().then(|| {
        view.note_rmdir(name);
        Answer::PASS
    })
}

/// Returns what is in the way of a directory that is about to become `to`, where the PFS has
/// nothing.
pub fn dir_rename_rules(view: &View, prefix: &Path, from: &str, to: &Path) -> Option<Answer> {
    let to_name = relative(prefix, to)?;
    let inside = to_name.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
    if from == to_name || inside {
        return Some(Answer::PASS);
    }
    if to.is_dir() && !view.is_removed_dir(to_name) {
        let shown = entries(view, prefix, to_name);
        let hides = |found: &std::ffi::OsStr| {
            shown.iter().any(|one| one.hide && found == one.name.as_str())
        };
        let mut there = std::fs::read_dir(to).into_iter().flatten().flatten();
        // An empty directory in it counts, too: it must not go with those that wait for it.
        let full =
            shown.iter().any(|entry| !entry.hide) || there.any(|found| !hides(&found.file_name()));
        return full.then_some(Answer::Fail(libc::ENOTEMPTY));
    }
    match view.place(to_name) {
        Place::Prefix | Place::Deleted => None,
        _ => Some(Answer::Fail(libc::ENOTDIR)),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let found = [one, other].map(|path| path.symlink_metadata().map(|it| (it.dev(), it.ino())));
    matches!(&found, [Ok(one), Ok(other)] if one == other)
}
