//! Commands of others, run to their end within a time.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

const LOOK: Duration = Duration::from_millis(5);
/// Something else may hold the errors of a failed command open.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// Runs commands; in tests their answers are recorded.
pub trait Commands: Sync {
    /// Returns what the command prints; it fails with the last line of standard error, and is
    /// killed after `limit`.
    fn output(&self, words: &[String], limit: Duration) -> Result<String>;
}

/// Real ones.
#[derive(Debug, Default)]
pub struct Real;

impl Commands for Real {
    fn output(&self, words: &[String], limit: Duration) -> Result<String> {
        let Some((program, rest)) = words.split_first() else {
            return Err(Error::Missing("no command".to_owned()));
        };
        let deadline = Instant::now() + limit;
        let mut child = Command::new(program)
            .args(rest)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io("cannot run", program, error))?;
        let (output, errors) = (text_of(child.stdout.take()), text_of(child.stderr.take()));
        let text = output.recv_timeout(limit).unwrap_or_default();
        loop {
            let ended = child.try_wait().map_err(|e| Error::io("cannot wait for", program, e))?;
            match ended {
                Some(status) if status.success() => return Ok(text),
                Some(status) => {
                    let told = errors.recv_timeout(LAST_WORDS_MAX).unwrap_or_default();
                    let told = told.lines().rfind(|line| !line.trim().is_empty());
                    let told = told.map_or_else(String::new, |line| format!(", {}", line.trim()));
                    return Err(Error::Process(format!("{program}: {status}{told}")));
                }
                None if Instant::now() >= deadline => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let seconds = limit.as_secs_f64();
                    return Err(Error::Process(format!("{program}: no answer in {seconds} s")));
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }
}

/// A thread reads, since what the command has started may keep its output open for ever.
fn text_of(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(mut stream) = stream {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, limit: Duration) -> Result<String> {
        Real.output(&["sh", "-c", line].map(str::to_owned), limit)
    }

    #[test]
    fn answers_failures_and_silence() {
        let long = Duration::from_secs(60);
        assert_eq!(run("echo yes", long).unwrap(), "yes\n");
        let failed = run("echo yes; echo no >&2; echo why >&2; exit 3", long);
        assert_eq!(failed.unwrap_err().to_string(), "sh: exit status: 3, why");
        let silent = run("exec sleep 600", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(silent.contains("no answer"), "{silent}");
        // What it leaves running keeps the output open: the answer is not waited for.
        assert!(run("sleep 600 >&2 & exec sleep 600", Duration::from_millis(50)).is_err());
        assert!(Real.output(&["/no/such/program".to_owned()], long).is_err());
        assert!(Real.output(&[], long).is_err());
    }
}
