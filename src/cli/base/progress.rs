//! How far a long command has come: a bar on a terminal; elsewhere, as in a batch job's log, a line
//! now and then. All on standard error, without colours.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use scr_core::progress::{StepNow, Total, seen};

const LOOK: Duration = Duration::from_millis(100);
/// Between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(30);

pub struct Shown {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Shows from now on how far the steps of `scr <tool>` have come.
pub fn show(tool: &'static str) -> Shown {
    let (sender, receiver) = channel();
    let mut screen = Screen::new(tool, is_terminal());
    let thread = std::thread::spawn(move || {
        while receiver.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if let Some(line) = screen.look(seen().as_ref(), Instant::now()) {
                eprintln!("{line}");
            }
        }
        screen.look(None, Instant::now());
    });
    Shown { end: Some(sender), thread: Some(thread) }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A bar that could not be drawn is nobody's loss.
            let _ = thread.join();
        }
    }
}

fn is_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

struct Screen {
    tool: &'static str,
    draws: bool,
    bar: Option<ProgressBar>,
    /// The step, when it began, and when the last line of it was due.
    step: Option<(u64, Instant, Instant)>,
}

impl Screen {
    fn new(tool: &'static str, draws: bool) -> Screen {
        Screen { tool, draws, bar: None, step: None }
    }

    fn look(&mut self, seen: Option<&StepNow>, now: Instant) -> Option<String> {
        let known = self.step.map(|(number, ..)| number);
        if known != seen.map(|one| one.number) {
            self.step = seen.map(|one| (one.number, now, now));
            if let Some(bar) = self.bar.take() {
                bar.finish_and_clear();
            }
            self.bar = seen.filter(|_| self.draws).map(|one| bar(self.tool, one));
        }
        let seen = seen?;
        if let Some(bar) = &self.bar {
            bar.set_position(seen.done);
            bar.tick();
            return None;
        }
        let (_, begun, told) = self.step.as_mut()?;
        if now.duration_since(*told) < LINE {
            return None;
        }
        *told = now;
        let seconds = now.duration_since(*begun).as_secs();
        Some(format!("scr {}: {}", self.tool, sentence(seen, seconds)))
    }
}

fn bar(tool: &str, seen: &StepNow) -> ProgressBar {
    let length = match seen.total {
        Total::Bytes(total) => total,
        Total::Things(total) => Some(total),
    };
    let style = ProgressStyle::with_template(shape(seen.total));
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let style = style.progress_chars("=> ").tick_chars(r"-\|/ ");
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar.set_message(format!("scr {tool}: {}", seen.what));
    bar
}

/// The shape of a bar, in the words of its crate.
fn shape(total: Total) -> &'static str {
    match total {
        Total::Bytes(Some(_)) => {
            "{msg} [{wide_bar}] {binary_bytes}/{binary_total_bytes}, {eta} left"
        }
        Total::Bytes(None) => "{msg} {spinner} {binary_bytes}, {elapsed}",
        Total::Things(_) => "{msg} [{wide_bar}] {pos}/{len}, {elapsed}",
    }
}

fn sentence(seen: &StepNow, seconds: u64) -> String {
    let (what, done) = (&seen.what, seen.done);
    let done = match seen.total {
        Total::Bytes(Some(total)) => format!("{} of {}", HumanBytes(done), HumanBytes(total)),
        Total::Bytes(None) => HumanBytes(done).to_string(),
        Total::Things(total) => format!("{done} of {total}"),
    };
    format!("{what}, {done}, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_at(number: u64, done: u64, total: Total) -> StepNow {
        StepNow { what: "copying".to_owned(), total, done, number }
    }

    #[test]
    fn each_bar_has_a_shape_that_its_crate_knows() {
        for total in [Total::Bytes(None), Total::Bytes(Some(1)), Total::Things(1)] {
            assert!(ProgressStyle::with_template(shape(total)).is_ok(), "{total:?}");
        }
    }

    #[test]
    fn without_a_terminal_a_long_step_has_a_line_now_and_then() {
        let mut screen = Screen::new("copy", false);
        let begin = Instant::now();
        let mut at = |seconds: u64, seen: Option<StepNow>| {
            screen.look(seen.as_ref(), begin + Duration::from_secs(seconds))
        };
        let gib = 1 << 30;
        let whole = Total::Bytes(Some(12 * gib));
        assert_eq!(at(0, Some(seen_at(1, 0, whole))), None);
        assert_eq!(at(29, Some(seen_at(1, gib, whole))), None);
        let line = at(31, Some(seen_at(1, 3 * gib, whole)));
        assert_eq!(line.as_deref(), Some("scr copy: copying, 3.00 GiB of 12.00 GiB, 31 s"));
        assert_eq!(at(32, Some(seen_at(1, 4 * gib, whole))), None);
        // Another step has its own time.
        assert_eq!(at(62, Some(seen_at(2, 1, Total::Things(4)))), None);
        let line = at(92, Some(seen_at(2, 3, Total::Things(4))));
        assert_eq!(line.as_deref(), Some("scr copy: copying, 3 of 4, 30 s"));
        assert_eq!(at(200, None), None);
    }
}
