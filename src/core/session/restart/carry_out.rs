//! The plan of a restart, carried out; then what the program is not to see is hidden, and told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::cache::RebuildReport;
use crate::error::Result;
use crate::launch::site::Links;
use crate::log::messages;
use crate::machine::Rejected;
use crate::params::keys;
use crate::records::FileNames;
use crate::restart::index::{Index, IndexedDataset};
use crate::restart::plan::{Cached, Restart, Wishes};
use crate::restart::verdict::{
    Current, Fate, FilesFound, HiddenBecause, LookResult, LookedFor, StartPlan,
};
use crate::session::{
    prefix::{abandoned::InPlace, hiding::Hidden},
    restart::Restorer,
};
use crate::transfer::{
    Check, Verified, names_on_prefix, note_return, note_success, verify_on_prefix,
};

/// Files on the prefix, by the dataset that was looked at.
type NamesById = BTreeMap<u64, Vec<String>>;

impl Restorer {
    pub(crate) fn restart_from(&self, index: Index, report: &RebuildReport) -> Restart {
        let settings = &self.site.settings;
        let wishes = Wishes {
            chooses: settings.get_optional(keys::CURRENT).is_some(),
            no_looks: !settings.get(keys::FETCH),
            ..Wishes::default()
        };
        let stranded = report.withheld.iter().filter(|one| one.stranded.is_some());
        let stranded = stranded.map(|one| (one.id, one.key.series.clone())).collect();
        Restart::new(index, self.rank.series.series().len(), wishes, stranded)
    }

    pub(crate) fn known_in_cache(&self, report: &RebuildReport) -> Vec<Cached> {
        let known = report.offered.iter().map(|one| Cached {
            id: one.id,
            series: self.rank.series.series_index(&one.key.series),
            key: one.key.clone(),
            on_prefix: one.is_on_prefix(),
            fetched: false,
        });
        known.collect()
    }

    /// Takes out of `report` what is not to be offered. Collective.
    pub(crate) fn do_plan(
        &self,
        links: &Links,
        restart: &mut Restart,
        report: &mut RebuildReport,
    ) -> Result<Hidden> {
        let mut hidden = Hidden::default();
        let current = restart.index.current().cloned();
        restart.begin = current.as_ref().map(|one| one.id).or(restart.index.returned_to);
        restart.cached = self.known_in_cache(report);
        self.choose(links, restart, report, &mut hidden)?;
        if restart.wishes.chosen.is_none() {
            self.withhold_left(restart, report, &mut hidden);
        }
        self.withhold_refused(restart, report, &mut hidden);
        let fetchable =
            restart.index.listed.iter().filter(|one| self.prefix.fetched_as(one).is_some());
        restart.wishes.fetchable = fetchable.map(|one| one.id).collect();
        restart.begin();
        let (ends, mut names) = (self.site.settings.get(keys::RESTART_REQUIRED), NamesById::new());
        let plan = loop {
            restart.wishes.ends = ends
                && restart.index.lost_checkpoint(report, |key| self.rank.title_of(key)).is_some();
            let plan = restart.plan();
            self.withdraw_offers(&plan, restart, report, &mut hidden);
            let Some((id, verdict)) = plan.next().cloned() else { break plan };
            match verdict {
                Fate::BringBack { damaged } => {
                    let Some(one) = listed(restart, id) else { continue };
                    let done = self.bring_back(links, &one, &mut restart.index, damaged)?;
                    restart.brought_back(id, done);
                }
                Fate::PutBack => {
                    self.prefix.put_back(links, id, &mut hidden)?;
                    restart.has_put_back(id);
                }
                Fate::Look(depth @ (LookedFor::ToHide | LookedFor::ToStay)) => {
                    let found = verify_on_prefix(&links.ctx(&self.site), id, Check::Sizes)?;
                    restart.learn(id, depth, look_of(&found, id, depth, report));
                    names.insert(id, found.names);
                }
                _ => {
                    let found = self.try_one(links, restart, report, id, &verdict)?;
                    names.insert(id, found.names);
                }
            }
        };
        self.settle(links, restart, &plan, &names, &mut hidden)?;
        let partial =
            restart.index.partial.iter().filter(|name| self.rank.match_name(name).is_some());
        hidden.names.extend(partial.cloned());
        self.tell_after_current(restart, &plan, current.as_ref(), &hidden);
        hidden.restart = plan.restart;
        match restart.new_current(&plan) {
            Some(Current::Is(id)) => self.prefix.note_fetch(note_success, id),
            Some(Current::OnlyCached(id)) => self.prefix.note_fetch(note_return, id),
            None => {}
        }
        Ok(hidden)
    }

    /// The dataset may be in the cache then.
    fn try_one(
        &self,
        links: &Links,
        restart: &mut Restart,
        report: &mut RebuildReport,
        id: u64,
        verdict: &Fate,
    ) -> Result<Verified> {
        let (is_fetch, restarts) = match verdict {
            Fate::Look(LookedFor::Candidate { restarts }) => (false, *restarts),
            _ => (true, true),
        };
        let (begin, depth) = (Instant::now(), LookedFor::Candidate { restarts });
        let Some(one) = listed(restart, id) else {
            restart.learn(
                id,
                depth,
                LookResult { files: FilesFound::Gone, ..LookResult::default() },
            );
            return Ok(Verified::default());
        };
        let found = self.prefix.look_at(links, &one, restarts, is_fetch, report)?;
        self.prefix.log_look(&one, &found, is_fetch, report, begin);
        restart.learn(id, depth, look_of(&found, id, depth, report));
        self.prefix.tell_unverified(&one, &found, restarts);
        if let Some(fault) = &found.fault {
            let cached = report.offered.iter().find(|offered| offered.id == id);
            let remedy = match cached.filter(|cached| !cached.is_on_prefix()) {
                Some(_) => "the copy in the cache is used",
                None if found.names.is_empty() => "which files it has is not known: none is hidden",
                None => "its files are hidden from the program",
            };
            self.prefix.tell_damaged(&one, report, &format!("{fault}; {remedy}"));
        }
        Ok(found)
    }

    fn withdraw_offers(
        &self,
        plan: &StartPlan,
        restart: &Restart,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
    ) {
        for (id, verdict) in plan.verdicts.iter().filter(|(_, verdict)| verdict.withdraws()) {
            let Some(at) = report.offered.iter().position(|one| one.id == *id) else { continue };
            let Some(key) = self.rank.machine_key(&report.offered[at].key) else { continue };
            let one = report.offered.remove(at);
            let mut keeps_names = false;
            match verdict {
                Fate::Hide(HiddenBecause::OlderThan(newer)) => {
                    keeps_names = true;
                    let newer = listed(restart, *newer).map(|one| one.name).unwrap_or_default();
                    self.rank.mention(format_args!(
                        "{} is in the cache, but {newer} is newer and is read where it is",
                        self.rank.title(&key)
                    ));
                }
                Fate::Hide(HiddenBecause::Left { gone_on: true }) => keeps_names = true,
                Fate::Hide(HiddenBecause::Left { gone_on: false })
                    if !listed(restart, *id)
                        .is_some_and(|one| one.file_names == FileNames::Own) =>
                {
                    hidden.after_current.push((one.key.name(), false));
                }
                _ => {}
            }
            hidden.rejected.push(Rejected { key, id: *id });
            if !keeps_names {
                hidden.names.extend(one.catalog.entries().map(|entry| entry.meta.name));
            }
        }
    }

    /// Of what lies on the prefix, what is hidden; and what is not, though hidden ones have it.
    fn settle(
        &self,
        links: &Links,
        restart: &Restart,
        plan: &StartPlan,
        names: &NamesById,
        hidden: &mut Hidden,
    ) -> Result<()> {
        let ctx = links.ctx(&self.site);
        let mut newer = BTreeSet::new();
        for (id, verdict) in &plan.verdicts {
            let own = || names.get(id).cloned().unwrap_or_default();
            match verdict {
                Fate::Hide(HiddenBecause::NewerThanChosen) => {
                    newer.insert(*id);
                    if listed(restart, *id).is_some() {
                        hidden.names.extend(names_on_prefix(&ctx, *id)?);
                    }
                }
                Fate::Hide(HiddenBecause::Damaged) => hidden.names.extend(own()),
                Fate::Hide(HiddenBecause::AfterCurrent { damaged }) => {
                    hidden.names.extend(own());
                    let name = listed(restart, *id).map(|one| one.name).unwrap_or_default();
                    hidden.after_current.push((name, *damaged));
                }
                Fate::Hide(HiddenBecause::OtherCourse { own: newest }) => {
                    let kept: BTreeSet<_> = names_on_prefix(&ctx, *newest)?.into_iter().collect();
                    hidden.names.extend(own().into_iter().filter(|name| !kept.contains(name)));
                    let name = listed(restart, *id).map(|one| one.name).unwrap_or_default();
                    self.rank.mention(format_args!("{name} is of a course that the run has left"));
                }
                Fate::ReadInPlace if *id == plan.newest_in_place() => {
                    let captured = listed(restart, *id).map(|one| one.key.id).unwrap_or_default();
                    hidden.in_place = Some(InPlace { captured, names: own() });
                }
                _ => {}
            }
        }
        for id in &plan.good {
            // Newer ones, which are hidden, have the same names.
            if listed(restart, *id).is_some_and(|one| one.key.id.is_empty()) {
                hidden.restored.extend(names.get(id).cloned().unwrap_or_default());
            }
        }
        hidden.names.retain(|name| !hidden.restored.contains(name));
        if let Some(current) = self.site.settings.get_optional(keys::CURRENT)
            && !newer.is_empty()
        {
            let ids: Vec<String> = newer.iter().map(ToString::to_string).collect();
            self.rank.tell(
                messages::NEWER_HIDDEN,
                format_args!(
                    "datasets newer than SCR_CURRENT={current} are hidden from the program: {}",
                    ids.join(", ")
                ),
            );
        }
        Ok(())
    }

    fn tell_after_current(
        &self,
        restart: &Restart,
        plan: &StartPlan,
        current: Option<&IndexedDataset>,
        hidden: &Hidden,
    ) {
        let Some((newest, _)) = hidden.after_current.first() else { return };
        let (index, turn) = (&restart.index, restart.index.turn);
        let turn = turn.filter(|turn| current.is_none_or(|one| one.id <= turn.to));
        let turned = index.returned_to.or(turn.map(|turn| turn.to));
        let mut cached = restart.cached.iter().filter(|one| Some(one.id) == turned);
        let returned = cached.find(|one| !plan.is_rejected(one.id)).map(|one| one.key.name());
        let Some(name) = returned.or(current.map(|one| one.name.clone())) else { return };
        let describe = |(name, damaged): &(String, bool)| match damaged {
            true => format!("{name} (found damaged)"),
            false => name.clone(),
        };
        let newer: Vec<String> = hidden.after_current.iter().map(describe).collect();
        self.rank.tell(messages::NEWER_HIDDEN, format_args!(
            "{name} is the current checkpoint of {}; newer ones are hidden from the program: {}. \
             SCR_CURRENT={newest} begins with that one instead",
            self.site.prefix.display(),
            newer.join(", "),
        ));
    }
}

fn listed(restart: &Restart, id: u64) -> Option<IndexedDataset> {
    restart.index.listed.iter().find(|one| one.id == id).cloned()
}

fn look_of(found: &Verified, id: u64, depth: LookedFor, report: &RebuildReport) -> LookResult {
    let shares = report.offered.iter().filter(|cached| {
        depth == LookedFor::ToStay && found.names.iter().any(|name| cached.has(name))
    });
    LookResult {
        files: FilesFound::of(found.fault.is_some(), found.gone),
        anew: found.anew,
        has_names: !found.names.is_empty(),
        fetched: report.offered.iter().any(|one| one.id == id && one.fetched),
        shares: shares.map(|cached| cached.id).collect(),
    }
}
