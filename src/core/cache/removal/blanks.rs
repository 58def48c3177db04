//! Empty files of a RAM disk that have their pages already. To find the pages of a new file takes
//! two thirds of the time of writing it. So a large file of a dataset that leaves the cache is
//! emptied, and gets as many pages at the same places again, while a processor has nothing else to
//! do ([`Emptying`]); a new file is made of it ([`Blanks::make`]). It has no byte: a page that
//! nobody has written is a hole of the file to all who look.
//!
//! They are worth nothing: whoever needs the room removes them, and so do the end and the next
//! start.

use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::SystemTime;

use crate::files::create_dirs;
use crate::system::{
    block_signals, is_open_elsewhere, next_data, reserve, run_when_idle, user_attributes_at,
};

const FOLDER: &str = "scr.blank";
const DIRECTORY_MODE: u32 = 0o700;

/// So much gets its pages at a time: who ends does not wait for long.
const STEP_BYTES: u64 = 16 << 20;

/// So many times what is kept is to be left of the store.
const PLENTY: u64 = 2;

/// After so many datasets in a row of which nobody has taken what was kept, no more is.
const UNUSED_MAX: u32 = 2;

/// A file in more pieces is not worth the calls.
const PIECES_MAX: usize = 4096;

/// Whose next file is made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of that rank of the world.
    Rank(usize),
    /// Of whichever rank of the node makes it: several write the file.
    Node,
}

impl Display for Whose {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Rank(rank) => write!(out, "{rank}"),
            Whose::Node => out.write_str("node"),
        }
    }
}

/// The blanks of one store on a node.
pub struct Blanks {
    dir: PathBuf,
}

/// A file that has left its dataset, and is not empty yet.
#[derive(Debug)]
pub struct OldFile {
    path: PathBuf,
    blank: PathBuf,
}

impl Blanks {
    /// Smaller files gain nothing.
    pub const BYTES_MIN: u64 = 8 << 20;

    #[must_use]
    pub fn beside(cache_dir: &Path) -> Self {
        Blanks { dir: cache_dir.join(FOLDER) }
    }

    /// Tells whether a name in a cache directory is that of blanks.
    #[must_use]
    pub fn is_folder(name: &str) -> bool {
        name == FOLDER
    }

    /// Takes `file` out of its dataset. `None`: it has another name, which may be of use, is too
    /// small, or another rank has taken it.
    pub fn take(&self, whose: Whose, file: &Path) -> Option<OldFile> {
        let found = file.symlink_metadata().ok()?;
        if !found.is_file() || found.nlink() != 1 || taken_bytes(&found) < Self::BYTES_MIN {
            return None;
        }
        create_dirs(&self.dir, DIRECTORY_MODE).ok()?;
        let path = self.dir.join(format!("used.{whose}.{}", found.ino()));
        fs::rename(file, &path).ok()?;
        Some(OldFile { path, blank: self.dir.join(format!("{whose}.{}", found.ino())) })
    }

    fn of(&self, whose: &[Whose]) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
        self.named(whose.iter().map(|whose| format!("{whose}.")).collect())
    }

    fn named(&self, prefixes: Vec<String>) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
        let all = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let is_theirs = move |one: &fs::DirEntry| {
            let name = one.file_name();
            prefixes.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        };
        all.filter(is_theirs)
            .filter_map(|one| Some((one.path(), taken_bytes(&one.metadata().ok()?))))
    }

    /// Counts the bytes of those that nobody has taken.
    #[must_use]
    pub fn bytes(&self, whose: &[Whose]) -> u64 {
        self.of(whose).map(|(_, bytes)| bytes).sum()
    }

    /// Makes the file `to`, of about `bytes` bytes, of one that fits, and returns how many bytes
    /// that has pages for; `dress` gives it its rights. `None`: none fits, or something has that
    /// name.
    pub fn make(
        &self,
        whose: Whose,
        bytes: u64,
        to: &Path,
        dress: impl FnOnce(&File) -> io::Result<()>,
    ) -> Option<u64> {
        if to.symlink_metadata().is_ok() {
            return None;
        }
        let fits = |found: u64| found >= bytes / 2 && found / 2 <= bytes;
        let whose = [whose];
        let fitting = self.of(&whose).filter(|(_, found)| fits(*found));
        let (blank, found) =
            fitting.min_by_key(|(_, found)| (*found < bytes, found.abs_diff(bytes)))?;
        // Of two ranks that want it one gets it.
        let mine = self.dir.join(format!("made.{}", blank.file_name()?.to_str()?));
        fs::rename(&blank, &mine).ok()?;
        let make = || -> io::Result<()> {
            let file = open(&mine)?;
            dress(&file)?;
            file.set_modified(SystemTime::now())?;
            fs::hard_link(&mine, to)
        };
        let done = make();
        let left = if done.is_ok() { fs::remove_file(&mine) } else { fs::rename(&mine, &blank) };
        done.and(left).ok().map(|()| found)
    }

    /// Gives back the room of those of `whose`, and of files that are not empty yet.
    pub fn clear(&self, whose: &[Whose]) {
        let names = |whose| [format!("{whose}."), format!("used.{whose}.")];
        let all = self.named(whose.iter().flat_map(names).collect());
        all.for_each(|(path, _)| drop(fs::remove_file(path)));
    }

    /// Does what [`Self::clear`] does; the folder goes with the last one.
    pub fn end(&self, whose: &[Whose]) {
        self.clear(whose);
        let _ = fs::remove_dir(&self.dir);
    }
}

impl OldFile {
    /// Empties the file and gets its pages anew, until `ends` says that nobody wants them.
    fn empty(self, ends: impl Fn() -> bool) -> io::Result<()> {
        let file = open(&self.path)?;
        if is_open_elsewhere(&file) != Some(false) || !user_attributes_at(&self.path).is_empty() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let pieces = pieces_of(&file)?;
        file.set_len(0)?;
        for (begin, end) in pieces {
            for at in (begin..end).step_by(STEP_BYTES as usize) {
                if ends() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                reserve(file.as_raw_fd(), at, STEP_BYTES.min(end - at))?;
            }
        }
        fs::rename(&self.path, &self.blank)
    }
}

impl Drop for OldFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What a rank takes out of the datasets that leave, and the thread that empties it.
#[derive(Debug, Default)]
pub struct Emptying {
    /// The thread need not go on.
    ends: Arc<AtomicBool>,
    /// Datasets in a row of which nobody had taken what was kept.
    unused: u32,
    /// Bytes that were kept of the last one.
    kept: u64,
}

impl Emptying {
    /// Takes the large ones of `files` out of a dataset that leaves the cache, if room is plenty
    /// (`left` bytes), and has a thread empty them, which calls `enter` first. What was kept before
    /// for `mine`, and nobody has taken, goes.
    pub fn begin(
        &mut self,
        blanks: &Blanks,
        mine: &[Whose],
        files: Vec<(Whose, PathBuf)>,
        left: u64,
        enter: impl FnOnce() + Send + 'static,
    ) {
        self.end();
        if self.kept > 0 {
            let in_vain = blanks.bytes(mine) >= self.kept;
            self.unused = if in_vain { self.unused + 1 } else { 0 };
        }
        blanks.clear(mine);
        let bytes = |path: &PathBuf| path.symlink_metadata().map_or(0, |found| taken_bytes(&found));
        let large = files.iter().map(|(_, path)| bytes(path));
        self.kept = large.filter(|bytes| *bytes >= Blanks::BYTES_MIN).sum();
        if self.unused >= UNUSED_MAX || left / PLENTY < self.kept {
            self.kept = 0;
        }
        if self.kept == 0 {
            return;
        }
        let files = files.into_iter().filter_map(|(whose, path)| blanks.take(whose, &path));
        let (files, ends) = (files.collect::<Vec<_>>(), Arc::<AtomicBool>::default());
        self.ends = ends.clone();
        let body = move || {
            enter();
            block_signals();
            run_when_idle();
            // A file that could not be emptied is gone.
            files.into_iter().for_each(|file| _ = file.empty(|| ends.load(Ordering::Relaxed)));
        };
        // Without a thread they are gone.
        let _ = Builder::new().name("scr-blanks".into()).spawn(body);
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Gives `file` the rights that one has which is made with `mode` in `dir`.
///
/// # Errors
/// Also if it cannot have all of them.
pub fn dress_as_new(file: &File, dir: &Path, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let new = options.write(true).custom_flags(libc::O_TMPFILE).mode(mode).open(dir)?;
    let (like, found) = (new.metadata()?, file.metadata()?);
    let is_plain =
        user_attributes_at(Path::new(&format!("/proc/self/fd/{}", new.as_raw_fd()))).is_empty();
    if !is_plain || (like.uid(), like.gid()) != (found.uid(), found.gid()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

fn taken_bytes(found: &fs::Metadata) -> u64 {
    found.blocks().saturating_mul(512)
}

/// Finds where the file has data.
fn pieces_of(file: &File) -> io::Result<Vec<(u64, u64)>> {
    let size = file.metadata()?.len();
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(data) = next_data(file, at, size)? {
        pieces.push((data.start, data.end));
        at = data.end;
        if pieces.len() > PIECES_MAX {
            return Err(io::ErrorKind::Unsupported.into());
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    const MIB: u64 = 1 << 20;
    const OWN: Whose = Whose::Rank(3);

    struct Store(tempfile::TempDir);

    impl Store {
        fn new() -> Store {
            Store(tempfile::tempdir_in("/dev/shm").unwrap())
        }

        fn blanks(&self) -> Blanks {
            Blanks::beside(self.0.path())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// A file with these pieces of data, MiB.
        fn file(&self, name: &str, pieces: &[(u64, u64)]) -> PathBuf {
            let mut file = File::create(self.path(name)).unwrap();
            for (begin, end) in pieces {
                file.seek(SeekFrom::Start(begin * MIB)).unwrap();
                file.write_all(&vec![7; ((end - begin) * MIB) as usize]).unwrap();
            }
            self.path(name)
        }

        fn keep(&self, whose: Whose, pieces: &[(u64, u64)]) {
            let used = self.blanks().take(whose, &self.file("used", pieces)).unwrap();
            assert!(!self.path("used").exists());
            used.empty(|| false).unwrap();
        }

        fn make(&self, whose: Whose, mib: u64, name: &str) -> Option<u64> {
            let dress = |file: &File| dress_as_new(file, self.0.path(), 0o640);
            self.blanks().make(whose, mib * MIB, &self.path(name), dress).map(|bytes| bytes / MIB)
        }
    }

    fn mode_of_new(path: &Path) -> u32 {
        let mut options = OpenOptions::new();
        let new = options.write(true).create_new(true).mode(0o640).open(path).unwrap();
        new.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_file_is_empty_and_has_its_pages_where_the_old_one_had_data() {
        let store = Store::new();
        store.keep(OWN, &[(0, 10), (30, 50)]);
        assert_eq!(
            (store.blanks().bytes(&[OWN]), store.blanks().bytes(&[Whose::Node])),
            (30 * MIB, 0)
        );
        assert_eq!(store.make(Whose::Node, 30, "new"), None, "that of one rank");
        assert_eq!(store.make(OWN, 25, "new"), Some(30));
        let found = store.path("new").metadata().unwrap();
        assert_eq!((found.len(), found.blocks() * 512, found.nlink()), (0, 30 * MIB, 1));
        assert_eq!(found.mode() & 0o7777, mode_of_new(&store.path("like")));
        let file = open(&store.path("new")).unwrap();
        file.set_len(50 * MIB).unwrap();
        assert_eq!(next_data(&file, 0, 50 * MIB).unwrap(), None, "nobody has written anything");
        let mut file = file;
        file.seek(SeekFrom::Start(30 * MIB)).unwrap();
        file.write_all(&vec![1; 20 * MIB as usize]).unwrap();
        assert_eq!(next_data(&file, 0, 50 * MIB).unwrap(), Some(30 * MIB..50 * MIB));
        assert_eq!(file.metadata().unwrap().blocks() * 512, 30 * MIB, "in the pages that it had");
        assert_eq!(store.make(OWN, 30, "next"), None, "there was one");
    }

    #[test]
    fn only_what_fits_is_taken_and_never_in_place_of_a_file() {
        let store = Store::new();
        store.keep(Whose::Node, &[(0, 10)]);
        store.keep(Whose::Node, &[(0, 40)]);
        let there = store.file("there", &[(0, 1)]);
        assert_eq!(store.make(Whose::Node, 10, "there"), None);
        assert_eq!(there.metadata().unwrap().len(), MIB);
        assert_eq!(store.make(Whose::Node, 100, "new"), None, "both are much too small");
        assert_eq!(store.make(Whose::Node, 12, "new"), Some(10));
        assert_eq!(store.make(Whose::Node, 30, "next"), Some(40));
    }

    #[test]
    fn what_nobody_takes_is_kept_no_more() {
        let (store, mut emptying) = (Store::new(), Emptying::default());
        let mut kept = |left: u64| {
            let file = store.file("file", &[(0, 9)]);
            emptying.begin(&store.blanks(), &[OWN], vec![(OWN, file.clone())], left, || {});
            let taken = !file.exists();
            let is_used = || {
                fs::read_dir(store.path(FOLDER)).is_ok_and(|all| {
                    all.flatten().any(|one| one.file_name().to_string_lossy().starts_with("used"))
                })
            };
            while taken && is_used() {
                std::thread::yield_now();
            }
            taken
        };
        assert!(!kept(17 * MIB), "room is short");
        assert!(kept(18 * MIB) && kept(18 * MIB));
        assert_eq!(store.make(OWN, 9, "new"), Some(9));
        let mut kept = |_: ()| kept(18 * MIB);
        assert!(kept(()) && kept(()), "the first one was of use");
        assert!(!kept(()) && !kept(()), "the last two were not");
    }

    #[test]
    fn what_somebody_may_use_still_is_left_or_removed() {
        let store = Store::new();
        assert!(store.blanks().take(OWN, &store.file("small", &[(0, 1)])).is_none());
        let named = store.file("named", &[(0, 9)]);
        fs::hard_link(&named, store.path("second")).unwrap();
        assert!(store.blanks().take(OWN, &named).is_none() && named.exists());
        let open = File::open(store.file("open", &[(0, 9)])).unwrap();
        assert!(store.blanks().take(OWN, &store.path("open")).unwrap().empty(|| false).is_err());
        assert_eq!(open.metadata().unwrap().len(), 9 * MIB, "its reader sees it");
        let ended = store.file("ended", &[(0, 9)]);
        assert!(store.blanks().take(OWN, &ended).unwrap().empty(|| true).is_err());
        assert_eq!(store.blanks().bytes(&[OWN]), 0);
        store.blanks().end(&[OWN]);
        assert!(!store.path(FOLDER).exists(), "nothing was left");
    }
}
