//! A place to stop at, for tests that end a process or a node at an exact moment.
//!
//! `SCR_TEST_PAUSE=<point>:<file>` or `<point>@<n>:<file>`: when the process comes to the point
//! (for the n-th time; the first if not said), it makes `<file>` and goes on once `<file>.go`
//! exists. Without the variable a point costs one look at a static.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Debug, PartialEq, Eq)]
struct PausePoint {
    point: String,
    /// Which arrival stops, from 1.
    arrival: u32,
    file: PathBuf,
}

impl PausePoint {
    fn parse(text: &str) -> Option<PausePoint> {
        let (place, file) = text.split_once(':')?;
        let (point, arrival) = match place.split_once('@') {
            Some((point, number)) => (point, number.parse().ok()?),
            None => (place, 1),
        };
        Some(PausePoint { point: point.to_owned(), arrival, file: PathBuf::from(file) })
    }

    fn stop(&self) {
        let go = with_suffix(&self.file, ".go");
        // No file, no test that waits for it: going on is all that is left.
        if std::fs::write(&self.file, "").is_err() {
            return;
        }
        while !go.exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Stops here if a test asked for it. Points: `seal.encode`, `encode.middle`, `seal.prepared`,
/// `seal.committed`, `flush.staged`, `flush.publish`, `file.staged`, `move.copied`, `change.adopt`,
/// `change.claimed`, `replaced.linked`, `return.noted`, `publish.name`.
pub fn test_pause(point: &str) {
    static WISH: OnceLock<Option<PausePoint>> = OnceLock::new();
    static ARRIVALS: AtomicU32 = AtomicU32::new(0);
    let wish = WISH
        .get_or_init(|| PausePoint::parse(&std::env::var("SCR_TEST_PAUSE").unwrap_or_default()));
    let Some(wish) = wish.as_ref().filter(|wish| wish.point == point) else {
        return;
    };
    if ARRIVALS.fetch_add(1, Ordering::Relaxed) + 1 == wish.arrival {
        wish.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_point_arrival_and_file() {
        let wish = PausePoint::parse("seal.encode@3:/x/y:z");
        let expected =
            PausePoint { point: "seal.encode".into(), arrival: 3, file: PathBuf::from("/x/y:z") };
        assert_eq!(wish, Some(expected));
        assert_eq!(PausePoint::parse("seal.encode:/x").map(|wish| wish.arrival), Some(1));
        assert_eq!(PausePoint::parse("seal.encode@x:/x"), None);
        assert_eq!(PausePoint::parse("nothing"), None);
    }

    #[test]
    fn a_stop_lasts_until_the_second_file_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("here");
        let wish = PausePoint { point: "p".into(), arrival: 1, file: file.clone() };
        let stopped = std::thread::spawn(move || wish.stop());
        while !file.exists() {
            std::thread::yield_now();
        }
        assert!(!stopped.is_finished());
        std::fs::write(dir.path().join("here.go"), "").expect("a file");
        stopped.join().expect("it goes on");
    }
}
