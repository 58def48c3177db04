//! What is whole in the cache, but cannot come to where its ranks run now, goes to the prefix, and
//! from there to its ranks. No copy goes before another one is there.

use crate::cache::agree::agree;
use crate::cache::evict::discard;
use crate::cache::{RebuildReport, Withheld};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::messages;
use crate::records::DatasetRecord;
use crate::restart::index::Index;
use crate::restart::plan::Restart;
use crate::restart::verdict::Fate;
use crate::session::restart::Restorer;
use crate::system::Lanes;
use crate::transfer::{Left, flush_shares, kept_by_newer};

impl Restorer {
    /// Removes the copies in the cache then: the nodes have room again. Collective.
    pub(crate) fn publish_stranded(
        &self,
        links: &Links,
        report: &mut RebuildReport,
        restart: &mut Restart,
    ) -> Result<()> {
        let mut any = false;
        while let Some((id, Fate::PublishFromHolders)) = restart.plan().next().cloned() {
            restart.published(id);
            let is_it = |one: &Withheld| one.id == id && one.stranded.is_some();
            let Some(at) = report.withheld.iter().position(is_it) else { continue };
            match self.publish_one(links, &report.withheld[at], &restart.index) {
                Ok(left) => {
                    any = true;
                    report.withheld.remove(at);
                    self.rank.log_left(&left);
                }
                Err(error @ Error::Comm(_)) => return Err(error),
                Err(error) => {
                    let reason = &mut report.withheld[at].reason;
                    *reason = format!("{reason}; nor can it be published: {error}");
                    continue;
                }
            }
            let chosen = |record: &DatasetRecord| record.dataset_id == id;
            agree(links.world.as_ref(), discard(&links.ctx(&self.site), &chosen, &|_| false))?;
        }
        if any {
            restart.index = Index::read(links.world.as_ref(), &self.site, &self.rank.series, None)?;
        }
        Ok(())
    }

    fn publish_one(&self, links: &Links, one: &Withheld, known: &Index) -> Result<Left> {
        let (ctx, stranded) = (links.ctx(&self.site), one.stranded.as_ref());
        let (Some(stranded), Some(kept)) =
            (stranded, kept_by_newer(&ctx, one.id, &one.key, known.restorable())?)
        else {
            return Err(Error::Refused("a newer one has its names".into()));
        };
        let kept = |name: &str| kept.contains(name);
        let left = flush_shares(&ctx, &stranded.shares, self.site.size, &kept, Lanes::of(1))?;
        let key = self.rank.machine_key(&one.key);
        let title = key.map_or_else(|| one.key.series.clone(), |key| self.rank.title(&key));
        let note = "the nodes have no room to move it";
        self.rank.event(|| Event::new("PUBLISHED").dataset(one.id, one.key.title()).note(note));
        self.rank.tell(
            messages::NO_ROOM_TO_MOVE,
            format_args!(
                "{title} (dataset {}) is written to {} before the program runs, which costs \
                     time: {}",
                one.id,
                self.site.prefix.display(),
                stranded.why
            ),
        );
        Ok(left)
    }
}
