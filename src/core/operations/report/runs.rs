//! Launches, as their events and the run record tell them.

use std::collections::BTreeMap;

use crate::events::{GIVEN_UP, Logged, SEALED_ON_PREFIX};
use crate::records::{RunPace, RunPassed, RunRecord, Timestamp};

/// Times of one launch in the log and in the run record differ by no more, in seconds.
const SAME_START: u64 = 5;

/// How a launch ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Close {
    /// It runs.
    Runs,
    /// With MPI_Finalize.
    Ended,
    /// Without MPI_Finalize, by its own doing.
    Exited,
    /// A halt condition ended it.
    Halted,
    /// It has not said why it is gone: it was killed, or its first node lost.
    #[default]
    Killed,
}

impl Close {
    /// Returns the word that is printed for it.
    pub fn text(self) -> &'static str {
        match self {
            Close::Runs => "running",
            Close::Ended => "ended",
            Close::Exited => "exited",
            Close::Halted => "halted",
            Close::Killed => "died",
        }
    }
}

/// A checkpoint, or output, of a launch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// Its id.
    pub id: u64,
    /// What people call it.
    pub name: String,
    /// When it was sealed, seconds since 1970.
    pub sealed: u64,
    /// Files of it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that have been in the caches.
    pub cached: u64,
    /// Seconds from its first file to its seal, on rank 0.
    pub cost_seconds: Option<f64>,
    /// Seconds of the seal.
    pub seal_seconds: Option<f64>,
    /// Seconds between its last close and its seal, on rank 0: a failure in between would have
    /// taken it.
    pub exposed_seconds: Option<f64>,
    /// Seconds of the flush.
    pub flush_seconds: Option<f64>,
    /// When it was on the prefix, seconds since 1970.
    pub flushed: Option<u64>,
    /// Why its flush failed.
    pub failed: Option<String>,
    /// The program has given it up before it had to be flushed.
    pub spared: bool,
}

/// One launch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunStory {
    /// Id of the job.
    pub job: String,
    /// Who ran it.
    pub user: String,
    /// 0: unknown.
    pub ranks: u64,
    /// 0: unknown.
    pub nodes: u64,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// Its end or last sign of life, seconds since 1970.
    pub seen: u64,
    /// When it was seen to fail, seconds since 1970.
    pub failed: Option<u64>,
    /// How it ended.
    pub close: Close,
    /// What it went on from: id and name.
    pub went_on_from: Option<(u64, String)>,
    /// Seconds of its start, which is where lost ranks are rebuilt.
    pub start_seconds: Option<f64>,
    /// Ranks were rebuilt from redundancy data.
    pub rebuilt: bool,
    /// Its datasets in the order of their seals.
    pub points: Vec<Point>,
    /// Files that went straight to the prefix, by reason.
    pub passed: BTreeMap<String, RunPassed>,
    /// `passed` counts all ranks, and not only rank 0.
    pub passed_of_all: bool,
    /// Pace of seals and of flushes by host.
    pub paces: BTreeMap<String, [RunPace; 2]>,
    /// What went wrong, in words.
    pub troubles: Vec<String>,
}

impl RunStory {
    /// Adds up the bytes of all datasets.
    pub fn bytes(&self) -> u64 {
        self.points.iter().fold(0, |sum, point| sum.saturating_add(point.bytes))
    }

    /// Adds up the bytes of all datasets that have been in the caches.
    pub fn cached(&self) -> u64 {
        self.points.iter().fold(0, |sum, point| sum.saturating_add(point.cached))
    }

    fn point(&mut self, id: u64) -> Option<&mut Point> {
        self.points.iter_mut().rev().find(|point| point.id == id)
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut Point)) {
        self.point(id).map(change);
    }
}

pub(super) fn stories(events: &[Logged]) -> Vec<RunStory> {
    let mut runs: Vec<RunStory> = Vec::new();
    for event in events {
        let Ok(time) = event.time.parse::<Timestamp>() else { continue };
        let time = time.unix_seconds();
        match event.get("event") {
            "START" => runs.push(begun(event, time)),
            "FLUSH_END" => flushed(&mut runs, event, time),
            "NODE_SEAL" | "NODE_FLUSH" => moved(&mut runs, event, time),
            _ => runs.last_mut().into_iter().for_each(|run| tell(run, event, time)),
        }
    }
    runs
}

/// The pace of a node of a launch that was killed is logged by the next one, with the time of the
/// last sign.
fn moved(runs: &mut [RunStory], event: &Logged, time: u64) {
    let Some(run) = runs.iter_mut().rev().find(|run| run.started <= time) else { return };
    run.seen = run.seen.max(time);
    let bytes = event.get("bytes").parse().unwrap_or(0);
    let nanos = (seconds_of(event).unwrap_or(0.0) * 1e9) as u64;
    let paces = run.paces.entry(event.get("note").to_owned()).or_default();
    paces[usize::from(event.get("event") == "NODE_FLUSH")] = RunPace { bytes, nanos };
}

/// The note is `4 ranks, 2 nodes, <prefix>`.
fn begun(event: &Logged, time: u64) -> RunStory {
    let mut numbers = event.get("note").split(", ").map(|part| part.split(' ').next());
    let mut number = || numbers.next().flatten().and_then(|text| text.parse().ok()).unwrap_or(0);
    RunStory {
        job: event.get("jobid").to_owned(),
        user: event.get("user").to_owned(),
        ranks: number(),
        nodes: number(),
        started: time,
        seen: time,
        ..RunStory::default()
    }
}

fn tell(run: &mut RunStory, event: &Logged, time: u64) {
    // A person's own events may have any time, and are no sign of life.
    let of_run = !matches!(event.get("event"), "NODE_FAIL" | "FAILED");
    if of_run {
        run.seen = run.seen.max(time);
    }
    let number = |key: &str| event.get(key).parse::<u64>().unwrap_or(0);
    let seconds = seconds_of(event);
    let (id, name, note) = (number("dset"), event.get("name"), event.get("note"));
    let trouble = |what: &str| {
        let of = if name.is_empty() { String::new() } else { format!(": {name}") };
        let why = if note.is_empty() { String::new() } else { format!(": {note}") };
        format!("{what}{of}{why}")
    };
    match event.get("event") {
        "STARTED" => run.start_seconds = seconds,
        "OFFERED" | "FETCH" | "CHECKED" if run.start_seconds.is_none() => offered(run, event, id),
        "REBUILD" => run.rebuilt = true,
        "SEALED" => {
            let (files, bytes) = (number("files"), number("bytes"));
            let known = run.points.iter().position(|point| point.id == id);
            let was = known.map(|at| run.points.remove(at)).unwrap_or_default();
            let (name, sealed, seal_seconds) = (name.to_owned(), time, seconds);
            let flushed = if note == SEALED_ON_PREFIX { Some(time) } else { was.flushed };
            let cached = bytes.saturating_sub(past_of(note, bytes));
            let now = Point { id, name, sealed, files, bytes, cached, ..was };
            run.points.push(Point { seal_seconds, flushed, ..now });
        }
        "CHECKPOINT_END" | "OUTPUT_END" => run.change(id, |point| point.cost_seconds = seconds),
        "EXPOSED" => run.change(id, |point| point.exposed_seconds = seconds),
        "FLUSH_FAILED" => {
            run.change(id, |point| point.failed = Some(note.to_owned()));
            run.troubles.push(trouble("a flush failed"));
        }
        "EVICTED" if note == GIVEN_UP => run.change(id, |point| point.spared = true),
        "DROPPED" => run.troubles.push(trouble("a dataset was dropped")),
        "WITHHELD" => run.troubles.push(trouble("not offered at the start")),
        "FALLBACK" => run.troubles.push(trouble("files went straight to the prefix")),
        // Who has said how it ended did not die.
        "FAILED" if run.close == Close::Killed && run.failed.is_none() => {
            run.seen = run.seen.max(time);
            run.failed = Some(time);
        }
        "NODE_FAIL" => run.troubles.push(trouble("a node was found to be down")),
        "PASSED" => {
            let (files, bytes) = (number("files"), number("bytes"));
            let passed = RunPassed { files, bytes, example: name.to_owned() };
            run.passed.insert(note.to_owned(), passed);
            run.passed_of_all = true;
        }
        "HALT" => {
            run.close = Close::Halted;
            run.troubles.push(trouble("halted"));
        }
        "END" => run.close = Close::Ended,
        "EXIT" if run.close != Close::Halted => run.close = Close::Exited,
        _ => {}
    }
}

/// Bytes of a dataset that the program has written to the prefix itself, by the note of its seal.
fn past_of(note: &str, bytes: u64) -> u64 {
    let Some(rest) = note.strip_prefix(SEALED_ON_PREFIX) else { return 0 };
    let part = rest.strip_prefix(": ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    part.unwrap_or(bytes)
}

/// The dataset may be one of an earlier launch.
fn flushed(runs: &mut [RunStory], event: &Logged, time: u64) {
    let Some(last) = runs.last_mut() else { return };
    last.seen = last.seen.max(time);
    let Ok(id) = event.get("dset").parse() else { return };
    if let Some(point) = runs.iter_mut().rev().find_map(|run| run.point(id)) {
        point.flushed = Some(time);
        point.flush_seconds = seconds_of(event);
        point.failed = None;
    }
}

fn seconds_of(event: &Logged) -> Option<f64> {
    event.get("secs").parse::<f64>().ok().filter(|one| one.is_finite())
}

/// The note of a dataset on the prefix says what is wrong with it.
fn offered(run: &mut RunStory, event: &Logged, id: u64) {
    let good = event.get("event") == "OFFERED" || event.get("note").is_empty();
    let newer = run.went_on_from.as_ref().is_none_or(|(known, _)| id >= *known);
    if good && newer && id > 0 {
        run.went_on_from = Some((id, event.get("name").to_owned()));
    }
}

pub(super) fn add_record(runs: &mut Vec<RunStory>, record: &RunRecord, lives: bool) {
    let is_same = |run: &RunStory| run.started.abs_diff(record.started) <= SAME_START;
    if !runs.last().is_some_and(is_same) {
        runs.push(RunStory { started: record.started, ..RunStory::default() });
        runs.sort_by_key(|run| run.started);
    }
    let Some(run) = runs.iter_mut().rev().find(|run| is_same(run)) else { return };
    (run.job, run.user) = (record.job.clone(), record.user.clone());
    (run.ranks, run.nodes) = (record.ranks, record.nodes.len() as u64);
    run.seen = run.seen.max(record.updated);
    match record.end.as_ref() {
        Some(end) => {
            run.seen = end.time.max(run.started);
            if run.close != Close::Halted {
                run.close = if end.how == "END" { Close::Ended } else { Close::Exited };
            }
        }
        None if lives => run.close = Close::Runs,
        None => {}
    }
    let is_logged = !run.points.is_empty() || run.start_seconds.is_some();
    if !is_logged {
        add_datasets(run, record);
    }
    if run.paces.is_empty() {
        let moved = record.nodes.iter().map(|(host, node)| (host, [node.sealed, node.flushed]));
        let moved = moved.filter(|(_, paces)| paces.iter().any(|pace| pace.bytes > 0));
        run.paces = moved.map(|(host, paces)| (host.clone(), paces)).collect();
    }
    if !record.passed.is_empty() {
        run.passed.clone_from(&record.passed);
        run.passed_of_all = record.passed_of_all;
    }
    run.troubles.extend(record.warnings.iter().cloned());
}

fn add_datasets(run: &mut RunStory, record: &RunRecord) {
    let offers = record.events.iter().filter(|event| event.what == "OFFERED");
    run.rebuilt = record.events.iter().any(|event| event.what == "REBUILD");
    // Its text begins with `<name> (dataset <id>)`.
    let ids = offers.filter_map(|event| {
        let (name, rest) = event.text.split_once(" (dataset ")?;
        Some((rest.split_once(')')?.0.parse::<u64>().ok()?, name.to_owned()))
    });
    run.went_on_from = ids.max();
    for (id, one) in &record.datasets {
        // What a start was offered has no seal of its own.
        if one.seal_seconds.is_none() || one.sealed < record.started {
            continue;
        }
        let seconds = one.flush.seconds.unwrap_or(0.0) as u64;
        let flushed = one.on_prefix.then(|| one.sealed.saturating_add(seconds));
        run.points.push(Point {
            id: *id,
            name: one.name.clone(),
            sealed: one.sealed,
            files: one.files,
            bytes: one.bytes,
            cached: one.cached,
            seal_seconds: one.seal_seconds,
            exposed_seconds: one.exposed_seconds,
            flush_seconds: one.flush.seconds,
            flushed,
            failed: one.flush.failed.clone(),
            ..Point::default()
        });
    }
    run.points.sort_by_key(|point| point.sealed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::parse_line;
    use crate::records::{RunDataset, RunEnd, RunEvent};

    fn log(lines: &[(u64, &str)]) -> Vec<Logged> {
        let line = |(at, text): &(u64, &str)| {
            let time = Timestamp::from_unix_seconds(1_700_000_000 + at);
            parse_line(&format!("{time}: user=me, jobid=7, host=n1, event={text}")).expect("a line")
        };
        lines.iter().map(line).collect()
    }

    fn two_launches() -> Vec<Logged> {
        log(&[
            (0, "START, note=\"4 ranks, 2 nodes, /p\""),
            (1, "STARTED, secs=0.5"),
            (10, "SEALED, dset=1, name=\"c.1\", secs=0.2, files=4, bytes=400"),
            (10, "CHECKPOINT_END, dset=1, name=\"c.1\", secs=1.5"),
            (12, "FLUSH_END, dset=1, name=\"c.1\", secs=2.0, files=4, bytes=400"),
            (13, "EVICTED, dset=1, name=\"c.1\""),
            (20, "SEALED, dset=2, name=\"c.2\", secs=0.2, files=4, bytes=400"),
            (
                25,
                "SEALED, dset=9, name=\"o.9\", secs=0.2, files=1, bytes=1, note=\"on the prefix\"",
            ),
            (40, "EVICTED, dset=2, name=\"c.2\", note=\"given up by the program\""),
            (50, "NODE_FAIL, note=\"n2\""),
            (52, "FAILED, note=\"run 1: exit status 137\""),
            (51, "NODE_SEAL, secs=0.4, files=0, bytes=800, note=\"n1\""),
            (60, "START, note=\"4 ranks, 3 nodes, /p\""),
            (61, "REBUILD, dset=2, name=\"c.2\", note=\"XOR: ranks [1]\""),
            (61, "OFFERED, dset=2, name=\"c.2\", files=4, bytes=400"),
            (61, "OFFERED, dset=1, name=\"c.1\", files=4, bytes=400"),
            (62, "STARTED, secs=1.0"),
            (70, "PASSED, name=\"run.log\", files=1, bytes=9, note=\"it matches no pattern\""),
            (71, "END, secs=11.0"),
        ])
    }

    #[test]
    fn events_become_launches() {
        let runs = stories(&two_launches());
        assert_eq!(runs.len(), 2);
        let (first, second) = (&runs[0], &runs[1]);
        assert_eq!((first.ranks, first.nodes, first.close), (4, 2, Close::Killed));
        assert_eq!(first.seen - first.started, 52);
        assert_eq!(first.failed, Some(1_700_000_052));
        assert_eq!(first.paces["n1"][0], RunPace { bytes: 800, nanos: 400_000_000 });
        assert_eq!(first.points.len(), 3);
        assert_eq!(first.points[2].flushed, Some(1_700_000_025));
        assert_eq!((first.points[0].spared, first.points[1].spared), (false, true));
        let one = &first.points[0];
        assert_eq!((one.cost_seconds, one.seal_seconds), (Some(1.5), Some(0.2)));
        assert_eq!((one.flush_seconds, one.flushed), (Some(2.0), Some(1_700_000_012)));
        assert_eq!(first.troubles, ["a node was found to be down: n2"]);
        assert_eq!((second.nodes, second.close, second.rebuilt), (3, Close::Ended, true));
        assert_eq!(second.went_on_from, Some((2, "c.2".into())));
        assert_eq!(second.passed["it matches no pattern"].bytes, 9);
    }

    #[test]
    fn only_what_was_in_the_caches_is_cached() {
        let seal = |note: &str| {
            format!("SEALED, dset=2, name=\"c.2\", secs=0.2, files=4, bytes=400{note}")
        };
        for (note, cached) in [
            ("", 400),
            (", note=\"on the prefix\"", 0),
            (", note=\"on the prefix: 300 bytes\"", 100),
            (", note=\"on the prefix: 900 bytes\"", 0),
            (", note=\"something else\"", 400),
        ] {
            let start = "START, note=\"4 ranks, 2 nodes, /p\"";
            let runs = stories(&log(&[(0, start), (10, &seal(note))]));
            assert_eq!((runs[0].bytes(), runs[0].cached()), (400, cached), "{note}");
            let is_flushed = runs[0].points[0].flushed.is_some();
            assert_eq!(is_flushed, note.ends_with("prefix\""), "{note}");
        }
        let dataset = RunDataset {
            sealed: 1_700_000_065,
            seal_seconds: Some(0.1),
            bytes: 400,
            cached: 100,
            ..RunDataset::default()
        };
        let record = RunRecord {
            started: 1_700_000_061,
            datasets: [(3, dataset)].into(),
            ..RunRecord::default()
        };
        let mut runs = Vec::new();
        add_record(&mut runs, &record, false);
        assert_eq!((runs[0].bytes(), runs[0].cached()), (400, 100));
    }

    #[test]
    fn the_record_is_the_last_launch_or_adds_to_it() {
        let dataset = RunDataset {
            name: "c.3".into(),
            sealed: 1_700_000_065,
            seal_seconds: Some(0.1),
            ..RunDataset::default()
        };
        let offered =
            RunEvent { time: 0.0, what: "OFFERED".into(), text: "c.2 (dataset 2); 4 files".into() };
        let record = RunRecord {
            started: 1_700_000_061,
            updated: 1_700_000_070,
            end: Some(RunEnd { how: "END".into(), time: 1_700_000_071 }),
            datasets: [(2, RunDataset::default()), (3, dataset)].into(),
            events: vec![offered],
            ..RunRecord::default()
        };
        let mut runs = Vec::new();
        add_record(&mut runs, &record, false);
        assert_eq!((runs.len(), runs[0].points.len(), runs[0].close), (1, 1, Close::Ended));
        assert_eq!(runs[0].went_on_from, Some((2, "c.2".into())));
        let mut runs = stories(&two_launches());
        add_record(&mut runs, &record, false);
        assert_eq!((runs.len(), runs[1].points.len()), (2, 0));
        let mut runs = stories(&two_launches()[..8]);
        add_record(&mut runs, &RunRecord { end: None, ..record }, true);
        assert_eq!((runs.len(), runs[1].close), (2, Close::Runs));
    }
}
