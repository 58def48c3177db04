//! The rooms of a folder: each uses those below it.

use std::collections::BTreeMap;

use crate::links::Needs;
use crate::source::Source;

const SESSION: &str = "src/core/session/";

/// The files of a folder that are in no room.
const LOOSE: &str = "";

/// The order of the rooms of each folder that has some, lowest first. Files in no room are above
/// them all, unless their place is named; a `mod.rs`, which gives out what is in the rooms, is.
const ROOMS: [(&str, &[&str]); 13] = [
    (
        SESSION,
        &[
            "rank",
            "node",
            "report",
            "stores",
            "updates",
            "contents",
            "unsealed",
            "handles",
            "names",
            "flush",
            "halt",
            "conference",
            "ending",
            "prefix",
            "restart",
            "program",
            "door",
            "launch",
        ],
    ),
    ("src/core/cache/", &["node", "sealing", "beside", "removal", "restart", "offline"]),
    ("src/core/machine/", &["terms", "program", "state", "matters", "prefix", "conference"]),
    ("src/core/launch/", &[LOOSE, "places", "roll_call", "start"]),
    ("src/core/namespace/", &[LOOSE, "told", "seen"]),
    (
        "src/core/operations/",
        &[LOOSE, "run", "rescue", "caches", "older", "report", "learn", "doctor"],
    ),
    ("src/core/records/", &[LOOSE, "on_prefix", "runs"]),
    ("src/core/redundancy/", &[LOOSE, "parity", "partner"]),
    ("src/core/system/", &[LOOSE, "process", "storage", "shared"]),
    ("preload/src/hooks/", &[LOOSE, "files", "names", "mpi", "process"]),
    ("src/core/transfer/", &["prefix", "publish", "flush", "pull_out", "remains"]),
    (
        "preload/src/",
        &["base", "engine", "signal", "path", "fd", "child", "launcher", "life", "hooks"],
    ),
    (
        "src/cli/",
        &[
            "base",
            "sim",
            "rescue",
            "prefix",
            "caches",
            "watch",
            "report",
            "allocation",
            "run",
            "prepare",
            "doctor",
        ],
    ),
];

/// What can stand without a session belongs below it, where it is tested by itself.
const LINES_MAX: usize = 14_000;

/// The links of each folder that lead from one of its rooms to a higher one, of the crate in
/// `place`.
pub fn links_up(place: &str, needs: &Needs) -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (folder, rooms) in ROOMS {
        let Some(below) = folder.strip_prefix(place) else { continue };
        let level = |file: &str| {
            let rest = file.strip_prefix(below)?;
            let (room, _) = rest.split_once('/').unwrap_or_default();
            let place = rooms.iter().position(|one| *one == room && rest != "mod.rs");
            Some(place.unwrap_or(rooms.len()))
        };
        for (file, needed) in needs {
            let up = needed.iter().filter(|other| {
                level(file).zip(level(other)).is_some_and(|(own, other)| other > own)
            });
            found.entry(folder).or_default().extend(up.map(|other| format!("{file} {other}")));
        }
    }
    found
}

/// Files of the session that are in no room, rooms without a place in the order, and a session that
/// is too large.
pub fn sizes(sources: &[Source]) -> Vec<String> {
    let ours: Vec<_> = sources.iter().filter(|one| one.path.starts_with(SESSION)).collect();
    let mut complaints = Vec::new();
    for one in ours.iter().filter(|one| one.is_rust()) {
        match one.path[SESSION.len()..].split_once('/') {
            None if one.path.ends_with("/mod.rs") => {}
            None => complaints.push(one.complaint(0, "is in no room")),
            Some((room, _)) if ROOMS[0].1.contains(&room) => {}
            Some((room, _)) => complaints.push(one.complaint(0, &format!("{room} has no place"))),
        }
    }
    let lines: usize = ours.iter().map(|one| one.text.lines().count()).sum();
    if lines > LINES_MAX {
        complaints.push(format!("{SESSION} has {lines} lines, {LINES_MAX} at most"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::needs;

    #[test]
    fn links_that_point_up_are_found() {
        let text = "use crate::session::{self, stores::Room, flush::{places::P, other}, F};\n";
        let all = [
            Source::of("src/core/session/mod.rs", "mod names;\nfn f() { names::opening::g() }\n"),
            Source::of("src/core/session/names/opening.rs", text),
            Source::of("src/core/session/stores/mod.rs", "use crate::machine::M;\n"),
            Source::of("src/core/session/flush/places.rs", ""),
            Source::of("src/core/session/flush/mod.rs", ""),
            Source::of("src/core/machine.rs", ""),
        ];
        let up = ["flush/mod.rs", "flush/places.rs", "mod.rs"]
            .map(|file| format!("session/names/opening.rs session/{file}"));
        assert_eq!(links_up("src/core/", &needs(&all, "src/core/"))[SESSION], up);
    }

    #[test]
    fn a_file_without_a_room_a_room_without_a_place_and_a_long_session_are_found() {
        for name in ["more.rs", "attic/a.rs"] {
            assert_eq!(sizes(&[Source::of(&format!("{SESSION}{name}"), "")]).len(), 1);
        }
        assert!(sizes(&[Source::of("src/core/session/rank/a.rs", "")]).is_empty());
        let long = Source::of("src/core/session/names/a.rs", &"\n".repeat(LINES_MAX + 1));
        assert_eq!(sizes(&[long]).len(), 1);
    }
}
