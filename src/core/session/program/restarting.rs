//! The program reads a checkpoint. If it says that it could not, the next older one is offered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::RestartReading;
use super::consent::no_communication;
use crate::cache::Catalog;
use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::machine::DatasetKey;
use crate::namespace as ns;
use crate::session::program::Program;
use crate::transfer::{files_on_prefix, note_attempt, note_success};

impl Program {
    /// Begins to read the checkpoint that was offered. Returns its name.
    /// Collective.
    pub fn start_restart(&self) -> Result<String> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        self.site.host.inside(|| {
            let offered = self.progress().offered.clone();
            let Some(candidate) = offered else {
                return Err(Error::Missing("SCR_Have_restart has not offered any".to_string()));
            };
            let files = match &candidate.cached {
                Some(key) => self.cached_files(key, candidate.on_prefix),
                None => self.files_to_read(&links, candidate.id)?,
            };
            if candidate.on_prefix {
                self.prefix.note_fetch(note_attempt, candidate.id);
            }
            let name = candidate.name.clone();
            self.progress().reading = Some(RestartReading { candidate, files });
            Ok(name)
        })
    }

    fn cached_files(&self, key: &DatasetKey, on_prefix: bool) -> BTreeMap<String, (PathBuf, bool)> {
        let state = self.node.state();
        let Some(layer) = state.view.layer(key) else { return BTreeMap::new() };
        let mut files = BTreeMap::new();
        let catalog = Catalog::read(&layer.dir).ok().flatten();
        for entry in catalog.into_iter().flat_map(|catalog| catalog.entries) {
            let (here, there) =
                (layer.dir.join(&entry.meta.name), self.site.on_prefix(&entry.meta.name));
            let own = entry.rank == self.site.rank;
            // Those of other nodes can be read where the prefix has them.
            let elsewhere = !own && on_prefix && !here.exists();
            let path = if entry.meta.on_prefix || elsewhere { there } else { here };
            files.entry(entry.meta.name).or_insert((path, own));
        }
        let own = state.own.holdings.get(key).into_iter().flat_map(|holding| &holding.files);
        for name in own {
            let path = match state.machine.lies_on_prefix(key, name) {
                Some(true) => self.site.on_prefix(name),
                _ => layer.dir.join(name),
            };
            files.insert(name.clone(), (path, true));
        }
        files
    }

    fn files_to_read(&self, links: &Links, id: u64) -> Result<BTreeMap<String, (PathBuf, bool)>> {
        let by_rank = files_on_prefix(&links.ctx(&self.site), id)?;
        let place = |(rank, files): (usize, Vec<String>)| {
            let own = rank == self.site.rank;
            files.into_iter().map(move |name| (name, own))
        };
        let all = by_rank.into_iter().flat_map(place);
        Ok(all.map(|(name, own)| (name.clone(), (self.site.on_prefix(&name), own))).collect())
    }

    /// Returns where the program is to read the file that it has written as `name`: its path, or
    /// the last part of it. Local. Fails if there is none, or two, or another node has it.
    pub fn route_input(&self, name: &Path) -> Result<PathBuf> {
        let below = ns::name_below_prefix(&self.site.prefix, name).ok();
        let progress = self.progress();
        let Some(reading) = &progress.reading else {
            return Err(Error::Missing("no checkpoint is being read".to_string()));
        };
        let title = &reading.candidate.name;
        let path = match below.and_then(|below| reading.files.get(&below)) {
            Some((path, _)) => path,
            None => reading.by_last_part(name)?,
        };
        if path.exists() {
            return Ok(path.clone());
        }
        Err(Error::Missing(format!(
            "{} of {title} is not on this node: a rank of another one wrote it, and it is not \
             on {} yet",
            name.display(),
            self.site.prefix.display()
        )))
    }

    /// Takes the word that this rank has read the checkpoint, or could not. Collective; fails
    /// on all ranks if one could not read it.
    pub fn complete_restart(&self, valid: bool) -> Result<()> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        self.site.host.inside(|| {
            let reading = self.progress().reading.take();
            let Some(RestartReading { candidate, .. }) = reading else {
                return Err(Error::Missing("no checkpoint is being read".to_string()));
            };
            // The first rank that could not is named.
            let size = self.site.size as i64;
            let mut word = [if valid { 0 } else { size - self.site.rank as i64 }];
            links.world.all_max(&mut word)?;
            let name = &candidate.name;
            if word[0] != 0 {
                self.refuse(&candidate);
                let rank = size - word[0];
                return Err(Error::Remote(format!(
                    "rank {rank} could not read {name}: the next older one is offered"
                )));
            }
            if candidate.on_prefix {
                self.prefix.note_fetch(note_success, candidate.id);
            }
            self.rank.mention(format_args!("the run goes on from {name}"));
            Ok(())
        })
    }
}

impl RestartReading {
    /// Of several files with that last part, the one of this rank.
    fn by_last_part(&self, name: &Path) -> Result<&PathBuf> {
        let title = &self.candidate.name;
        let last = name.file_name();
        let all = self.files.iter().filter(|(known, _)| Path::new(known).file_name() == last);
        let all: Vec<_> = all.collect();
        let own: Vec<_> = all.iter().filter(|(_, (_, own))| *own).collect();
        match (own.as_slice(), all.as_slice()) {
            ([(_, (path, _))], _) | ([], [(_, (path, _))]) => Ok(path),
            ([], []) => Err(Error::Missing(format!("{title} has no file {}", name.display()))),
            ([one, other, ..], _) => Err(ambiguous(title, name, one.0, other.0)),
            ([], [one, other, ..]) => Err(ambiguous(title, name, one.0, other.0)),
        }
    }
}

fn ambiguous(title: &str, name: &Path, one: &str, other: &str) -> Error {
    let name = name.display();
    Error::Refused(format!(
        "{title} has more than one file {name}: {one} and {other}; give its path"
    ))
}
