//! The log of events: what is written where, and that nothing ever waits for it.

use std::io::Read as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use scr_core::events::{Database, Event, EventLog, EventSink, LoggedJob, Syslog, TextFile};
use scr_core::log;
use scr_core::records::Zone;

const LIMIT: Duration = Duration::from_secs(20);

fn job() -> LoggedJob {
    let text = |word: &str| word.to_string();
    LoggedJob {
        user: text("ann"),
        job_id: text("7"),
        host: text("n1"),
        launch: text("f00d"),
        ..LoggedJob::default()
    }
}

fn events() -> [Event; 2] {
    let mut sealed = Event::new("SEALED").dataset(3, "ckpt 30").seconds(0.25).size(4, 4096);
    sealed.time = 1_298_896_656.5;
    [sealed, Event::new("END").note("all\nis \"well\"")]
}

/// A text log whose readers are in India.
fn text_file(path: &Path) -> TextFile {
    let environment = [("TZ".to_string(), "Asia/Kolkata".to_string())].into();
    TextFile::new(path.into(), Zone::new(&environment))
}

fn write(sinks: Vec<Box<dyn EventSink>>) {
    let log = EventLog::start(job(), sinks, || ()).unwrap();
    events().into_iter().for_each(|event| log.tell(event));
    log.close(LIMIT, true);
}

#[test]
fn events_are_lines_of_a_text_file_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    (0..2).for_each(|_| write(vec![Box::new(text_file(&path))]));
    let mut text = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let first = "2011-02-28T18:07:36+05:30: user=ann, jobid=7, host=n1, event=SEALED, dset=3, \
                 name=\"ckpt 30\", secs=0.250000, files=4, bytes=4096";
    assert_eq!(lines[0], first);
    assert!(lines[1].ends_with("event=END, note=\"all is \"well\"\""), "{text}");
}

#[test]
fn events_are_rows_of_a_database_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.sqlite");
    (0..2).for_each(|_| write(vec![Box::new(Database::new(path.clone(), false, None, true))]));
    let connection = Connection::open(&path).unwrap();
    let query = "SELECT count(*), min(dataset), max(seconds), max(bytes), min(unix) FROM events
                 WHERE jobid = '7' AND event = 'SEALED' AND time = '2011-02-28T12:37:36'";
    let row: (i64, i64, f64, i64, f64) = connection
        .query_row(query, [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .unwrap();
    assert_eq!(row, (2, 3, 0.25, 4096, 1_298_896_656.5));
    let notes: i64 = connection
        .query_row("SELECT count(*) FROM events WHERE note LIKE '%\"well\"'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(notes, 2);
}

#[test]
fn the_system_log_gets_priority_tag_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let system = UnixDatagram::bind(&path).unwrap();
    system.set_read_timeout(Some(LIMIT)).unwrap();
    write(vec![Box::new(Syslog::at(path))]);
    let mut buffer = [0; 1024];
    let length = system.recv(&mut buffer).unwrap();
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let head = format!("<190>SCR[{}]: user=ann", std::process::id());
    assert!(text.starts_with(&head) && text.contains("event=SEALED"), "{text}");
}

/// Says how many events come together.
struct Counting(Sender<usize>);

impl EventSink for Counting {
    fn name(&self) -> String {
        "a place that counts".into()
    }

    fn write(&mut self, _: &LoggedJob, events: &[Event]) -> Result<(), String> {
        self.0.send(events.len()).map_err(|error| error.to_string())
    }
}

#[test]
fn what_begins_is_written_with_what_comes_of_it() {
    let (counts, counted) = channel();
    let log = EventLog::start(job(), vec![Box::new(Counting(counts))], || ()).unwrap();
    log.tell(Event::new("CHECKPOINT_BEGIN"));
    assert!(counted.recv_timeout(Duration::from_millis(500)).is_err(), "nobody needs it alone");
    for what in ["SEALED", "CONFIRMED", "COMPUTE_BEGIN"] {
        log.tell(Event::new(what));
    }
    assert_eq!(counted.recv_timeout(LIMIT), Ok(4));
    // Not again for a while, but before the end in any case.
    let begin = Instant::now();
    log.tell(Event::new("EVICTED"));
    log.tell(Event::new("FLUSH_BEGIN"));
    log.close(LIMIT, true);
    assert_eq!(counted.recv_timeout(LIMIT), Ok(2));
    assert!(begin.elapsed() < Duration::from_millis(900), "the end does not wait for the time");
}

/// Writes nothing until it may.
struct Stuck(Receiver<()>);

impl EventSink for Stuck {
    fn name(&self) -> String {
        "a place that hangs".into()
    }

    fn write(&mut self, _: &LoggedJob, _: &[Event]) -> Result<(), String> {
        let _ = self.0.recv();
        Ok(())
    }
}

#[test]
fn nobody_waits_for_a_place_that_hangs() {
    let (go, stuck) = channel();
    let log = EventLog::start(job(), vec![Box::new(Stuck(stuck))], || ()).unwrap();
    let begin = Instant::now();
    // More than may wait.
    (0..20_000).for_each(|_| log.tell(Event::new("SEALED")));
    let ((), said) = log::captured(|| log.close(Duration::from_millis(50), true));
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
    assert_eq!(said, ["the log of events is not complete: it could not keep up (SCR-8001)"]);
    drop(go);
}

/// What a sink says for a path that cannot be written to.
fn refusal(sink: &mut dyn EventSink) -> String {
    sink.write(&job(), &events()).unwrap_err()
}

#[test]
fn a_place_that_cannot_be_written_to_is_left_alone_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = Path::new("/nonexistent/place");
    assert!(refusal(&mut text_file(nowhere)).contains("No such file"));
    assert!(refusal(&mut Database::new(nowhere.into(), false, None, true)).contains("open"));
    assert!(refusal(&mut Syslog::at(nowhere.into())).contains("No such file"));
    let damaged = dir.path().join("damaged");
    std::fs::write(&damaged, [7; 4096]).unwrap();
    assert!(refusal(&mut Database::new(damaged, false, None, true)).contains("not a database"));
    let path = dir.path().join("log");
    let instead = text_file(&path);
    write(vec![Box::new(Database::new(nowhere.into(), false, Some(instead), false))]);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2, "in its place");
    std::fs::remove_file(&path).unwrap();
    let bad = Database::new(nowhere.into(), false, None, true);
    write(vec![Box::new(bad), Box::new(text_file(&path))]);
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 2);
}
