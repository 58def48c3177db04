//! Names that the program gives: of datasets, and of files.

use std::path::{Path, PathBuf};

use super::writing::FILENAME_MAX;
use crate::error::{Error, Result};
use crate::files::{normalize, relative_to};
use crate::namespace as ns;
use crate::session::program::Program;

/// Makes the name of a dataset one that index, commands and directories can have: one line, no
/// slashes, no leading dot.
pub(super) fn dataset_name(given: &str) -> Result<String> {
    if given.len() >= FILENAME_MAX {
        return Err(Error::Refused(format!(
            "the name of a dataset has {} bytes; SCR_MAX_FILENAME allows {}",
            given.len(),
            FILENAME_MAX - 1
        )));
    }
    let clean = |one: char| match one {
        '/' | '\\' => '_',
        one if one.is_control() || one.is_whitespace() => '_',
        one => one,
    };
    let name: String = given.trim().chars().map(clean).collect();
    let name = match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    };
    if name.is_empty() {
        return Err(Error::Refused("the name of a dataset is empty".to_string()));
    }
    Ok(name)
}

impl Program {
    /// Finds the name below the prefix of a path as the program gives it: absolute, or relative to
    /// where it is now; symbolic links on the way may lead there.
    pub(super) fn name_below_prefix(&self, path: &Path) -> Result<String> {
        let here = std::env::current_dir()
            .map_err(|e| Error::io("cannot find the working directory", ".", e))?;
        let whole = normalize(path, &here);
        let found = relative_to(&whole, &self.rank.site.prefix)
            .or_else(|| relative_to(&resolve(&whole)?, &self.rank.site.prefix));
        match found {
            Some(name) if !ns::is_ours(&name) => Ok(name),
            Some(name) => Err(Error::Refused(format!("{name} is a name of SCR's own files"))),
            None => Err(Error::Refused(format!(
                "{} is not below the prefix directory {} (SCR_PREFIX)",
                whole.display(),
                self.rank.site.prefix.display()
            ))),
        }
    }
}

/// With symbolic links resolved in what is there of it.
fn resolve(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().skip(1).find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
    let (dir, real) = there?;
    Some(real.join(path.strip_prefix(dir).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_datasets_fit_into_one_line_and_one_directory() {
        for (given, expected) in [
            ("ckpt.7", "ckpt.7"),
            ("run/step 7", "run_step_7"),
            ("..", "_."),
            (" a\nb\t", "a_b"),
            ("a\u{e9}", "a\u{e9}"),
        ] {
            assert_eq!(dataset_name(given).unwrap(), expected);
        }
        for given in ["", "  ", &"x".repeat(FILENAME_MAX)] {
            assert!(dataset_name(given).is_err(), "{given}");
        }
        assert!(dataset_name(&"x".repeat(FILENAME_MAX - 1)).is_ok());
    }
}
