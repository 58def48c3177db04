//! The prefix, and the control and cache directories of this node.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::finding::{Finding, shell};
use crate::error::Result;
use crate::operations::prefix::state_dir;
use crate::operations::{JobPlaces, Wanted, directory_fault, wanted_directories};
use crate::params::{Environment, Settings, keys};
use crate::system::{secure_dir, space, try_lock, user_id};

/// Clocks that differ by less do no harm.
const SKEW: Duration = Duration::from_secs(5);
const FULL: u64 = 50;
const INODES_MIN: u64 = 1000;

/// Looks whether the prefix can be written to, at its locks, its clock, its room.
pub fn look_at_prefix(prefix: &Path) -> Vec<Finding> {
    let quoted = shell(prefix.display());
    if !prefix.is_dir() {
        let what = format!("the prefix directory {} is not there", prefix.display());
        return vec![Finding::fault("prefix-missing", what, format!("mkdir -p {quoted}"))];
    }
    let state = state_dir(prefix);
    let dir = if state.is_dir() { &state } else { prefix };
    let wanted = Wanted { path: dir.to_path_buf(), capacity_bytes: None };
    if let Some(fault) = directory_fault(&wanted, false) {
        let cure = format!("ls -ld {}; df -h {quoted}", shell(dir.display()));
        let what = format!("the prefix is no good: {fault}");
        return vec![Finding::fault("prefix-not-writable", what, cure)];
    }
    let mut findings = Vec::new();
    if state.is_dir() && state.metadata().is_ok_and(|found| found.uid() != user_id()) {
        let what = format!("{} belongs to somebody else, whose run it is of", state.display());
        let cure = "export SCR_PREFIX=/a/directory/of/your/own";
        findings.push(Finding::advice("prefix-of-another", what, cure));
    }
    findings.extend(look_at_locks(dir));
    if let Ok(found) = space(prefix) {
        if found.free_files == 0 || found.free_bytes == 0 {
            let what = format!("{} is full", prefix.display());
            let cure = format!("df -h {quoted}; df -i {quoted}");
            findings.push(Finding::fault("prefix-full", what, cure));
        }
        if found.in_memory {
            let what = format!(
                "the prefix {} is in the memory of this node: it is lost with the node",
                prefix.display()
            );
            let cure = "export SCR_PREFIX=/a/directory/of/a/parallel/file/system";
            findings.push(Finding::advice("prefix-in-memory", what, cure));
        }
    }
    findings
}

fn look_at_locks(dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Ok(probe) = Probe::new(dir) else { return findings };
    if let Err(error) = try_lock(&probe.file) {
        let what = format!(
            "the file system of {} has no locks ({error}): files stand in for them, and a second \
             run on the prefix is found later",
            dir.display()
        );
        let cure = format!("findmnt -T {}", shell(dir.display()));
        findings.push(Finding::advice("no-locks", what, cure));
    }
    let now = SystemTime::now();
    if let Ok(time) = probe.file.metadata().and_then(|found| found.modified()) {
        let skew = time.duration_since(now).unwrap_or_else(|error| error.duration());
        if skew > SKEW {
            let what = format!(
                "the clocks of this node and of the file system of {} differ by {} s",
                dir.display(),
                skew.as_secs()
            );
            findings.push(Finding::advice("clock-skew", what, "timedatectl status"));
        }
    }
    findings
}

struct Probe {
    file: File,
    name: Option<PathBuf>,
}

impl Probe {
    /// The file has no name where the file system can do without.
    fn new(dir: &Path) -> io::Result<Probe> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let (mut file, name) = match options.clone().custom_flags(libc::O_TMPFILE).open(dir) {
            Ok(file) => (file, None),
            Err(_) => {
                let name = dir.join(format!(".scr-doctor.{}", std::process::id()));
                (options.create_new(true).open(&name)?, Some(name))
            }
        };
        // So that it has a time that the file system has given it.
        let written = io::Write::write_all(&mut file, b"SCR");
        let probe = Probe { file, name };
        written.map(|()| probe)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.name.iter().for_each(|name| drop(std::fs::remove_file(name)));
    }
}

/// Looks at the control and cache directories of this node, as a rank would use them.
pub fn look_at_stores(settings: &Settings, environment: &Environment) -> Vec<Finding> {
    // Wrong descriptors were told of with the settings.
    let Ok(all) = wanted_directories(settings) else { return Vec::new() };
    let mut findings = Vec::new();
    let user = JobPlaces::new(settings, environment).map(|places| places.address.user);
    let prefix = settings.get(keys::PREFIX).metadata().map(|found| found.dev());
    for wanted in &all {
        let (path, quoted) = (wanted.path.display(), shell(wanted.path.display()));
        let name = match wanted.path == settings.get(keys::CNTL_BASE) {
            true => keys::CNTL_BASE.param.name,
            false => keys::CACHE_BASE.param.name,
        };
        if let Some(fault) = directory_fault(wanted, false) {
            let cure = format!("export {name}=/dev/shm; ls -ld {quoted}");
            findings.push(Finding::fault("store-unusable", format!("{fault} ({name})"), cure));
            continue;
        }
        if let Err(error) = secure(&wanted.path, user.as_deref().ok()) {
            let cure = format!("ls -ld {quoted} {quoted}/*");
            findings.push(Finding::fault("store-unsafe", error, cure));
        }
        findings.extend(look_at_room(wanted));
        let device = wanted.path.metadata().map(|found| found.dev());
        if let (Ok(one), Ok(other)) = (device, &prefix)
            && one == *other
        {
            let what = format!(
                "{path} ({name}) is on the file system of the prefix: a checkpoint in it is no \
                 faster, and not where SCR expects it to be"
            );
            findings.push(Finding::advice("store-on-prefix", what, format!("findmnt -T {quoted}")));
        }
    }
    findings
}

/// Makes nothing, other than a rank.
fn secure(base: &Path, user: Option<&str>) -> Result<()> {
    let below: Vec<&str> = user.into_iter().filter(|user| base.join(user).exists()).collect();
    secure_dir(base, &below)
}

fn look_at_room(wanted: &Wanted) -> Option<Finding> {
    let found = space(&wanted.path).ok()?;
    let (path, quoted) = (wanted.path.display(), shell(wanted.path.display()));
    if found.free_files < INODES_MIN {
        let what = format!("{path} can take {} more files only (inodes)", found.free_files);
        return Some(Finding::fault("store-full", what, format!("df -i {quoted}")));
    }
    (found.free_bytes < found.total_bytes / FULL).then(|| {
        let what = format!(
            "{path} is nearly full: {} of {} bytes are free; files that do not fit go to the \
             prefix",
            found.free_bytes, found.total_bytes
        );
        Finding::fault("store-full", what, format!("du -xsh {quoted}/*; df -h {quoted}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(findings: &[Finding]) -> Vec<&'static str> {
        findings.iter().map(|one| one.id).collect()
    }

    #[test]
    fn a_look_at_the_prefix_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let found = look_at_prefix(dir.path());
        assert!(!ids(&found).contains(&"no-locks") && !ids(&found).contains(&"clock-skew"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(ids(&look_at_prefix(&dir.path().join("none"))), ["prefix-missing"]);
    }
}
