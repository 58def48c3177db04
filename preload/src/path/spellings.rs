//! The canonical spelling of directories: symlinks resolved, and what is known about them
//! remembered ([`crate::path::memory`]).

use parking_lot::Mutex;

use crate::base::lock::{GENERATIONS, Lock};
use crate::path::aliases;
use crate::path::disk::{is_there_and_no_link, real_path};
use crate::path::memory::{NameFact, NameKey, NameKind};
use crate::path::text::{below, join};

/// Other spellings of the prefix, through symlinks, are remembered up to this number.
const SPELLINGS_MAX: usize = 16;

static SPELLINGS: Lock<Vec<Vec<u8>>> = Lock::new([const { Mutex::new(Vec::new()) }; GENERATIONS]);

pub(crate) struct Resolved {
    pub name: Vec<u8>,
    /// The file system does not have this directory of the name.
    pub missing: Option<Vec<u8>>,
}

impl Resolved {
    pub(crate) fn at(name: Vec<u8>) -> Self {
        Self { name, missing: None }
    }
}

/// Returns `None` for a `directory` (lexically normal) outside the prefix.
pub(crate) fn canonical_directory(prefix: &[u8], directory: &[u8]) -> Option<Resolved> {
    let key = NameKey::of(directory, NameKind::Directory);
    match key.recall() {
        NameFact::Foreign => return None,
        NameFact::Canonical => return Some(Resolved::at(directory.to_vec())),
        _ => {}
    }
    if let Some(known) = spelled_otherwise(prefix, directory) {
        return Some(Resolved::at(known));
    }
    if is_plain_below(prefix, directory) {
        return Some(Resolved::at(directory.to_vec()));
    }
    let real = match real_path(directory).map(aliases::named) {
        Ok(real) => real,
        // A directory that is not there yet: its nearest ancestor tells. Nothing is remembered.
        Err(libc::ENOENT) if directory.len() > 1 => {
            let slash = directory.iter().rposition(|&byte| byte == b'/')?;
            let parent = &directory[..slash.max(1)];
            let above = match real_path(parent) {
                Ok(above) => aliases::named(above),
                Err(_) => canonical_directory(prefix, parent)?.name,
            };
            let name = join(&above, &directory[slash + 1..]);
            return Some(Resolved { missing: Some(name.clone()), name });
        }
        Err(_) => return Some(Resolved::at(directory.to_vec())),
    };
    if !below(prefix, &real) {
        key.remember(NameFact::Foreign);
        return None;
    }
    let canonical = NameKey::of(&real, NameKind::Directory);
    if key == NameKey::of(directory, NameKind::Directory) {
        canonical.remember(NameFact::Canonical); // nothing was forgotten since the question
    }
    if real != directory {
        note_spelling(prefix, directory, &real[prefix.len()..]);
    }
    Some(Resolved::at(real))
}

/// Remembers what it finds. False proves nothing: the prefix is canonical, so only what follows it
/// is looked at, and of that what is not known yet.
pub(crate) fn is_plain_below(prefix: &[u8], directory: &[u8]) -> bool {
    if !below(prefix, directory) || aliases::named(directory.to_vec()) != directory {
        return false;
    }
    let from = prefix.len() + usize::from(prefix != b"/");
    let ends = (from + 1..=directory.len())
        .filter(|&at| directory.get(at).is_none_or(|&byte| byte == b'/'));
    for end in ends {
        let name = &directory[..end];
        let key = NameKey::of(name, NameKind::Directory);
        if key.recall() == NameFact::Canonical {
            continue;
        }
        if !is_there_and_no_link(name) {
            return false;
        }
        key.remember(NameFact::Canonical);
    }
    true
}

/// Serves a name that begins with another spelling of the prefix, or with where an alias leads, if
/// no symlink follows.
pub(crate) fn spelled_otherwise(prefix: &[u8], directory: &[u8]) -> Option<Vec<u8>> {
    let plain = if aliases::all().iter().any(|alias| below(&alias.place, directory)) {
        aliases::named(directory.to_vec())
    } else {
        let spellings = SPELLINGS.lock();
        let head = spellings.iter().find(|head| below(head, directory))?;
        [prefix, &directory[head.len()..]].concat()
    };
    let known = NameKey::of(&plain, NameKind::Directory).recall() == NameFact::Canonical;
    known.then_some(plain)
}

/// A spelling is only noted if the symlinks in what stands for the prefix lie outside of it.
fn note_spelling(prefix: &[u8], directory: &[u8], tail: &[u8]) {
    let Some(head) = directory.strip_suffix(tail) else { return };
    let Some(slash) = head.iter().rposition(|&byte| byte == b'/') else { return };
    // What `/proc/self/cwd` leads to changes without any name being changed.
    if head.starts_with(b"/proc/") || SPELLINGS.lock().iter().any(|known| known == head) {
        return;
    }
    let is = |path: &[u8], wanted: fn(&[u8], &[u8]) -> bool| {
        real_path(path).is_ok_and(|real| wanted(prefix, &real))
    };
    if is(head, |prefix, real| real == prefix)
        && is(&head[..slash.max(1)], |prefix, real| !below(prefix, real))
    {
        let mut spellings = SPELLINGS.lock();
        if spellings.len() < SPELLINGS_MAX {
            spellings.push(head.to_vec());
        }
    }
}
