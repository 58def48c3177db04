//! The directories that a job needs on a node (`scr_check_node` of manual 1.1, section 11.2.3), and
//! the prefix at the beginning of an allocation (`scr_prerun`).

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{forget_halt_reason, reset_nodes_file};
use crate::descriptors::Descriptors;
use crate::error::{Error, Result};
use crate::launch::JobPlaces;
use crate::params::{Environment, Settings, keys};
use crate::system::{hostname, may_write, space};

/// A directory that has to be on every node. As text: its path, and `=BYTES` with a capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The directory.
    pub path: PathBuf,
    /// Bytes that its file system has to have.
    pub capacity_bytes: Option<u64>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.capacity_bytes.map_or(Ok(()), |bytes| write!(f, "={bytes}"))
    }
}

/// Returns the base directories of control and cache.
pub fn wanted_directories(settings: &Settings) -> Result<Vec<Wanted>> {
    let stores = Descriptors::new(settings, &[hostname()])?.stores;
    let stores = stores.into_iter().filter(|store| store.enabled);
    let mut all: Vec<Wanted> = stores
        .map(|store| Wanted { path: store.base, capacity_bytes: store.capacity_bytes })
        .collect();
    let control = settings.get(keys::CNTL_BASE);
    if all.iter().all(|one| one.path != control) {
        all.insert(0, Wanted { path: control, capacity_bytes: None });
    }
    Ok(all)
}

/// Tells why the directory is no good on this node. With `free` the capacity has to be free.
pub fn directory_fault(wanted: &Wanted, free: bool) -> Option<String> {
    let path = wanted.path.display();
    if !wanted.path.is_dir() {
        return Some(format!("there is no directory {path}"));
    }
    if let Err(error) = try_to_write(&wanted.path) {
        return Some(format!("nothing can be written to {path}: {error}"));
    }
    let needed = wanted.capacity_bytes?;
    let found = match space(&wanted.path) {
        Ok(found) if free => found.free_bytes,
        Ok(found) => found.total_bytes,
        Err(error) => return Some(error.to_string()),
    };
    let word = if free { "free" } else { "in all" };
    (found < needed).then(|| format!("{path} has {found} bytes {word}, {needed} are wanted"))
}

/// Writes to a file without a name: nothing stays, whatever happens. Network file systems know
/// none; there the permission has to do.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(dir);
    match file {
        Ok(mut file) => file.write_all(b"SCR"),
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT) if may_write(dir) => Ok(()),
            _ => Err(error),
        },
    }
}

/// Takes back what an earlier run has recorded as its own end, and forgets the nodes of another
/// job. What a person asked for with `scr halt` stays.
pub fn begin_allocation(settings: &Settings, environment: &Environment) -> Result<()> {
    let places = JobPlaces::new(settings, environment)?;
    let wanted = Wanted { path: places.prefix.clone(), capacity_bytes: None };
    if let Some(fault) = directory_fault(&wanted, false) {
        return Err(Error::Refused(format!("the prefix is no good: {fault}")));
    }
    forget_halt_reason(&places.prefix)?;
    reset_nodes_file(&places.prefix, &places.address.job).map(drop)
}
