//! Messages to people: one line each on standard error, beginning with `SCR: `.
//!
//! The level comes from the caller (`SCR_DEBUG`); nothing here reads the environment. One cause
//! gives one message, so what may repeat goes through [`warn_once`].

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where lines go. It gets each without the prefix and without the end of line.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// Largest number of different keys of [`warn_once`] that are remembered; more are not printed at
/// all, since a thousand different complaints are not read either.
const ONCE_MAX: usize = 1024;

static LEVEL: AtomicU8 = AtomicU8::new(0);
static SINK: Mutex<Option<Sink>> = Mutex::new(None);
static WARNED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

thread_local! {
    static CAPTURED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Sets the level, the value of `SCR_DEBUG`: 0 warnings only, 1 what was done, 2 and more details.
pub fn set_level(level: u8) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// The level in force, so that callers can leave out the work of composing a message.
#[must_use]
pub fn level() -> u8 {
    LEVEL.load(Ordering::Relaxed)
}

/// Sends all lines to `sink`; `None` brings standard error back.
pub fn set_sink(sink: Option<Sink>) {
    *lock(&SINK) = sink;
}

/// Says `text` if the level in force is at least `at_level`.
pub fn message(at_level: u8, text: impl Display) {
    if at_level <= level() {
        emit(&text.to_string());
    }
}

/// Says `text` at every level: something went wrong and a person should know.
pub fn warn(text: impl Display) {
    emit(&text.to_string());
}

/// Says `text` at every level, but only the first time for this `key` in this process. Returns
/// whether it was said.
pub fn warn_once(key: &str, text: impl Display) -> bool {
    let first = {
        let mut warned = lock(&WARNED);
        let warned = warned.get_or_insert_default();
        warned.len() < ONCE_MAX && warned.insert(key.to_owned())
    };
    if first {
        emit(&text.to_string());
    }
    first
}

/// Runs `body` and returns, beside its result, the lines that this thread said meanwhile. For
/// tests.
pub fn captured<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    let outer = CAPTURED.replace(Some(Vec::new()));
    let result = body();
    (result, CAPTURED.replace(outer).unwrap_or_default())
}

fn emit(text: &str) {
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
    let sink = lock(&SINK).clone();
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
    fn a_key_warns_once() {
        let ((first, second, other), lines) = captured(|| {
            let first = warn_once("log-test-a", "no space in /dev/shm");
            (first, warn_once("log-test-a", "again"), warn_once("log-test-b", "locks"))
        });
        assert!(first && !second && other);
        assert_eq!(lines, ["no space in /dev/shm", "locks"]);
    }

    #[test]
    fn level_decides() {
        let ((), lines) = captured(|| {
            message(level() + 1, "detail");
            message(level(), "news");
            warn("trouble");
        });
        assert_eq!(lines, ["news", "trouble"]);
    }
}
