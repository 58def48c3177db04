//! A log in memory that the processes of a node share: each tells, all hear. No system call, no
//! lock, no wait: a process that is stopped or killed anywhere in here holds nobody up.
//!
//! A message is written to a place of its own in a ring of words, which nobody waits for; then one
//! compare-and-exchange enters it into a ring of slots, and it is told. So there is no moment at
//! which it is half told, and whoever tells can ask that nobody has told anything since he has
//! heard. A reader that either ring has overtaken hears that it has missed something: a slot says
//! in which lap it was written, a message where it lies, with a checksum.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::files::crc32;
use crate::system::errno::check;

/// Words in the ring of messages: a megabyte, thousands of names.
const WORDS: u64 = 1 << 17;
/// Slots in the ring that orders them.
const SLOTS: u64 = 1 << 14;
/// Words before both rings.
const COUNTERS: u64 = 3;
/// Before a message: where it lies and how long it is; its checksum.
const HEADER: u64 = 2;
/// Bytes that no message has.
const LENGTH_MAX: usize = 1 << 16;
const LOW: u64 = u32::MAX as u64;

#[derive(Debug)]
pub struct SharedLog {
    /// The counters, the slots, then the messages.
    words: NonNull<AtomicU64>,
}

// SAFETY: the words are atomic, and mapped for as long as the value lives.
unsafe impl Send for SharedLog {}
// SAFETY: as above.
unsafe impl Sync for SharedLog {}

#[derive(Debug, PartialEq, Eq)]
pub enum HeardInLog {
    /// Every message so far has been read.
    Nothing,
    Message(Vec<u8>),
    /// Messages were lost; the next one is of now.
    Missed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    Done,
    Late,
    TooLong,
}

impl SharedLog {
    /// Makes the file with its room taken: no write to the memory finds its file system full.
    pub fn create(path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        crate::system::reserve(file.as_raw_fd(), 0, Self::bytes() as u64)?;
        file.set_len(Self::bytes() as u64)
    }

    /// Maps the file, which need not stay.
    pub fn open(path: &Path) -> io::Result<SharedLog> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() != Self::bytes() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the kernel chooses the address; nothing else knows this memory.
        let start = unsafe {
            let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
            let fd = file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), Self::bytes(), read | write, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(start).filter(|_| start != libc::MAP_FAILED) {
            Some(words) => Ok(SharedLog { words: words.cast() }),
            None => Err(io::Error::last_os_error()),
        }
    }

    fn bytes() -> usize {
        (COUNTERS + SLOTS + WORDS) as usize * 8
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        let index = usize::try_from(index).unwrap_or(0);
        debug_assert!(index < Self::bytes() / 8);
        // SAFETY: the mapping is page-aligned and has that many words; callers stay below that.
        unsafe { self.words.add(index).as_ref() }
    }

    /// Words that have been given out for messages.
    fn given(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Slots that are full: a search for the first free one begins here.
    fn full(&self) -> &AtomicU64 {
        self.word(1)
    }

    /// Returns a number for its users to count with; it starts at 0.
    pub fn count(&self) -> &AtomicU64 {
        self.word(2)
    }

    fn slot(&self, place: u64) -> &AtomicU64 {
        self.word(COUNTERS + place % SLOTS)
    }

    fn at(&self, at: u64) -> &AtomicU64 {
        self.word(COUNTERS + SLOTS + at % WORDS)
    }

    pub fn tell(&self, message: &[u8]) -> Telling {
        loop {
            let mut place = self.full().load(Ordering::Relaxed);
            while let Some(next) = self.after(place) {
                place = next;
            }
            match self.tell_at(place, message) {
                Telling::Late => {} // another one has come on
                told => return told,
            }
        }
    }

    /// Tells all, unless there is a message at `place`, up to which the caller has heard, already.
    pub fn tell_at(&self, place: u64, message: &[u8]) -> Telling {
        if message.len() >= LENGTH_MAX {
            return Telling::TooLong;
        }
        let slot = self.slot(place);
        let free = slot.load(Ordering::Relaxed);
        if lap_of(free) >= lap(place) {
            return Telling::Late;
        }
        let entry = lap(place) << 32 | self.write(message) & LOW;
        if slot.compare_exchange(free, entry, Ordering::Release, Ordering::Relaxed).is_err() {
            return Telling::Late;
        }
        self.full().fetch_max(place + 1, Ordering::Relaxed);
        Telling::Done
    }

    fn write(&self, message: &[u8]) -> u64 {
        let count = HEADER + message.len().div_ceil(8) as u64;
        loop {
            let at = self.given().fetch_add(count, Ordering::Relaxed);
            self.at(at).store((at & LOW) << 32 | message.len() as u64, Ordering::Relaxed);
            self.at(at + 1).store(u64::from(crc32(message)), Ordering::Relaxed);
            for (place, chunk) in (at + HEADER..).zip(message.chunks(8)) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                self.at(place).store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
            // Else it was stopped for so long that others write here, too.
            if self.given().load(Ordering::Relaxed) - at <= WORDS {
                return at;
            }
        }
    }

    pub fn hear(&self, place: &mut u64) -> HeardInLog {
        let Some(next) = self.after(*place) else { return HeardInLog::Nothing };
        let overtaken = next != *place + 1;
        let entry = self.slot(*place).load(Ordering::Acquire);
        let overtaken = overtaken || lap_of(entry) != lap(*place);
        *place = next;
        match self.read(entry & LOW).filter(|_| !overtaken) {
            Some(message) => HeardInLog::Message(message),
            None => HeardInLog::Missed,
        }
    }

    /// Where one who hears goes on after `place`; `None` if nothing is there yet.
    fn after(&self, place: u64) -> Option<u64> {
        let found = lap_of(self.slot(place).load(Ordering::Acquire));
        // Later laps: what was told at `place` has been overwritten.
        (found >= lap(place)).then(|| (found - 1) * SLOTS + place % SLOTS + 1)
    }

    /// `None`: it has been overwritten.
    fn read(&self, at: u64) -> Option<Vec<u8>> {
        let head = self.at(at).load(Ordering::Relaxed);
        let length = usize::try_from(head & LOW).ok().filter(|length| *length < LENGTH_MAX)?;
        let checksum = self.at(at + 1).load(Ordering::Relaxed);
        let words = (at + HEADER..).take(length.div_ceil(8));
        let mut message: Vec<u8> =
            words.flat_map(|at| self.at(at).load(Ordering::Relaxed).to_ne_bytes()).collect();
        message.truncate(length);
        let whole = head >> 32 == at && checksum == u64::from(crc32(&message));
        whole.then_some(message)
    }
}

/// The lap in which `place` is written: from 1, since an empty slot is 0.
fn lap(place: u64) -> u64 {
    place / SLOTS + 1
}

fn lap_of(entry: u64) -> u64 {
    entry >> 32
}

impl Drop for SharedLog {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this length; nobody has it any more.
        let result = unsafe { libc::munmap(self.words.as_ptr().cast(), Self::bytes()) };
        debug_assert!(check(result).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(count: usize) -> Vec<SharedLog> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        SharedLog::create(&path).unwrap();
        assert!(SharedLog::create(&path).is_err());
        (0..count).map(|_| SharedLog::open(&path).unwrap()).collect()
    }

    #[test]
    fn all_hear_all_in_one_order() {
        let logs = logs(3);
        std::thread::scope(|scope| {
            for (number, log) in logs.iter().enumerate() {
                scope.spawn(move || {
                    for at in 0..500 {
                        let text = format!("{number}:{at}");
                        assert_eq!(log.tell(text.as_bytes()), Telling::Done);
                    }
                });
            }
        });
        let all = |log: &SharedLog| {
            let (mut place, mut heard) = (0, Vec::new());
            while let HeardInLog::Message(text) = log.hear(&mut place) {
                heard.push(String::from_utf8(text).unwrap());
            }
            heard
        };
        let heard = all(&logs[0]);
        assert_eq!((heard.len(), &heard), (1500, &all(&logs[2])));
        let first: Vec<_> = heard.iter().filter(|text| text.starts_with("1:")).collect();
        assert!(first.iter().enumerate().all(|(at, text)| **text == format!("1:{at}")));
    }

    #[test]
    fn a_reader_that_was_overtaken_knows_it() {
        let logs = logs(2);
        for (length, count) in [(4000, 300), (1, SLOTS + 7)] {
            let mut place = logs[1].full().load(Ordering::Relaxed);
            assert_eq!(logs[1].hear(&mut place), HeardInLog::Nothing);
            let message = vec![7; length];
            (0..count).for_each(|_| assert_eq!(logs[0].tell(&message), Telling::Done));
            assert_eq!(logs[1].hear(&mut place), HeardInLog::Missed);
            let mut last = HeardInLog::Missed;
            loop {
                match logs[1].hear(&mut place) {
                    HeardInLog::Nothing => break,
                    heard => last = heard,
                }
            }
            assert_eq!(last, HeardInLog::Message(message));
        }
        assert_eq!(logs[0].tell(&[0; LENGTH_MAX]), Telling::TooLong);
    }

    #[test]
    fn who_has_not_heard_all_tells_nothing() {
        let logs = logs(2);
        let mut place = 0;
        assert_eq!(logs[0].tell_at(place, b"a"), Telling::Done);
        assert_eq!(logs[1].tell_at(place, b"b"), Telling::Late);
        assert_eq!(logs[1].hear(&mut place), HeardInLog::Message(b"a".to_vec()));
        assert_eq!(logs[1].tell_at(place, b"b"), Telling::Done);
    }

    #[test]
    fn one_that_is_stopped_before_it_has_told_holds_up_nobody() {
        let logs = logs(2);
        let (mut place, long) = (0, [7; 4000]);
        let at = logs[0].write(b"never told, or late");
        assert_eq!(logs[1].tell(b"x"), Telling::Done);
        assert_eq!(logs[1].hear(&mut place), HeardInLog::Message(b"x".to_vec()));
        // Or so late that its words are those of others.
        (0..300).for_each(|_| assert_eq!(logs[1].tell(&long), Telling::Done));
        assert_eq!(logs[0].read(at & LOW), None);
    }
}
