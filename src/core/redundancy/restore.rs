//! Lost files on their way back: under temporary names until all of them are right.
//!
//! The temporaries lie in the redundancy directory (same file system) under names that depend only
//! on rank and index, so a rebuild that is run again after it was cut off replaces them.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use super::MemberList;
use super::folder::{DIRECTORY_MODE, REDUNDANCY_DIR};
use super::layout::LogicalFile;
use super::verify::compare_crcs;
use crate::error::{Error, Result};
use crate::files::{create_dirs, join_relative, open_own, replace, sync_dir};
use crate::records::FileMeta;

pub(super) struct Restore {
    dir: PathBuf,
    list: MemberList,
    pub content: LogicalFile,
}

impl Restore {
    pub fn begin(dir: &Path, list: MemberList) -> Result<Self> {
        let rank = list.world_rank;
        let content =
            LogicalFile::create(&list.files, None, |index, _| Ok(temporary(dir, rank, index)))?;
        Ok(Restore { dir: dir.to_owned(), list, content })
    }

    /// Checks the content against the checksums of the list and makes it durable.
    pub fn check(&mut self) -> Result<Vec<FileMeta>> {
        let found = self.content.crcs();
        compare_crcs(&self.dir, &self.list.files, &found)
            .map_err(|error| Error::Unrecoverable(format!("the rebuilt data is wrong: {error}")))?;
        let mut files = self.list.files.clone();
        for (file, found) in files.iter_mut().zip(found) {
            file.crc32 = file.crc32.or(found);
        }
        self.content.sync()?;
        Ok(files)
    }

    pub fn publish(self) -> Result<()> {
        drop(self.content);
        let mut dirs = BTreeSet::new();
        for (index, file) in self.list.files.iter().enumerate().filter(|(_, f)| !f.on_prefix) {
            let from = temporary(&self.dir, self.list.world_rank, index);
            let to = join_relative(&self.dir, &file.name)?;
            open_own(&from, OpenOptions::new().write(true))
                .and_then(|opened| file.give_to(&opened))
                .map_err(|e| Error::io("cannot set the mode of", &from, e))?;
            if let Some(parent) = to.parent() {
                create_dirs(parent, DIRECTORY_MODE)?;
                dirs.insert(parent.to_owned());
            }
            replace(&from, &to).map_err(|e| Error::io("cannot create", &to, e))?;
        }
        dirs.iter().try_for_each(|dir| sync_dir(dir))
    }
}

fn temporary(dir: &Path, world_rank: usize, index: usize) -> PathBuf {
    dir.join(REDUNDANCY_DIR).join(format!("rebuild.{world_rank}.{index}"))
}
