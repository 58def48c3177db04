//! The way back to an older generation of a series without ids, whose names a newer one has taken
//! on the prefix: its files are kept beside, as far as the window (`SCR_PREFIX_SIZE`) reaches.

use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::messages;
use crate::records::FileNames;
use crate::restart::index::{Index, IndexedDataset};
use crate::session::restart::Restorer;
use crate::transfer::bring_back;

impl Restorer {
    /// Gives files that were kept their names again; `damaged`: the newer one has been found so.
    /// `false`: all stays as it is. Collective.
    pub(crate) fn bring_back(
        &self,
        links: &Links,
        one: &IndexedDataset,
        index: &mut Index,
        damaged: bool,
    ) -> Result<bool> {
        let name = &one.name;
        let refused = |index: &mut Index| {
            index
                .listed
                .iter_mut()
                .filter(|it| it.id == one.id)
                .for_each(|it| it.file_names = FileNames::Taken);
            Ok(false)
        };
        match bring_back(&links.ctx(&self.site), one.id, damaged) {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => {
                self.rank.tell(
                    messages::PUT_BACK_FAILED,
                    format_args!("{name}: {error}; the next start tries again"),
                );
                return refused(index);
            }
            Ok(Err(why)) => {
                self.rank.tell(
                    messages::PUT_BACK_FAILED,
                    format_args!("{name}, which was kept, stays where it is: {why}"),
                );
                return refused(index);
            }
            Ok(Ok(())) => {}
        }
        let same = |other: &IndexedDataset| {
            (&other.key.series, &other.key.id) == (&one.key.series, &one.key.id)
        };
        let mut newer = None;
        for other in index.listed.iter_mut().filter(|other| same(other)) {
            if other.id == one.id {
                other.file_names = FileNames::Own;
            } else if other.file_names == FileNames::Own {
                newer = Some(other.id);
                other.file_names = FileNames::Taken;
                index.flushed.retain(|id| *id != other.id);
            }
        }
        let rest = newer.map_or_else(String::new, |id| {
            let dir = self.site.on_prefix(&format!(".scr/scr.dataset.{id}/files"));
            format!("; those of dataset {id} are in {}", dir.display())
        });
        self.rank.tell(
            messages::PUT_BACK,
            format_args!("the files of {name} (dataset {}) are in place again{rest}", one.id),
        );
        self.rank.event(|| Event::new("PUT_BACK").dataset(one.id, one.key.title()));
        Ok(true)
    }
}
