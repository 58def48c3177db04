//! `scr log`: the log of events, shown and added to (`scr_log_event` of manual 1.1, section
//! 11.2.3).

use std::process::ExitCode;

use clap::Subcommand;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use scr_core::error::Result;
use scr_core::events::{Event, Filter, Logged};
use scr_core::log::messages;
use scr_core::operations::{log_event, read_log};
use scr_core::params::keys;
use serde_json::{Map, Value};

use crate::base::say;
use crate::base::settings::{existing, load_settings, settings_of, zone};

#[derive(clap::Args)]
#[command(after_help = "\
A run writes the log unless SCR_LOG_ENABLE=0. Times are shown as local ones with their zone, with \
--json in UTC. The exit status is 0, also if no event fits; 1 if the log cannot \
be read or written. Examples:\n
    scr log show --event FLUSH_END --last 3
    scr log add NODE_FAIL --note 'n3: does not answer'")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY", global = true)]
    prefix: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show events, oldest first: all, or those that fit every option.
    Show(Show),
    /// Write an event of your own, if logging is on.
    Add(Add),
}

#[derive(clap::Args)]
struct Show {
    /// Only what happened under this name, as CHECKPOINT_END.
    #[arg(short, long, value_name = "NAME")]
    event: Option<String>,
    /// Only what concerns this dataset.
    #[arg(short, long, value_name = "ID")]
    dataset: Option<u64>,
    /// Only events of this job.
    #[arg(short, long, value_name = "ID")]
    job: Option<String>,
    /// Only events of this local time and later: 2027-01-31T18:00:00 (with +01:00 or Z: of that
    /// zone), or, in UTC, the beginning of it.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    since: Option<String>,
    /// Only the last N.
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
    /// From the database (SCR_LOG_DB_NAME) alone; else what only the text log has comes along.
    #[arg(long)]
    database: bool,
    /// As JSON: a list of objects.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Add {
    /// What happened.
    #[arg(value_name = "NAME", required_unless_present = "type", value_parser = name)]
    event: Option<String>,
    /// The same, as the classic command takes it.
    #[arg(short = 'T', long, value_name = "NAME", hide = true, conflicts_with = "event",
          value_parser = name)]
    r#type: Option<String>,
    /// More, for people.
    #[arg(short = 'X', long, value_name = "TEXT")]
    note: Option<String>,
    /// Id of the dataset that it is about.
    #[arg(short = 'D', long, value_name = "ID")]
    dataset: Option<u64>,
    /// The dataset's name.
    #[arg(short = 'N', long, value_name = "NAME", requires = "dataset")]
    name: Option<String>,
    /// When it began, in seconds since 1970; now by default.
    #[arg(short = 'S', long, value_name = "SECONDS", value_parser = seconds)]
    start: Option<f64>,
    /// How long it took, in seconds.
    #[arg(short = 'L', long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// The job, instead of that of the environment.
    #[arg(short = 'i', long, alias = "jobid", value_name = "ID")]
    job: Option<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let prefix = args.prefix.as_deref();
    say::finish(
        "log",
        match &args.action {
            Action::Show(show) => shown(prefix, show),
            Action::Add(add) => added(prefix, add),
        },
    )
}

/// Takes a time, in this machine's zone if none is told, as the log writes it; or the beginning of
/// what the log writes, such as a year.
fn time(text: &str) -> std::result::Result<String, String> {
    let local = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::system()).ok();
    let shape = "0000-00-00T00:00:00";
    let whole = text.len() >= shape.len();
    let moment = || text.parse::<Timestamp>().ok().or_else(|| Some(local()?.timestamp()));
    if let Some(moment) = Some(()).filter(|()| whole).and_then(|()| moment()) {
        return Ok(moment.strftime("%Y-%m-%dT%H:%M:%S").to_string());
    }
    let fits = |(c, like): (char, char)| if like == '0' { c.is_ascii_digit() } else { c == like };
    match text.len() >= 4 && !whole && text.chars().zip(shape.chars()).all(fits) {
        true => Ok(text.to_owned()),
        false => Err("a time is 2027-01-31T18:00:00, or the beginning of that".to_owned()),
    }
}

fn name(text: &str) -> std::result::Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    match !text.is_empty() && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("the name of an event is one word of letters, digits and _".to_owned()),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|one| one.is_finite() && *one >= 0.0).ok_or_else(|| "no seconds".to_owned())
}

fn shown(prefix: Option<&str>, args: &Show) -> Result<String> {
    let (settings, _) = load_settings(prefix)?;
    existing(&settings.get(keys::PREFIX))?;
    let filter = Filter {
        event: args.event.clone(),
        dataset: args.dataset,
        job: args.job.clone(),
        since: args.since.clone(),
    };
    let mut found = read_log(&settings, &settings.get(keys::PREFIX), &filter, args.database)?;
    found.trouble.iter().for_each(|what| say::tell("log", messages::UNREADABLE, what));
    if found.unreadable > 0 {
        let text = format!("{} lines of the log are no events and are left out", found.unreadable);
        say::tell("log", messages::FILE_DAMAGED, &text);
    }
    let more = found.events.len().saturating_sub(args.last.unwrap_or(usize::MAX));
    found.events.drain(..more);
    if args.json {
        let all = found.events.iter().map(in_json).collect();
        return Ok(format!("{:#}\n", Value::Array(all)));
    }
    if found.events.is_empty() {
        say::narrate("log", "there is no such event");
    }
    let zone = zone();
    let local = |time: &str| time.parse().map_or(time.to_owned(), |moment| zone.write(moment));
    found.events.iter_mut().for_each(|one| one.time = local(&one.time));
    Ok(found.events.iter().map(|one| format!("{}\n", one.line())).collect())
}

fn in_json(one: &Logged) -> Value {
    let number = |text: &str| text.parse::<serde_json::Number>().ok().map(Value::Number);
    let value = |key: &str, text: &String| match key {
        "dset" | "secs" | "files" | "bytes" => number(text),
        _ => None,
    };
    let mut object = Map::new();
    // ISO 8601: the log is in UTC.
    object.insert("time".to_owned(), Value::String(format!("{}Z", one.time)));
    for (key, text) in &one.fields {
        let value = value(key, text).unwrap_or_else(|| Value::String(text.clone()));
        object.insert((*key).to_owned(), value);
    }
    Value::Object(object)
}

fn added(prefix: Option<&str>, args: &Add) -> Result<String> {
    let (settings, mut environment) = load_settings(prefix)?;
    let settings = match &args.job {
        None => settings,
        Some(job) => {
            environment.insert("SCR_JOB_ID".into(), job.clone());
            settings_of(&environment)?
        }
    };
    let what = args.event.as_ref().or(args.r#type.as_ref()).cloned().unwrap_or_default();
    let mut event = Event::new(what);
    event.time = args.start.unwrap_or(event.time);
    event.seconds = args.seconds;
    event.note = args.note.clone().unwrap_or_default();
    event.dataset = args.dataset.map(|id| (id, args.name.clone().unwrap_or_default()));
    if log_event(&settings, &environment, event)? == 0 {
        let text = "logging is off (SCR_LOG_ENABLE, SCR_LOG_DB_ENABLE): nothing is written";
        say::tell("log", messages::LOG_OFF, text);
    }
    Ok(String::new())
}
