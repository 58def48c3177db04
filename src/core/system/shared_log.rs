//! A log in memory that the processes of a node share: each tells, all hear. No system call, no
//! lock, no wait.
//!
//! A ring of words. A writer takes its place by one addition to the end, writes its words, and last
//! the word at their head, which tells the place and the length: until it is there, readers go no
//! further. A reader that the ring has overtaken hears that it has missed something.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::check;

/// Words in the ring: a megabyte, thousands of names.
const WORDS: u64 = 1 << 17;
/// Bits of a head that tell the number of bytes; the others are those of the place.
const LENGTH_BITS: u32 = 16;

/// One process' view of the log.
#[derive(Debug)]
pub struct SharedLog {
    /// The end, then the ring.
    words: NonNull<AtomicU64>,
}

// SAFETY: the words are atomic, and mapped for as long as the value lives.
unsafe impl Send for SharedLog {}
// SAFETY: as above.
unsafe impl Sync for SharedLog {}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Every message so far has been read.
    Nothing,
    /// A message.
    Message(Vec<u8>),
    /// Messages were lost; the next one is of now.
    Missed,
}

impl SharedLog {
    /// Makes the file with its room taken, so that no write to the memory can find its file system
    /// full.
    ///
    /// # Errors
    /// It exists, cannot be made, or there is no room.
    pub fn create(path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        super::reserve(file.as_raw_fd(), 0, Self::bytes() as u64)?;
        file.set_len(Self::bytes() as u64)
    }

    /// Maps the file, which need not stay.
    ///
    /// # Errors
    /// It cannot be opened or mapped, or is not whole.
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
        (WORDS as usize + 1) * 8
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        let index = usize::try_from(index).unwrap_or(0);
        debug_assert!(index <= WORDS as usize);
        // SAFETY: the mapping is page-aligned and has WORDS + 1 words; callers stay below that.
        unsafe { self.words.add(index).as_ref() }
    }

    fn end(&self) -> &AtomicU64 {
        self.word(0)
    }

    fn at(&self, place: u64) -> &AtomicU64 {
        self.word(1 + place % WORDS)
    }

    fn head(place: u64, bytes: u64) -> u64 {
        ((place + 1) << LENGTH_BITS) | bytes
    }

    /// Where a reader begins who is to hear only what comes from now on.
    pub fn now(&self) -> u64 {
        self.end().load(Ordering::Acquire)
    }

    /// Tells all. `false`: the message is too long for that.
    pub fn tell(&self, message: &[u8]) -> bool {
        let bytes = message.len() as u64;
        if bytes >= 1 << LENGTH_BITS {
            return false;
        }
        let count = bytes.div_ceil(8) + 1;
        let place = self.end().fetch_add(count, Ordering::AcqRel);
        fence(Ordering::SeqCst); // whoever sees a word of this sees the end, too
        for (at, chunk) in message.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.at(place + 1 + at as u64).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        self.at(place).store(Self::head(place, bytes), Ordering::Release);
        true
    }

    /// The message at `place`, which moves on to the next one.
    pub fn hear(&self, place: &mut u64) -> Heard {
        let end = self.now();
        if *place == end {
            return Heard::Nothing;
        }
        if end - *place > WORDS {
            *place = end;
            return Heard::Missed;
        }
        let head = self.at(*place).load(Ordering::Acquire);
        if head >> LENGTH_BITS != *place + 1 {
            return Heard::Nothing; // its writer is not done
        }
        let bytes = head & ((1 << LENGTH_BITS) - 1);
        let count = bytes.div_ceil(8);
        let words = (1..=count).map(|at| self.at(*place + at).load(Ordering::Acquire));
        let mut message: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        message.truncate(usize::try_from(bytes).unwrap_or(0));
        fence(Ordering::SeqCst);
        if self.now() - *place > WORDS {
            *place = self.now();
            return Heard::Missed; // overtaken while it was read
        }
        *place += count + 1;
        Heard::Message(message)
    }
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
                        assert!(log.tell(format!("{number}:{at}").as_bytes()));
                    }
                });
            }
        });
        let all = |log: &SharedLog| {
            let (mut place, mut heard) = (0, Vec::new());
            while let Heard::Message(text) = log.hear(&mut place) {
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
        let (mut place, message) = (logs[1].now(), [7; 4000]);
        assert_eq!(logs[1].hear(&mut place), Heard::Nothing);
        (0..300).for_each(|_| assert!(logs[0].tell(&message)));
        assert_eq!(logs[1].hear(&mut place), Heard::Missed);
        assert_eq!(logs[1].hear(&mut place), Heard::Nothing);
        assert!(logs[0].tell(b"x") && !logs[0].tell(&[0; 1 << 16]));
        assert_eq!(logs[1].hear(&mut place), Heard::Message(b"x".to_vec()));
    }
}
