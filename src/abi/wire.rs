//! What a child of a rank asks its rank, and what that answers, as messages on a socket: four bytes
//! of length, and the content.

use std::io::{self, Read, Write};

use crate::StatAnswer;
use crate::bytes::{Reader, Writer};

/// Messages are not longer than this, bytes; a listing that would be is cut.
pub const BYTES_MAX: usize = 64 << 20;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Request {
    /// open(2) of `path` with `flags`.
    Open,
    /// Where is `path`? With `flags` not 0, its number may be compared with a descriptor's.
    Lookup,
    /// The same for a file that is about to change.
    Change,
    /// unlink(2).
    Unlink,
    /// rename(2) of `path` to `other`.
    Rename,
    /// link(2) of `path` as `other`; with `flags` not 0, symlink(2).
    Link,
    /// rmdir(2).
    Rmdir,
    /// The directory `path` was made.
    Made,
    /// A directory or a special file `path` is about to be made, where nothing is seen.
    Make,
    /// What a listing of `path` shows beyond, or less than, the prefix.
    List,
}

const ALL: [Request; 10] = [
    Request::Open,
    Request::Lookup,
    Request::Change,
    Request::Unlink,
    Request::Rename,
    Request::Link,
    Request::Rmdir,
    Request::Made,
    Request::Make,
    Request::List,
];

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub what: Request,
    /// See [`Request`].
    pub flags: i32,
    /// Absolute and canonical, as everywhere between shim and engine.
    pub path: Vec<u8>,
    /// See [`Request`].
    pub other: Vec<u8>,
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name within the directory.
    pub name: Vec<u8>,
    /// Number of the file, as stat says.
    pub ino: u64,
    /// It is a directory.
    pub is_dir: bool,
    /// It is taken out of the listing.
    pub hide: bool,
}

/// The fields of `struct stat` that an answer without a file carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStat {
    /// Size in bytes.
    pub size: u64,
    /// File type and permission bits.
    pub mode: u32,
    /// Number of the file.
    pub ino: u64,
    /// Modification time, seconds.
    pub seconds: i64,
    /// Modification time, nanoseconds.
    pub nanoseconds: i64,
}

impl FileStat {
    /// Returns the same for a file of this user and group that has one name.
    #[must_use]
    pub fn answer(&self, uid: u32, gid: u32) -> StatAnswer {
        let FileStat { size, mode, ino, seconds, nanoseconds } = *self;
        let (mtime_seconds, mtime_nanoseconds) = (seconds, nanoseconds);
        StatAnswer { size, mode, uid, gid, nlink: 1, ino, mtime_seconds, mtime_nanoseconds }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The real call.
    Pass,
    /// The real call on this file.
    At(Vec<u8>),
    /// It fails with this errno.
    Fail(i32),
    /// It is done.
    Done,
    /// The file is on another node.
    Known(FileStat),
    /// A listing.
    Entries(Vec<Entry>),
}

impl Question {
    /// Tells whether what it asks for may change something.
    pub fn may_change(&self) -> bool {
        let writes = self.flags & libc::O_ACCMODE != libc::O_RDONLY;
        match self.what {
            Request::Open => writes || self.flags & (libc::O_CREAT | libc::O_TRUNC) != 0,
            Request::Lookup | Request::Made | Request::List => false,
            Request::Change | Request::Unlink | Request::Rename => true,
            Request::Link | Request::Rmdir | Request::Make => true,
        }
    }

    /// Tells whether it can be asked twice and does what it does once.
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self.what, Request::Unlink | Request::Rename | Request::Link | Request::Rmdir)
    }

    /// Writes it as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.byte(self.what as u8).word32(self.flags as u32);
        put_text(&mut out, &self.path);
        put_text(&mut out, &self.other);
        out.take()
    }

    /// Returns `None` for malformed bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let what = *ALL.get(usize::from(from.byte()?))?;
        let flags = from.word32()? as i32;
        let (path, other) = (text(&mut from)?, text(&mut from)?);
        from.whole(Question { what, flags, path, other })
    }
}

impl Reply {
    /// Writes it as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Reply::Pass => _ = out.byte(0),
            Reply::At(path) => _ = out.byte(1).raw(path),
            Reply::Fail(code) => _ = out.byte(2).word32(*code as u32),
            Reply::Done => _ = out.byte(3),
            Reply::Known(known) => {
                out.byte(4).word(known.size).word32(known.mode).word(known.ino);
                out.word(known.seconds as u64).word(known.nanoseconds as u64);
            }
            Reply::Entries(entries) => {
                out.byte(5);
                for entry in entries {
                    if out.len() + entry.name.len() + 14 > BYTES_MAX {
                        break;
                    }
                    out.flags(&[entry.is_dir, entry.hide]).word(entry.ino);
                    put_text(&mut out, &entry.name);
                }
            }
        }
        out.take()
    }

    /// Returns `None` for malformed bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let reply = match from.byte()? {
            0 => Reply::Pass,
            1 => Reply::At(from.rest().to_vec()),
            2 => Reply::Fail(from.word32()? as i32),
            3 => Reply::Done,
            4 => Reply::Known(known(&mut from)?),
            5 => Reply::Entries(entries(&mut from)?),
            _ => return None,
        };
        from.whole(reply)
    }
}

fn known(from: &mut Reader) -> Option<FileStat> {
    Some(FileStat {
        size: from.word()?,
        mode: from.word32()?,
        ino: from.word()?,
        seconds: from.word()? as i64,
        nanoseconds: from.word()? as i64,
    })
}

fn entries(from: &mut Reader) -> Option<Vec<Entry>> {
    let mut all = Vec::new();
    while !from.is_done() {
        let ([is_dir, hide], ino, name) = (from.flags()?, from.word()?, text(from)?);
        all.push(Entry { name, ino, is_dir, hide });
    }
    Some(all)
}

fn put_text(out: &mut Writer, text: &[u8]) {
    let length = u32::try_from(text.len()).unwrap_or(0);
    out.word32(length).raw(&text[..length as usize]);
}

fn text(from: &mut Reader) -> Option<Vec<u8>> {
    let length = from.word32()?;
    Some(from.raw(length as usize)?.to_vec())
}

/// Sends one message.
///
/// # Errors
/// It is too long, or the other side has gone.
pub fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let whole = [length.to_be_bytes().as_slice(), message].concat();
    to.write_all(&whole)
}

/// Receives one message.
///
/// # Errors
/// The other side has gone, or sends what is none.
pub fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_others_are_none() {
        for (number, what) in ALL.into_iter().enumerate() {
            assert_eq!(what as usize, number);
            let (path, other) = (b"/p/a".to_vec(), b"/p/b".to_vec());
            let question = Question { what, flags: -7, path, other };
            let bytes = question.to_bytes();
            assert_eq!(Question::from_bytes(&bytes), Some(question));
            (0..bytes.len()).for_each(|end| assert_eq!(Question::from_bytes(&bytes[..end]), None));
        }
        let known = FileStat { size: 1, mode: 2, ino: 3, seconds: -4, nanoseconds: 5 };
        let entry = |name: &[u8], hide: bool| {
            let (name, ino) = (name.to_vec(), 6);
            Entry { name, ino, is_dir: !hide, hide }
        };
        for reply in [
            Reply::Pass,
            Reply::At(b"/c/a".to_vec()),
            Reply::Fail(2),
            Reply::Done,
            Reply::Known(known),
            Reply::Entries(vec![entry(b"a", true), entry(b"", false)]),
        ] {
            assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
        }
        for other in [&b""[..], &[9], &[3, 0], &[2, 0], &[4, 1], &[5, 0, 9], &[5, 0, 0, 0, 0, 9]] {
            assert_eq!(Reply::from_bytes(other), None);
        }
    }

    #[test]
    fn the_form_is_as_it_was() {
        let (path, other) = (b"/p".to_vec(), b"q".to_vec());
        let question = Question { what: Request::Rename, flags: 258, path, other };
        let form = [4, 0, 0, 1, 2, 0, 0, 0, 2, b'/', b'p', 0, 0, 0, 1, b'q'];
        assert_eq!(question.to_bytes(), form);
        let known = FileStat { size: 1, mode: 2, ino: 3, seconds: -1, nanoseconds: 5 };
        let word = |last| [0, 0, 0, 0, 0, 0, 0, last];
        let parts = [&[4][..], &word(1), &[0, 0, 0, 2], &word(3), &[255; 8], &word(5)];
        assert_eq!(Reply::Known(known).to_bytes(), parts.concat());
        let entry = Entry { name: b"n".to_vec(), ino: 6, is_dir: true, hide: true };
        let parts = [&[5, 3][..], &word(6), &[0, 0, 0, 1, b'n']];
        assert_eq!(Reply::Entries(vec![entry]).to_bytes(), parts.concat());
    }

    #[test]
    fn a_message_that_is_cut_or_endless_is_an_error() {
        let mut sent = Vec::new();
        send(&mut sent, b"abc").unwrap();
        assert_eq!(receive(&mut sent.as_slice()).unwrap(), b"abc");
        assert!(receive(&mut &sent[..5]).is_err() && receive(&mut [255; 9].as_slice()).is_err());
    }
}
