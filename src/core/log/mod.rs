//! Messages to people: one line each on standard error, beginning with `SCR: `. What may repeat
//! goes through [`warn_once`]: once in a process, and once among all that [`share`] a directory.
//! Each warning ends with an id of [`messages`].
//!
//! Texts carry names that a program or another user chose, so characters that would end the line or
//! command the terminal are written as in a program's source (`\n`, `\u{1b}`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use scr_abi::messages::{self, Id};

/// Gets each line without the prefix and without the end of line.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// More keys of [`warn_once`] are not printed: a thousand complaints are not read either.
const ONCE_MAX: usize = 1024;

/// Who speaks: the process, or a rank that shares its process with others ([`speak_as`]).
pub struct Voice {
    level: AtomicU8,
    sink: Mutex<Option<Sink>>,
    warned: Mutex<Option<HashSet<String>>>,
    /// A warning was of files.
    of_files: AtomicBool,
    /// Where the processes of the job claim what is said once.
    shared: Mutex<Option<PathBuf>>,
}

impl Voice {
    /// Speaks at level 0, on standard error.
    pub const fn new() -> Self {
        Voice {
            level: AtomicU8::new(0),
            sink: Mutex::new(None),
            warned: Mutex::new(None),
            of_files: AtomicBool::new(false),
            shared: Mutex::new(None),
        }
    }
}

impl Default for Voice {
    fn default() -> Self {
        Voice::new()
    }
}

static PROCESS: Voice = Voice::new();

thread_local! {
    static VOICE: RefCell<Option<Arc<Voice>>> = const { RefCell::new(None) };
}

/// Lets this thread speak from now on as one rank of several in the process; `None`: as the
/// process. Level, sink and what was said once are those of the voice.
pub fn speak_as(voice: Option<Arc<Voice>>) {
    // A thread that is ending has no voice of its own any more.
    let _ = VOICE.try_with(|own| *own.borrow_mut() = voice);
}

fn with_voice<T>(body: impl FnOnce(&Voice) -> T) -> T {
    let own = VOICE.try_with(|own| own.borrow().clone()).ok().flatten();
    body(own.as_deref().unwrap_or(&PROCESS))
}

thread_local! {
    static CAPTURED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Takes the value of `SCR_DEBUG`: 0 warnings only, 1 what was done, 2 and more details.
pub fn set_level(level: u8) {
    with_voice(|voice| voice.level.store(level, Ordering::Relaxed));
}

/// Callers can leave out the work of composing a message.
pub fn level() -> u8 {
    with_voice(|voice| voice.level.load(Ordering::Relaxed))
}

/// Sends all lines to `sink`; `None` brings standard error back.
pub fn set_sink(sink: Option<Sink>) {
    with_voice(|voice| *lock(&voice.sink) = sink);
}

/// Says `text` if the level in force is at least `at_level`, which counts from 1.
pub fn message(at_level: u8, text: impl Display) {
    if at_level.max(1) <= level() {
        emit(&text.to_string());
    }
}

/// Brings together the titles of which one reason tells. Equal ones are one: ranks may have a
/// dataset of several launches or seals.
pub fn by_reason<'a>(all: impl Iterator<Item = (&'a str, String)>) -> Vec<(&'a str, String)> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (reason, title) in all {
        match found.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, titles)) if titles.contains(&title) => {}
            Some((_, titles)) => titles.push(title),
            None => found.push((reason, vec![title])),
        }
    }
    found.into_iter().map(|(reason, titles)| (reason, titles.join(", "))).collect()
}

/// Says `text` at every level: something went wrong, `id`, and a person should know.
pub fn warn(id: Id, text: impl Display) {
    note_subject(id);
    emit(&id.close(&text.to_string()));
}

/// The thousands of ids are of subjects: these are of files as the program writes them, and of
/// checkpoints that are made of them.
fn note_subject(id: Id) {
    if (2000..4000).contains(&id.number()) {
        with_voice(|voice| voice.of_files.store(true, Ordering::Relaxed));
    }
}

/// Tells whether something was said that went wrong with files, or would have been, had no other
/// process said it.
pub fn has_warned_of_files() -> bool {
    with_voice(|voice| voice.of_files.load(Ordering::Relaxed))
}

/// Does what [`warn`] does, if a person wants to hear it, otherwise as [`message`] at level 1.
pub fn warn_if(is_missed: bool, id: Id, text: impl Display) {
    match is_missed {
        true => warn(id, text),
        false => message(1, text),
    }
}

/// Lets only one of the processes that share `dir` say what [`warn_once`] says: the first makes a
/// file there. `None`: each process speaks for itself.
pub fn share(dir: Option<PathBuf>) {
    with_voice(|voice| *lock(&voice.shared) = dir);
}

/// Says `text` at every level, but only the first time for this `id`, and below level 1 only if no
/// other process of the job has. Returns whether it is the first time in this process.
pub fn warn_once(id: Id, text: impl Display) -> bool {
    warn_once_for(id, "", text)
}

/// Does what [`warn_once`] does, once for each `subject`, such as a file's name; the same words are
/// not said for another one.
pub fn warn_once_for(id: Id, subject: &str, text: impl Display) -> bool {
    note_subject(id);
    let text = id.close(&text.to_string());
    let key = match subject {
        "" => id.to_string(),
        _ => format!("{id} {subject}"),
    };
    let (first, news, shared) = with_voice(|voice| {
        let mut warned = lock(&voice.warned);
        let warned = warned.get_or_insert_default();
        let first = warned.len() < ONCE_MAX && warned.insert(key.clone());
        let news = first && warned.insert(text.clone());
        (first, news, lock(&voice.shared).clone())
    });
    if first {
        match news && shared.is_none_or(|dir| claim(&dir, &key)) {
            true => emit(&text),
            false => message(1, text),
        }
    }
    first
}

/// Another process has said it if this is false. A person hears twice rather than not at all.
fn claim(dir: &Path, key: &str) -> bool {
    let name = key.replace('/', "_");
    if fs::create_dir_all(dir).is_err() {
        return true;
    }
    let made = OpenOptions::new().write(true).create_new(true).open(dir.join(name));
    !made.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
}

/// Runs `body` and returns, beside its result, the lines that this thread said meanwhile. For
/// tests.
pub fn captured<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    let outer = CAPTURED.replace(Some(Vec::new()));
    let result = body();
    (result, CAPTURED.replace(outer).unwrap_or_default())
}

/// `text` without characters that a terminal takes for more than a sign, or that reorder a line.
fn printable(text: &str) -> Cow<'_, str> {
    let commands = |c: char| {
        let reorders = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() || reorders || matches!(c, '\u{200e}' | '\u{200f}')
    };
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match commands(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Does what `printable` does, for several lines, with escapes that a JSON string may have.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let commands =
        |c: char| c != '\n' && printable(c.encode_utf8(&mut [0; 4])).len() > c.len_utf8();
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match commands(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    text.chars().map(shown).collect::<String>().into()
}

fn emit(text: &str) {
    let text = &*printable(text);
    let kept = CAPTURED.try_with(|captured| match captured.borrow_mut().as_mut() {
        Some(lines) => {
            lines.push(text.to_owned());
            true
        }
        None => false,
    });
    // A thread that is ending has no thread-local storage any more; its line is said all the same.
    if kept.unwrap_or(false) {
        return;
    }
    // Cloned, so that a sink may itself say something.
    let sink = with_voice(|voice| lock(&voice.sink).clone());
    match sink {
        Some(sink) => sink(text),
        // One write for the whole line: lines of several ranks then do not mix. If standard error
        // is gone, there is nobody to tell.
        None => drop(std::io::stderr().write_all(format!("SCR: {text}\n").as_bytes())),
    }
}

/// A panic elsewhere while the lock was held leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_result_command_no_terminal() {
        assert_eq!(printable_lines("a\nb\n"), "a\nb\n");
        assert_eq!(printable_lines("a\u{1b}[2J\nb\u{9b}\r\n"), "a\\u001b[2J\nb\\u009b\\u000d\n");
    }

    #[test]
    fn a_key_warns_once() {
        let ((first, second, other), lines) = captured(|| {
            let first = warn_once(messages::NO_ROOM, "no space in /dev/shm");
            (first, warn_once(messages::NO_ROOM, "again"), warn_once(messages::NO_LOCKS, "locks"))
        });
        assert!(first && !second && other);
        assert_eq!(lines, ["no space in /dev/shm (SCR-2001)", "locks (SCR-4014)"]);
    }

    #[test]
    fn the_same_words_are_not_said_for_another_key() {
        let (firsts, lines) = captured(|| {
            ["c", "d"].map(|name| warn_once_for(messages::LOST, name, "cannot open a file"))
        });
        assert_eq!(firsts, [true, true]);
        let expected = if level() == 0 { 1 } else { 2 };
        assert_eq!(lines, vec!["cannot open a file (SCR-3102)"; expected]);
    }

    #[test]
    fn ranks_of_one_process_speak_for_themselves() {
        let said = |voice: &Arc<Voice>| {
            speak_as(Some(voice.clone()));
            let said = warn_once(messages::HALT, "once");
            speak_as(None);
            said
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let voices = [(); 2].map(|()| {
            let (voice, lines) = (Arc::new(Voice::new()), lines.clone());
            *lock(&voice.sink) = Some(Arc::new(move |line| lock(&lines).push(line.to_owned())));
            voice
        });
        assert!(said(&voices[0]) && said(&voices[1]) && !said(&voices[0]));
        assert_eq!(*lock(&lines), ["once (SCR-5001)", "once (SCR-5001)"]);
        let (first, told) = captured(|| warn_once(messages::HALT, "the process"));
        assert!(first && told == ["the process (SCR-5001)"]);
    }

    #[test]
    fn one_process_of_a_job_speaks() {
        let dir = std::env::temp_dir().join(format!("scr-log-{}", std::process::id()));
        assert!(claim(&dir, "a/b") && !claim(&dir, "a/b") && claim(&dir, "c"));
        fs::remove_dir_all(&dir).unwrap();
        fs::write(&dir, "a file where the directory should be").unwrap();
        assert!(claim(&dir, "a/b"));
        fs::remove_file(&dir).unwrap();
    }

    #[test]
    fn names_neither_end_a_line_nor_reach_the_terminal_as_commands() {
        let ((), lines) = captured(|| {
            warn(messages::LOST, "ckpt/a\nSCR: b\u{1b}[31m\u{9b}2J\u{202e}\tc is lost");
            warn(messages::LOST, "(SCR-3102) caf\u{e9} 'x' \\n is left as it is");
        });
        let told = "ckpt/a\\nSCR: b\\u{1b}[31m\\u{9b}2J\\u{202e}\\tc is lost (SCR-3102)";
        assert_eq!(lines, [told, "(SCR-3102) caf\u{e9} 'x' \\n is left as it is"]);
    }

    #[test]
    fn level_decides() {
        let ((), lines) = captured(|| {
            message(level() + 1, "detail");
            message(0, "nothing is said without an id where nobody has asked");
            warn(messages::LOST, "trouble");
        });
        assert_eq!(lines, ["trouble (SCR-3102)"]);
    }
}
