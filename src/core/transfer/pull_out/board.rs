//! What ranks tell each other by files in a folder. Each is told whole or not at all: it carries a
//! checksum, since a file system of several nodes may show a file before its content.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::bytes::{Reader, Writer};
use crate::cache::disk::names_in;
use crate::error::{Error, Result, again};
use crate::files::{crc32, read_ours, replace_atomic};
use crate::transfer::flush::polling;

/// Longest pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// The folder.
pub(super) struct Board<'a>(pub &'a Path);

impl Board<'_> {
    /// Tells `bytes` under a name.
    pub fn tell(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let told = Writer::new().word32(crc32(bytes)).raw(bytes).take();
        again(|| replace_atomic(&self.0.join(name), &told))
    }

    /// Takes a name before it is told; of all who try one gets it.
    pub fn claim(&self, name: &str) -> Result<bool> {
        let path = self.0.join(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("cannot create", path, error)),
        }
    }

    /// Returns what is told under a name; `None` if nothing is, or it cannot be seen as a whole.
    pub fn told(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let (path, mut bytes) = (self.0.join(name), Vec::new());
        match read_ours(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A client of NFS remembers what was not there until it looks into the folder.
                return names_in(path.parent().unwrap_or(self.0)).map(|_| None);
            }
            Err(error) => return Err(Error::io("cannot read", path, error)),
        }
        let mut from = Reader::new(&bytes);
        let (sum, told) = (from.word32(), from.rest());
        Ok((sum == Some(crc32(told))).then(|| told.to_vec()))
    }

    /// Waits until all `names` are told and returns what; `None` if it was `stopped`.
    pub fn wait(
        &self,
        names: &[String],
        stopped: impl Fn() -> bool,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let found = RefCell::new(Vec::new());
        let come = || {
            let mut found = found.borrow_mut();
            while let Some(name) = names.get(found.len()) {
                let Some(told) = self.told(name)? else { return Ok(false) };
                found.push(told);
            }
            Ok(true)
        };
        let all_have = polling::wait(PAUSE, stopped, come)?;
        Ok(all_have.then(|| found.into_inner()))
    }
}
