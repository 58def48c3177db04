//! What open(2)'s flags say about a call. That a descriptor can write does not mean that it will
//! (docs/internals/handles.md).

use crate::machine;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    No,
    IfAbsent,
    OnlyNew,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenIntent {
    /// Write access, O_CREAT or O_TRUNC.
    pub may_change: bool,
    pub makes: Makes,
    /// O_TRUNC with write access: the old content is not wanted.
    pub truncate: bool,
    pub append: bool,
    /// What the cache's file system may not honour, or no file at all: O_DIRECT, O_TMPFILE, O_PATH,
    /// O_DIRECTORY.
    pub special: bool,
}

impl OpenIntent {
    pub fn of(flags: i32) -> Self {
        let has = |bits: i32| flags & bits == bits;
        let writes = matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR);
        let create = has(libc::O_CREAT);
        let truncate = has(libc::O_TRUNC);
        OpenIntent {
            may_change: writes || create || truncate,
            makes: match (create, has(libc::O_EXCL)) {
                (false, _) => Makes::No,
                (true, false) => Makes::IfAbsent,
                (true, true) => Makes::OnlyNew,
            },
            truncate: truncate && writes,
            append: has(libc::O_APPEND),
            special: has(libc::O_DIRECT)
                || has(libc::O_TMPFILE)
                || has(libc::O_PATH)
                || has(libc::O_DIRECTORY),
        }
    }

    /// Says what that is to a file that the program sees, or one that it makes.
    pub fn as_wish(self, exists: bool) -> machine::Intent {
        let OpenIntent { truncate, append, .. } = self;
        machine::Intent { truncates: truncate, creates: !exists, appends: append, together: false }
    }
}

/// Whether the caller can wait with a copy until the first change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It asks again before the first change.
    Lazy,
    Changing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_apart() {
        let read = OpenIntent::of(libc::O_RDONLY | libc::O_CLOEXEC);
        assert!(!read.may_change && !read.special);
        let made = OpenIntent::of(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
        assert!(made.may_change && made.makes == Makes::IfAbsent && made.truncate);
        assert!(OpenIntent::of(libc::O_RDWR).may_change);
        assert_eq!(OpenIntent::of(libc::O_RDONLY | libc::O_EXCL).makes, Makes::No);
        assert!(OpenIntent::of(libc::O_RDWR | libc::O_TMPFILE).special);
    }
}
