//! The rooms of `src/core/session`: each uses those below it.

use crate::source::Source;

const SESSION: &str = "src/core/session/";

/// Lowest first. `rank` holds the state of all of them and is used by all.
const ROOMS: [&str; 12] = [
    "report",
    "stores",
    "updates",
    "names",
    "handles",
    "conference",
    "flush",
    "ending",
    "prefix",
    "restart",
    "program",
    "launch",
];

/// A folder that nobody sees at a glance is two.
const FILES_MAX: usize = 13;

/// What can stand without a session belongs below it, where it is tested by itself.
const LINES_MAX: usize = 14_000;

fn level(room: &str) -> Option<usize> {
    ROOMS.iter().position(|one| *one == room)
}

/// The room and the rest of the path of a file of the session.
fn place(source: &Source) -> Option<(&str, &str)> {
    source.path.strip_prefix(SESSION).filter(|_| source.is_rust())?.split_once('/')
}

/// (file, module) of every use of a higher room.
fn upward(source: &Source) -> Vec<(String, String)> {
    let Some((room, file)) = place(source) else { return Vec::new() };
    let Some(own) = level(room) else { return Vec::new() };
    let code = source.code();
    let mut found = Vec::new();
    for (at, head) in code.match_indices("crate::session::") {
        let mut words = code[at + head.len()..].split(|c: char| c != '_' && !c.is_alphanumeric());
        let used = words.next().unwrap_or_default();
        if level(used).is_some_and(|level| level > own) {
            let module = words.find(|word| !word.is_empty()).unwrap_or_default();
            found.push((format!("{room}/{file}"), format!("{used}/{module}")));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Uses that point up.
pub fn arrows(sources: &[Source]) -> Vec<String> {
    let found = sources.iter().flat_map(upward);
    found.map(|(file, used)| format!("{SESSION}{file} uses {used}, a higher room")).collect()
}

/// Files that are in no room, rooms without a place in the order, rooms that are too large, and a
/// session that is.
pub fn sizes(sources: &[Source]) -> Vec<String> {
    let ours: Vec<_> = sources.iter().filter(|one| one.path.starts_with(SESSION)).collect();
    let flat = ours.iter().filter(|one| place(one).is_none() && !one.path.ends_with("/mod.rs"));
    let mut complaints: Vec<String> = flat.map(|one| one.complaint(0, "is in no room")).collect();
    let mut rooms: Vec<&str> = ours.iter().filter_map(|one| Some(place(one)?.0)).collect();
    rooms.sort_unstable();
    for files in rooms.chunk_by(|one, next| one == next) {
        let room = files[0];
        if level(room).is_none() && room != "rank" {
            complaints.push(format!("{SESSION}{room} has no place among the rooms"));
        }
        if files.len() > FILES_MAX {
            complaints.push(format!("{SESSION}{room} has {} files", files.len()));
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

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let of = |text: &str| upward(&Source::of("src/core/session/names/opening.rs", text));
        assert!(of("use crate::session::stores::Room;").is_empty());
        assert!(of("use crate::session::rank::site;").is_empty());
        let up = of("use crate::session::{self};\nuse crate::session::flush::places::Places;");
        assert_eq!(up, [("names/opening.rs".to_string(), "flush/places".to_string())]);
        let text = "crate::session::launch::start::go()";
        let all = [Source::of("src/core/session/names/a.rs", text)];
        assert_eq!(arrows(&all).len(), 1);
    }

    #[test]
    fn a_file_without_a_room_and_a_full_room_are_found() {
        let flat = [Source::of("src/core/session/more.rs", "")];
        assert_eq!(sizes(&flat).len(), 1);
        let many: Vec<Source> = (0..=FILES_MAX)
            .map(|at| Source::of(&format!("src/core/session/names/{at}.rs"), ""))
            .collect();
        assert_eq!(sizes(&many).len(), 1);
        assert_eq!(sizes(&[Source::of("src/core/session/attic/a.rs", "")]).len(), 1);
        let long = Source::of("src/core/session/names/a.rs", &"\n".repeat(LINES_MAX + 1));
        assert_eq!(sizes(&[long]).len(), 1);
    }
}
