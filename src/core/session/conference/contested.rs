//! The last look at a dataset that is sealed: has each of its files one writer? Learning sees to
//! that; but a user may have said that it is not needed.

use crate::cache::{self, Ctx, Prepared};
use crate::comm::ranks::ranks_phrase;
use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::machine::{Contested, DatasetKey, FileRef, contested_reason, parted_reason};
use crate::session::conference::Conference;

impl Conference {
    /// Refuses a seal where several ranks have written one file. The same on all ranks.
    pub(crate) fn check_writers(&self, ctx: &Ctx, key: &DatasetKey, made: &Prepared) -> Result<()> {
        let contested = cache::contested(ctx, made)?;
        let Some(first) = contested.first() else { return Ok(()) };
        let error = format!("{} was written by {}", first.name, ranks_phrase(&first.ranks));
        let files = contested.into_iter();
        let files = files.filter_map(|one| self.contested(key, &one.name, one.ranks, one.alike));
        let files: Vec<Contested> = files.collect();
        let mut state = self.node.state();
        for one in files.iter().filter(|one| one.spoiled.is_none()) {
            if one.ranks.contains(&self.site.rank) && one.ranks[0] != self.site.rank {
                state.leave_file(key, &one.file.name);
            }
        }
        state.machine.settle_contested(key, &files);
        Err(Error::Refused(error))
    }

    /// Looks for files of a dataset, of which no seal comes, that several nodes have: none of them
    /// has all of such a file, and on the prefix one would replace another. Returns why the dataset
    /// is given up, if there are some. Collective.
    pub(crate) fn find_parted(&self, links: &Links, key: &DatasetKey) -> Result<Option<String>> {
        let own = self.node.state().machine.seal_files(key);
        let own = own.into_iter().filter(|file| !file.on_prefix).map(|file| file.name);
        let all = links.world.all_gather(own.collect::<Vec<_>>().join("\0").as_bytes())?;
        let names = |bytes| std::str::from_utf8(bytes).unwrap_or_default().split_terminator('\0');
        let names: Vec<Vec<&str>> = all.iter().map(|bytes| names(bytes).collect()).collect();
        let mut state = self.node.state();
        let parted = state.machine.parted(&names).into_iter();
        let files = parted.filter_map(|(name, ranks)| self.contested(key, name, ranks, false));
        let files: Vec<Contested> = files.collect();
        state.machine.settle_contested(key, &files);
        Ok(files.into_iter().find_map(|file| file.spoiled))
    }

    fn contested(
        &self,
        key: &DatasetKey,
        name: &str,
        ranks: Vec<usize>,
        alike: bool,
    ) -> Option<Contested> {
        let by_calls = self.rank.series.series()[key.series].is_explicit();
        let file = match by_calls {
            true => FileRef::explicit(key, name),
            false => self.rank.file_ref(name)?,
        };
        let why = || match by_calls {
            true => parted_reason(name, &ranks_phrase(&ranks)),
            false => contested_reason(name, &ranks_phrase(&ranks[1..])),
        };
        let spoiled = (!alike).then(why);
        Some(Contested { file, ranks, spoiled })
    }
}
