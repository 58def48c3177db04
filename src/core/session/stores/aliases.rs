//! Directories of the patterns that are symbolic links ([`Alias`]): what the program does with
//! them, and what it writes through other links.

use std::path::Path;

use crate::launch::aliases::Alias;
use crate::log::{self, messages};
use crate::session::stores::Stores;

impl Stores {
    pub fn aliases(&self) -> &[Alias] {
        &self.site.aliases
    }

    /// Warns that what is opened for writing does not lie there, because of a symbolic link.
    pub(crate) fn misled(&self, path: &Path) {
        let Some(name) = self.rank.name_of(path) else { return };
        if self.rank.match_name(name).is_none() {
            return;
        }
        // The innermost link says most.
        let mut folders = path.ancestors().skip(1);
        let is_link = |it: &&Path| it.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let Some(link) = folders.find(is_link) else { return };
        let (Ok(place), Ok(rest)) = (link.canonicalize(), path.strip_prefix(link)) else { return };
        let real = place.join(rest);
        if self.rank.name_of(&real).is_some_and(|name| self.rank.match_name(name).is_some()) {
            return; // as `latest -> step_5`
        }
        let (name, place) = (self.rank.name_of(link).unwrap_or(name), place.display());
        if self.is_alias(name) {
            return self.link_replaced(name); // by another rank
        }
        let text = format!(
            "{name} is a symbolic link to {place}: checkpoint files that are written through it go \
             straight there and are not protected. For that it has to be there before the run \
             begins, the same on all nodes, and named in the patterns without a wildcard; or name \
             in SCR_PREFIX and the patterns where it leads"
        );
        log::warn_once_for(messages::LINK_IN_PATH, name, text);
    }

    fn is_alias(&self, name: &str) -> bool {
        self.site.aliases.iter().any(|alias| alias.name == name)
    }

    fn link_replaced(&self, name: &str) {
        self.give_up_routing(&format!(
            "the program replaces the symbolic link {name}, through which checkpoints go"
        ));
    }

    /// Heeds that names are about to stand for something else: if one is an alias, the cache and
    /// the program would not mean the same directory any more.
    pub(crate) fn heed_link(&self, paths: &[&Path]) {
        let mut names = paths.iter().filter_map(|path| self.rank.name_of(path));
        if let Some(name) = names.find(|name| self.is_alias(name)) {
            self.link_replaced(name);
        }
    }
}
