//! Clusters of ordinary users: everything happens in one user namespace around the cluster, in
//! which the user is its root. Whoever works with the cluster from outside enters that first.
//!
//! Only the user's own id is known in it. What needs other ids (daemons that give up rights, files
//! of other users) does not work there.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use scr_core::error::{Error, Result};
use scr_core::system::user_id;

use super::namespace;

const ROOTS: &str = "/run/scr-sim";
/// Those of others. All nodes see it, and others than the user keep their hands off.
const OTHERS: &str = "/var/tmp/scr-sim-";

/// Settings of the kernel that keep ordinary users from it: file, the value that does, the remedy.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

pub fn base() -> PathBuf {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    match owner(user_id(), &map) {
        0 => PathBuf::from(ROOTS),
        user => PathBuf::from(format!("{OTHERS}{user}")),
    }
}

/// The user outside, of whom it may be known only that he is root in his own namespace.
fn owner(user: u32, map: &str) -> u32 {
    let numbers: Vec<u32> = map.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [0, outside, 1] if user == 0 => outside,
        _ => user,
    }
}

/// Makes the directory of [`base`]; below one that others could have made it must be ours.
pub fn make_base(base: &Path) -> Result<()> {
    if base == Path::new(ROOTS) {
        return fs::create_dir_all(base).map_err(|e| Error::io("cannot create", base, e));
    }
    match fs::DirBuilder::new().mode(0o700).create(base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("cannot create", base, error));
        }
        _ => {}
    }
    let found =
        fs::symlink_metadata(base).map_err(|error| Error::io("cannot look at", base, error))?;
    if found.is_dir() && found.uid() == user_id() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{} is not a directory of your own that is closed to others: remove it",
        base.display()
    )))
}

/// Makes this process root in a user namespace of its own, unless it is root already.
pub fn become_root() -> Result<()> {
    if namespace::is_root() {
        return Ok(());
    }
    namespace::own_users().map_err(|error| refused(&error))
}

/// Makes this process root in the user namespace of the cluster of process `keeper`, unless it is
/// root already.
pub fn enter(keeper: u32) -> Result<()> {
    if namespace::is_root() {
        return Ok(());
    }
    let keeper = PathBuf::from("/proc").join(keeper.to_string());
    namespace::join_users(&keeper).map_err(|error| Error::io("cannot enter", &keeper, error))
}

/// Makes the error that an ordinary user is told whose cluster the kernel refuses.
pub fn refused(error: &io::Error) -> Error {
    let setting = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
    Error::Refused(advice(error, &setting))
}

fn advice(error: &io::Error, setting: &dyn Fn(&str) -> Option<String>) -> String {
    let is_off = |(name, off, _): &&(&str, &str, &str)| {
        setting(name).is_some_and(|value| value.trim() == *off)
    };
    let (why, remedy) = match SWITCHES.iter().find(is_off) {
        Some((name, value, remedy)) => (
            format!("{} is {value}", name.replace('/', ".")),
            format!("an administrator can allow it with '{remedy}'"),
        ),
        None => (
            error.to_string(),
            "in a container it may be the container's limits (for podman and docker: \
             --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
                .to_owned(),
        ),
    };
    format!(
        "this system lets ordinary users make no namespaces ({why}): {remedy}; or start the \
         cluster as root"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_in_a_namespace_of_one_user_is_that_user() {
        assert_eq!(owner(1000, "0 0 4294967295\n"), 1000);
        assert_eq!(owner(0, "         0          0 4294967295\n"), 0);
        assert_eq!(owner(0, "         0       1000          1\n"), 1000);
        assert_eq!(owner(0, "0 1000 1\n1 100000 65536\n"), 0);
        assert_eq!(owner(0, ""), 0);
    }

    #[test]
    fn who_is_refused_is_told_which_setting_it_is() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let told = |name: &'static str, value: &'static str| {
            advice(&error, &|asked| (asked == name).then(|| format!("{value}\n")))
        };
        let none = told("user/max_user_namespaces", "0");
        assert!(none.contains("(user.max_user_namespaces is 0)"), "{none}");
        assert!(none.contains("sysctl -w user.max_user_namespaces"), "{none}");
        let ubuntu = told("kernel/apparmor_restrict_unprivileged_userns", "1");
        assert!(ubuntu.contains("apparmor_restrict_unprivileged_userns=0"), "{ubuntu}");
        let other = told("user/max_user_namespaces", "15000");
        assert!(
            other.contains("Operation not permitted") && other.contains("container"),
            "{other}"
        );
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        make_base(&base).unwrap();
        make_base(&base).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&base, open).unwrap();
        assert!(make_base(&base).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(make_base(&link).is_err());
    }
}
