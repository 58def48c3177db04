//! `scr halt`: conditions under which a run is to end (manual 1.1, section 9.5).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, Timestamp, Zoned};
use scr_core::log::messages;
use scr_core::operations::{HaltCondition, HaltWish, change_halt_file, read_halt_file};
use scr_core::records::{FINALIZE_CALLED, HaltFile};
use scr_core::system::unix_seconds;
use serde_json::{Value, json};

use crate::base::say;
use crate::base::settings::{existing, prefix_or_default};
use crate::base::words::{iso, show};

/// The reason by which `scr run` knows that the run is not to come to its next checkpoint.
pub const IMMEDIATE: &str = "SCR_HALT_IMMEDIATE";

#[derive(clap::Args)]
#[command(after_help = "\
Without a condition the run halts at its next checkpoint. A run looks at the conditions when it \
begins and after each checkpoint; it flushes the newest one and every rank ends. A TIME is \
\"2027-01-31 18:00\", \"18:00\" (the next time that it is), \"+90m\" (from now), or seconds since \
1970. --json prints a list of objects with prefix, reason, checkpoints, after, before, seconds \
(times in seconds since 1970), and due: why it halts now. The exit status is 0, 1 if a halt file \
cannot be read or changed, 2 if an argument is wrong. \
Examples:\n
    scr halt /pfs/me/run                     halt at the next checkpoint
    scr halt --checkpoints 3 /pfs/me/run     after three more
    scr halt --unset checkpoints /pfs/me/run take that back")]
pub struct Args {
    /// Halt after so many checkpoints.
    #[arg(short, long, value_name = "N")]
    checkpoints: Option<u64>,
    /// Halt before this time: SCR_HALT_SECONDS before it, or as --seconds says.
    #[arg(short, long, value_name = "TIME")]
    before: Option<String>,
    /// Halt once this time has passed.
    #[arg(short, long, value_name = "TIME")]
    after: Option<String>,
    /// Halt so many seconds before the time of --before, or before the end of the allocation.
    #[arg(short, long, value_name = "N")]
    seconds: Option<u64>,
    /// Do not wait for a checkpoint: `scr run` kills the run at once, and starts no other.
    #[arg(short, long, conflicts_with = "reason")]
    immediate: bool,
    /// Take a condition back; may be given several times.
    #[arg(short, long, value_name = "CONDITION")]
    unset: Vec<Condition>,
    /// Only show the conditions.
    #[arg(
        short, long,
        conflicts_with_all =
            ["checkpoints", "before", "after", "seconds", "unset", "reason", "immediate", "remove"]
    )]
    list: bool,
    /// Take all conditions back.
    #[arg(short, long, conflicts_with_all = ["reason", "immediate", "unset"])]
    remove: bool,
    /// Why: is recorded, and stops the run at its next checkpoint.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print the conditions as JSON.
    #[arg(long)]
    json: bool,
    /// The runs' prefix directories; SCR_PREFIX or the working directory by default.
    #[arg(value_name = "PREFIX")]
    prefixes: Vec<PathBuf>,
    /// One more, as other commands take it.
    #[arg(long = "prefix", value_name = "DIRECTORY")]
    named: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Condition {
    Checkpoints,
    Before,
    After,
    Seconds,
    /// The order to halt now, or what a run has recorded as its reason.
    Reason,
    /// All of them.
    All,
}

pub fn run(args: &Args) -> ExitCode {
    let wishes = match wishes(args, &Zoned::now()) {
        Ok(wishes) => wishes,
        Err(error) => {
            say::tell("halt", messages::UNREADABLE, &error);
            return ExitCode::from(2);
        }
    };
    let mut prefixes = [args.prefixes.clone(), args.named.clone()].concat();
    if prefixes.is_empty() {
        prefixes.push(prefix_or_default(None));
    }
    let (mut text, mut all, mut failed) = (String::new(), Vec::new(), false);
    for prefix in &prefixes {
        let file = match args.list {
            true => existing(prefix).and_then(|()| read_halt_file(prefix)),
            false => change_halt_file(prefix, &wishes),
        };
        match file {
            Ok(file) => {
                let mut one = in_json(&file);
                one["prefix"] = json!(prefix.to_string_lossy());
                all.push(one);
                let _ = writeln!(text, "{}: {}", prefix.display(), describe(&file));
            }
            Err(error) => {
                say::complain("halt", &error);
                failed = true;
            }
        }
    }
    if args.json {
        text = format!("{:#}\n", Value::Array(all));
    }
    let printed = say::print(&text);
    if failed { ExitCode::FAILURE } else { printed }
}

/// Tells the conditions to programs.
pub fn in_json(file: &HaltFile) -> Value {
    json!({
        "reason": file.exit_reason,
        "checkpoints": file.checkpoints_left,
        "after": file.exit_after.map(iso),
        "before": file.exit_before.map(iso),
        "seconds": file.halt_seconds,
        "due": file.due(unix_seconds()),
    })
}

fn wishes(args: &Args, now: &Zoned) -> Result<Vec<HaltWish>, String> {
    let mut wishes = Vec::new();
    let all = args.remove.then_some(Condition::All);
    for condition in args.unset.iter().chain(&all) {
        let each = match condition {
            Condition::Checkpoints => vec![HaltCondition::Checkpoints],
            Condition::Before => vec![HaltCondition::Before],
            Condition::After => vec![HaltCondition::After],
            Condition::Seconds => vec![HaltCondition::Seconds],
            Condition::Reason => vec![HaltCondition::Reason],
            Condition::All => vec![
                HaltCondition::Checkpoints,
                HaltCondition::Before,
                HaltCondition::After,
                HaltCondition::Seconds,
                HaltCondition::Reason,
            ],
        };
        wishes.extend(each.into_iter().map(HaltWish::Unset));
    }
    wishes.extend(args.checkpoints.map(HaltWish::Checkpoints));
    let moment = |text: &Option<String>| text.as_deref().map(|text| time(text, now)).transpose();
    wishes.extend(moment(&args.before)?.map(HaltWish::Before));
    wishes.extend(moment(&args.after)?.map(HaltWish::After));
    wishes.extend(args.seconds.map(HaltWish::Seconds));
    wishes.extend(args.reason.clone().map(HaltWish::Now));
    wishes.extend(args.immediate.then(|| HaltWish::Now(IMMEDIATE.to_owned())));
    if wishes.is_empty() && !args.list {
        wishes.push(HaltWish::Now("SCR_HALT".into()));
    }
    Ok(wishes)
}

/// Seconds since 1970 of a time as a person writes it.
fn time(text: &str, now: &Zoned) -> Result<u64, String> {
    let wrong = || {
        format!(
            "\"{text}\" is no time; \"2027-01-31 18:00\", \"18:00\", \"+90m\" or seconds since \
             1970 is"
        )
    };
    let moment = if let Some(rest) = text.strip_prefix('+') {
        let later: SignedDuration = rest.parse().map_err(|_| wrong())?;
        now.timestamp().checked_add(later).map_err(|_| wrong())?
    } else if let Ok(seconds) = text.parse::<i64>() {
        Timestamp::from_second(seconds).map_err(|_| wrong())?
    } else if let Ok(date) = text.parse::<DateTime>() {
        date.to_zoned(now.time_zone().clone()).map_err(|_| wrong())?.timestamp()
    } else {
        let time: Time = text.parse().map_err(|_| wrong())?;
        let today = now.with().time(time).build().map_err(|_| wrong())?;
        let next = if today > *now { today } else { today.tomorrow().map_err(|_| wrong())? };
        next.timestamp()
    };
    u64::try_from(moment.as_second()).map_err(|_| wrong())
}

pub fn describe(file: &HaltFile) -> String {
    let mut parts = Vec::new();
    match file.exit_reason.as_deref() {
        Some(FINALIZE_CALLED) => parts.push("the last run came to its own end".to_string()),
        Some(reason) => parts.push(format!("halt now ({reason})")),
        None => {}
    }
    if let Some(left) = file.checkpoints_left {
        parts.push(format!("halt after {left} more checkpoints"));
    }
    if let Some(time) = file.exit_after {
        parts.push(format!("halt after {}", show(time)));
    }
    match (file.exit_before, file.halt_seconds) {
        (Some(time), Some(seconds)) => {
            parts.push(format!("halt {seconds} s before {}", show(time)));
        }
        (Some(time), None) => parts.push(format!("halt before {}", show(time))),
        (None, Some(seconds)) => {
            parts.push(format!("halt {seconds} s before the end of the allocation"));
        }
        (None, None) => {}
    }
    if parts.is_empty() { "no halt condition".into() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let now: Zoned = "2026-03-04T12:00:00+00:00[UTC]".parse().unwrap();
        let base = 1_772_625_600; // that moment
        for (text, want) in [
            ("+90m", base + 5400),
            ("+2h", base + 7200),
            ("1772625601", base + 1),
            ("18:00", base + 6 * 3600),
            ("06:30", base + 66_600),
            ("2026-03-05 12:00", base + 86_400),
            ("2026-03-05T12:00:30", base + 86_430),
        ] {
            assert_eq!(time(text, &now), Ok(want), "{text}");
        }
        for text in ["", "soon", "+", "25:00", "2026-13-01 12:00", "-5"] {
            assert!(time(text, &now).is_err(), "{text}");
        }
    }
}
