//! `scr explain`: what a message of SCR means, why it is there, and what can be done; for one id,
//! or for all that the output of a job has.

use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, IsTerminal as _, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::process::ExitCode;

use scr_core::error::{Error, Result};
use scr_core::log::messages::{self, Id, Message, SUBJECTS};
use serde_json::{Value, json};

use crate::base::say;

#[derive(clap::Args)]
#[command(after_help = "\
A line of SCR ends with the number of its message, as in (SCR-2001). Without an argument all \
messages are listed, unless a file or a pipe is standard input: then that is read.\n
The exit status is 0; 1 if there is no such message, or a file cannot be read; 2 if an argument is \
wrong. Examples:\n
    scr explain SCR-2001        one message (2001 will do)
    scr explain slurm-4711.out  each message in the output of a job, once
    mpirun -n 4 ./app 2>&1 | scr explain -")]
pub struct Args {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
    /// Print the page of the guide that has them all (docs/guide/messages.md is made so).
    #[arg(long, hide = true)]
    markdown: bool,
    /// Ids of messages, and files that have some; - is standard input.
    #[arg(value_name = "ID|FILE")]
    words: Vec<String>,
}

const COLUMNS: usize = 100;
const PAGE_COLUMNS: usize = 118;
/// Longest part of a line of a log that is shown, in characters.
const LINE_CHARS: usize = 300;

/// A message, and where a log has it.
struct Found {
    message: &'static Message,
    /// The file, the number of its first line with the message, that line, and how many have it.
    place: Option<(String, usize, String, usize)>,
}

pub fn run(args: &Args) -> ExitCode {
    if args.markdown {
        return say::print(&page());
    }
    let piped = args.words.is_empty() && is_fed();
    let words = if piped { &["-".to_owned()][..] } else { &args.words };
    if words.is_empty() {
        return say::print(&if args.json { in_json(&every()) } else { list() });
    }
    let (mut found, mut failed) = (Vec::new(), false);
    for word in words {
        match explain(word) {
            Ok(mut all) => found.append(&mut all),
            Err(error) => {
                say::complain("explain", &error);
                failed = true;
            }
        }
    }
    let text = match args.json {
        true => in_json(&found),
        false if found.is_empty() && !failed => "no message of SCR is in it\n".to_owned(),
        false => found.iter().map(in_words).collect::<Vec<_>>().join("\n"),
    };
    let printed = say::print(&text);
    if failed { ExitCode::FAILURE } else { printed }
}

/// Whether standard input is a file or a pipe: somebody has sent something.
fn is_fed() -> bool {
    let sent = |found: Metadata| found.is_file() || found.file_type().is_fifo();
    !std::io::stdin().is_terminal() && std::fs::metadata("/dev/stdin").is_ok_and(sent)
}

fn explain(word: &str) -> Result<Vec<Found>> {
    if let Some(number) = number_of(word) {
        let found = number.parse().ok().and_then(messages::find);
        return match found {
            Some(message) => Ok(vec![Found { message, place: None }]),
            None => Err(unknown(word, number.parse().unwrap_or(u16::MAX))),
        };
    }
    if word == "-" {
        return read_log("standard input", std::io::stdin().lock());
    }
    match File::open(word) {
        Ok(file) => read_log(word, file),
        Err(error) => Err(Error::io("cannot read", word, error)),
    }
}

/// The digits of `SCR-2001`, `scr-2001`, `(SCR-2001)` or `2001`.
fn number_of(word: &str) -> Option<&str> {
    let bare = word.trim_matches(['(', ')', ',', '.', ':']);
    let digits = match bare.get(..4) {
        Some(head) if head.eq_ignore_ascii_case("SCR-") => &bare[4..],
        _ => bare,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(digits)
}

fn unknown(word: &str, number: u16) -> Error {
    let nearest = messages::all().min_by_key(|one| one.id.number().abs_diff(number));
    let hint = nearest.map(|one| format!("; the nearest is {}: {}", one.id, one.title));
    Error::Missing(format!("there is no message {word}{}", hint.unwrap_or_default()))
}

/// Each message that a log has, in the order of their first lines.
fn read_log(name: &str, log: impl Read) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    let (mut log, mut line) = (BufReader::new(log), Vec::new());
    for at in 1.. {
        line.clear();
        let read = log.read_until(b'\n', &mut line);
        if read.map_err(|error| Error::io("cannot read", name, error))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        for id in ids_in(&text) {
            let same = found.iter_mut().find(|one| one.message.id == id);
            match (same, messages::find(id.number())) {
                (Some(Found { place: Some((.., count)), .. }), _) => *count += 1,
                (_, Some(message)) => {
                    let shown = text.trim_end().chars().take(LINE_CHARS);
                    let shown = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
                    found.push(Found { message, place: Some((name.to_owned(), at, shown, 1)) });
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

fn ids_in(line: &str) -> impl Iterator<Item = Id> {
    line.match_indices("SCR-").filter_map(|(at, mark)| {
        let digits = &line[at + mark.len()..];
        let end = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        Id::of_number(digits[..end].parse().ok()?)
    })
}

fn every() -> Vec<Found> {
    messages::all().map(|message| Found { message, place: None }).collect()
}

fn list() -> String {
    let mut text = String::new();
    for (subject, messages) in SUBJECTS {
        text += &format!("{subject}\n");
        messages.iter().for_each(|one| text += &format!("  {}  {}\n", one.id, one.title));
        text.push('\n');
    }
    text + "scr explain ID says why, what SCR does then, and what you can do.\n"
}

fn in_words(found: &Found) -> String {
    let Message { id, title, cause, done, cure, .. } = found.message;
    let mut text = format!("{id}: {title}\n");
    if let Some((name, at, line, count)) = &found.place {
        let more = if *count > 1 { format!(", {count} lines") } else { String::new() };
        text += &wrapped(&format!("  {name}, line {at}{more}: {line}"), 4, COLUMNS);
    }
    for (label, part) in [("why:", cause), ("SCR:", done), ("you:", cure)] {
        text += &wrapped(&format!("  {label} {part}"), 7, COLUMNS);
    }
    text
}

fn in_json(all: &[Found]) -> String {
    let one = |found: &Found| {
        let Message { id, title, cause, done, cure, .. } = found.message;
        let place = found.place.as_ref().map_or(Value::Null, |(name, at, line, count)| {
            json!({ "file": name, "line": at, "text": line, "lines": count })
        });
        json!({
            "id": id.to_string(), "title": title, "cause": cause, "done": done, "cure": cure,
            "found": place,
        })
    };
    format!("{:#}\n", Value::Array(all.iter().map(one).collect()))
}

fn page() -> String {
    let mut text = "# Messages\n\n".to_owned();
    text += &wrapped(
        "Each line of SCR begins with `SCR: ` and ends with the id of its message. `scr explain \
         ID` prints what this page has about it, and `scr explain FILE` what it has about all that \
         is in the output of a job. (The page is made by `scr explain --markdown`.)",
        0,
        PAGE_COLUMNS,
    );
    for (subject, messages) in SUBJECTS {
        text += &format!("\n## {subject}\n");
        for Message { id, title, cause, done, cure, .. } in messages {
            text += &format!("\n### {id}: {title}\n");
            for (label, part) in [("Why", cause), ("What SCR does", done), ("What to do", cure)] {
                let part = part.replace('<', "\\<").replace('*', "\\*").replace('_', "\\_");
                text += &wrapped(&format!("* **{label}.** {part}"), 2, PAGE_COLUMNS);
            }
        }
    }
    text
}

/// Lines of at most `columns` characters, those after the first `indent` to the right.
fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let begin = text.len() - text.trim_start().len();
    let (mut lines, mut line) = (String::new(), " ".repeat(begin));
    for word in text.split_whitespace() {
        let is_first = line.trim().is_empty();
        if !is_first && line.chars().count() + 1 + word.chars().count() > columns {
            lines += &format!("{line}\n");
            line = " ".repeat(indent) + word;
        } else {
            line += &format!("{}{word}", if is_first { "" } else { " " });
        }
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_in_each_form() {
        for word in ["SCR-2001", "scr-2001", "2001", "(SCR-2001)", "SCR-2001."] {
            assert_eq!(number_of(word), Some("2001"), "{word}");
        }
        for word in ["", "SCR-", "SCR-x1", "out.2001", "slurm-2001"] {
            assert_eq!(number_of(word), None, "{word}");
        }
    }

    #[test]
    fn a_log_of_any_bytes_has_each_message_once() {
        let log =
            b"SCR: a (SCR-2001)\n\xff\x00 SCR-9 SCR-99999999 SCR-\nSCR: b (SCR-2001)\nSCR-4001";
        let found = read_log("log", &log[..]).unwrap();
        let told: Vec<_> = found.iter().map(|one| (one.message.id.number(), &one.place)).collect();
        let place = |at, text: &str, count| Some(("log".into(), at, text.into(), count));
        let wanted = [(2001, &place(1, "SCR: a (SCR-2001)", 2)), (4001, &place(4, "SCR-4001", 1))];
        assert_eq!(told, wanted);
    }

    #[test]
    fn an_unknown_number_has_a_nearest_one() {
        assert!(unknown("SCR-2099", 2099).to_string().contains("the nearest is SCR-20"));
    }

    #[test]
    fn long_texts_are_wrapped() {
        assert_eq!(wrapped("  a bb ccc dddd", 3, 8), "  a bb\n   ccc\n   dddd\n");
    }
}
