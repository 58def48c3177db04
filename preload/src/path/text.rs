//! Paths as texts: nothing here asks the file system.

use std::ffi::{CStr, CString};

pub(crate) fn below(prefix: &[u8], path: &[u8]) -> bool {
    path.starts_with(prefix)
        && (path.len() == prefix.len() || prefix == b"/" || path[prefix.len()] == b'/')
}

pub(crate) fn means_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Takes an absolute path; the root lies in none.
pub(crate) fn parent(path: &CStr) -> Option<CString> {
    let path = path.to_bytes();
    let slash = path.iter().rposition(|&byte| byte == b'/').filter(|_| path.len() > 1)?;
    CString::new(&path[..slash.max(1)]).ok()
}

/// Takes an absolute path; one with `//`, `/.` or a trailing slash has none.
pub(super) fn last_slash_if_plain(path: &[u8]) -> Option<usize> {
    if path.first() != Some(&b'/') || path.last() == Some(&b'/') {
        return None;
    }
    let mut slash = 0;
    for (at, pair) in path.windows(2).enumerate() {
        if pair[0] == b'/' {
            if pair[1] == b'/' || pair[1] == b'.' {
                return None;
            }
            slash = at;
        }
    }
    Some(slash)
}

pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(directory.len() + name.len() + 1);
    whole.extend_from_slice(directory);
    if !directory.ends_with(b"/") {
        whole.push(b'/');
    }
    whole.extend_from_slice(name);
    whole
}

pub(super) fn has_dot_dot(path: &[u8]) -> bool {
    position_of_dot_dot(path).is_some()
}

pub(crate) fn position_of_dot_dot(path: &[u8]) -> Option<usize> {
    let mut slashes = (0..path.len()).filter(|&at| path[at] == b'/');
    slashes.find(|&at| path[at + 1..].split(|&byte| byte == b'/').next() == Some(b".."))
}

/// Removes `.`, `//` and a trailing slash; the path has no `..`.
pub(super) fn lexical(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        plain.push(b'/');
        plain.extend_from_slice(part);
    }
    if plain.is_empty() {
        plain.push(b'/');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_are_told_at_a_glance() {
        assert_eq!(last_slash_if_plain(b"/a/b"), Some(2));
        assert_eq!(last_slash_if_plain(b"/a"), Some(0));
        for path in ["a/b", "/a/", "/a//b", "/a/./b", "/a/../b", "/", ""] {
            assert_eq!(last_slash_if_plain(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn a_name_that_only_begins_like_the_prefix_is_outside() {
        assert!(below(b"/p", b"/p/x") && below(b"/p", b"/p") && below(b"/", b"/x"));
        assert!(!below(b"/p", b"/pq/x") && !below(b"/p/q", b"/p"));
    }
}
