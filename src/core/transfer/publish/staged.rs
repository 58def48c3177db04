//! Names of staged files: beside their targets, hidden, with the epoch of their seal.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::crc32;
use crate::records::text::{epoch_text, parse_epoch};

const MARK: &str = ".scr-";
const EPOCH_DIGITS: usize = 16;
const NAME_BYTES_MAX: usize = 255;

/// Returns the name under which a file is staged: `.<name>.scr-<epoch>`. A name too long for that
/// is cut and gets its own checksum.
pub fn staged_name(name: &str, epoch: u64) -> String {
    let tail = format!("{MARK}{}", epoch_text(epoch));
    if 1 + name.len() + tail.len() <= NAME_BYTES_MAX {
        return format!(".{name}{tail}");
    }
    let own = format!("~{:08x}", crc32(name.as_bytes()));
    let room = NAME_BYTES_MAX - 1 - own.len() - tail.len();
    let cut = (0..=room).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!(".{}{own}{tail}", &name[..cut])
}

/// Tells whether a file name is that of a staged file, to be hidden from the program's listings.
pub fn is_staged_name(name: &str) -> bool {
    let Some(at) = name.len().checked_sub(EPOCH_DIGITS) else { return false };
    let Some((head, epoch)) = name.split_at_checked(at) else { return false };
    let epoch_is_one = parse_epoch(epoch).is_some();
    epoch_is_one && head.len() > MARK.len() + 1 && head.starts_with('.') && head.ends_with(MARK)
}

pub(crate) fn staged_path(target: &Path, epoch: u64) -> Result<PathBuf> {
    match (target.parent(), target.file_name().and_then(|name| name.to_str())) {
        (Some(dir), Some(name)) => Ok(dir.join(staged_name(name, epoch))),
        _ => Err(Error::Refused(format!("{} is not the name of a file", target.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_names_are_recognised_and_fit() {
        let name = staged_name("rank_0.dat", 0xab);
        assert_eq!(name, ".rank_0.dat.scr-00000000000000ab");
        assert!(is_staged_name(&name));
        for other in ["rank_0.dat", ".scr-00000000000000ab", ".a.scr-xyz", "", "\u{e9}"] {
            assert!(!is_staged_name(other), "{other}");
        }
        let long = "\u{e9}".repeat(127);
        let (one, two) = (staged_name(&format!("{long}a"), 1), staged_name(&format!("{long}b"), 1));
        assert!(one.len() <= NAME_BYTES_MAX && one != two && is_staged_name(&one));
    }
}
