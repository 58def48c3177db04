//! What a pointer file says of checkpoints.

use std::path::Path;

use crate::files::{join_relative, modified};
use crate::patterns::SeriesSet;
use crate::records::FileMeta;

/// A longer file is no pointer.
const BYTES_MAX: u64 = 64 << 10;

/// Tells whether the text of a pointer file has the id, not as a part of a longer number or word.
pub fn names_id(text: &str, id: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    !id.is_empty()
        && text.match_indices(id).any(|(at, _)| {
            let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
            !is_part(before) && !is_part(text.as_bytes().get(at + id.len()))
        })
}

/// Tells whether the text names a checkpoint that the prefix has, though nobody knows of it: all of
/// these `files`, which a rank has of another one, are there with its id.
pub fn names_another(text: &str, prefix: &Path, series: &SeriesSet, files: &[FileMeta]) -> bool {
    let masked = |file: &FileMeta| {
        let matched = series.match_path(&file.name)?;
        matched.id.is_some().then_some(matched.masked)
    };
    let masked: Vec<String> = files.iter().filter_map(masked).collect();
    let is_whole = |id: &str| masked.iter().all(|it| prefix.join(it.replace("{id}", id)).is_file());
    !masked.is_empty() && words(text).any(is_whole)
}

/// Tells whether the prefix has a newer one than the cache's `file`, whose text names a checkpoint
/// that `is_there`.
pub fn is_edited(prefix: &Path, file: &FileMeta, is_there: impl Fn(&str) -> bool) -> bool {
    let Ok(path) = join_relative(prefix, &file.name) else { return false };
    let Ok(found) = path.metadata() else { return false };
    let is_newer = modified(&found) > (file.mtime_seconds, file.mtime_nanoseconds);
    if !is_newer || !found.is_file() || found.len() > BYTES_MAX {
        return false;
    }
    let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
    is_there(&text)
}

/// Returns the numbers and words of the text that may be ids.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{names_id, words};

    #[test]
    fn a_text_has_words() {
        let found: Vec<&str> = words("ckpt/step_0085/\n(85.)").collect();
        assert_eq!(found, ["ckpt", "step", "0085", "85"]);
    }

    #[test]
    fn a_text_names_an_id_as_a_whole() {
        for (text, id, want) in [
            ("step_10\n", "10", true),
            ("step_100", "10", false),
            ("110 and 10.", "10", true),
            ("chk10.bin", "10", false),
            ("", "10", false),
            ("run.0001-01-06-00000.nc", "0001-01-06-00000", true),
            ("anything", "", false),
        ] {
            assert_eq!(names_id(text, id), want, "{text}");
        }
    }
}
