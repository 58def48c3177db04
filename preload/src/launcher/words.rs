//! Words of command lines and variables of the environment, as all launchers have them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

pub(super) fn preload_with(value: &OsStr, library: &OsStr) -> OsString {
    let own_name = Path::new(library).file_name();
    let mut entries: Vec<&[u8]> = Vec::new();
    let mut found = false;
    for entry in value.as_bytes().split(|&byte| byte == b':' || byte == b' ') {
        if Path::new(OsStr::from_bytes(entry)).file_name() == own_name {
            if !std::mem::replace(&mut found, true) {
                entries.push(library.as_bytes());
            }
        } else if !entry.is_empty() {
            entries.push(entry);
        }
    }
    if !found {
        entries.insert(0, library.as_bytes());
    }
    OsString::from_vec(entries.join(&b':'))
}

pub(super) fn preload_entry(value: &[u8], library: &OsStr) -> OsString {
    let mut entry = OsString::from("LD_PRELOAD=");
    entry.push(preload_with(OsStr::from_bytes(value), library));
    entry
}

pub(super) fn option(word: &OsStr) -> Option<&[u8]> {
    let name = word.as_bytes().strip_prefix(b"-")?;
    Some(name.strip_prefix(b"-").unwrap_or(name))
}

/// Needs a process that has one thread still.
pub(super) fn set(name: &str, value: &OsStr) {
    set_os(OsStr::new(name), value);
}

pub(super) fn set_os(name: &OsStr, value: &OsStr) {
    // SAFETY: the constructor runs before there is a second thread.
    unsafe { std::env::set_var(name, value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> String {
        let library = OsStr::new("/opt/lib/libscr_preload.so");
        preload_with(OsStr::new(value), library).into_string().unwrap()
    }

    #[test]
    fn our_own_path_becomes_absolute_and_others_stay_in_place() {
        let own = "/opt/lib/libscr_preload.so";
        assert_eq!(with("libscr_preload.so"), own);
        assert_eq!(with("/a.so:./libscr_preload.so /b.so"), format!("/a.so:{own}:/b.so"));
        assert_eq!(with(""), own);
        assert_eq!(with("/a.so"), format!("{own}:/a.so"));
    }
}
