//! What a seal is asked for, and the encoding of a dataset beside the program, until a conference
//! takes it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cache::agree::{agree, any};
use crate::cache::under_way::{CommAside, EncodingUnderWay, SealAsked};
use crate::cache::{Encoded, Encoder, EncoderJob, Protect as _};
use crate::comm::mesh::Mesh;
use crate::comm::{sockets, solo::Solo};
use crate::descriptors::SchemeKind;
use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Outcome, SealPlan};
use crate::namespace::{self as ns, OnPrefix};
use crate::records::FileMeta;
use crate::redundancy::RedundancySet;
use crate::session::{conference::Conference, node::State};
use crate::system::{self, has_kernel_queues};
use crate::transfer::about;

/// How often the wait for a thread looks around; it is woken at its end.
const LOOK: Duration = Duration::from_secs(1);

/// To read less takes no longer than to find out whether somebody may have written unseen.
const KNOWN_BYTES_MIN: u64 = 8 << 20;

impl Conference {
    pub(crate) fn note_encoded(&self, state: &mut State) {
        for (key, one) in self.encoders.all().iter() {
            if let Some(well) = one.encoder.ended() {
                state.machine.encoded(key, well);
            }
        }
    }

    /// Returns the same on all ranks at a sync point.
    pub fn is_encoding(&self) -> bool {
        self.node.state().machine.encodes()
    }

    /// Begins to encode beside the program. Collective.
    pub(crate) fn encode(&self, links: &Links, plan: &SealPlan) -> Result<Outcome> {
        let begun = Instant::now();
        let asked = self.ask(links, plan);
        self.unsealed.pulls.go_on();
        let asked = match asked {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(_) => return Ok(Outcome::Failed), // its seal fails in the same way, and tells it
            Ok(asked) => asked,
        };
        let ways = agree(links.world.as_ref(), self.aside(&asked.set));
        let started = ways.and_then(|(comm, link)| {
            let piece_bytes = asked.set.piece_bytes;
            let request = asked.request(plan);
            Ok((EncoderJob::new(&links.ctx(&self.site), &request, comm, piece_bytes)?, link))
        });
        match started {
            Err(error @ Error::Comm(_)) => Err(error),
            Err(error) => {
                self.rank.tell_once(
                    messages::NOT_ASIDE,
                    format_args!(
                        "checkpoints cannot be encoded beside the program, which waits for it \
                             instead (SCR_SEAL): {error}"
                    ),
                );
                Ok(Outcome::Failed)
            }
            Ok((job, link)) => {
                let host = self.site.host.clone();
                let (begin, end) = self.spare.enter();
                let enter = move || {
                    system::block_signals();
                    host.enter_thread();
                    begin();
                };
                let encoder = Encoder::start(job, enter, end);
                let under_way = EncodingUnderWay { encoder, asked, begun, link };
                self.encoders.all().insert(plan.key.clone(), under_way);
                Ok(Outcome::Done)
            }
        }
    }

    /// A communicator of the set for a thread of each member. Collective over the set.
    fn aside(&self, set: &RedundancySet) -> Result<CommAside> {
        let comm = &*set.comm;
        if comm.size() == 1 {
            return Ok((Box::new(Solo::new()), None));
        }
        if let Some(aside) = comm.aside()? {
            return Ok((aside, None));
        }
        let kept = self.encoders.kept().take().filter(|(ranks, _)| *ranks == set.world_ranks);
        let link = match (any(comm, kept.is_none())?, kept) {
            (false, Some((_, link))) => link,
            _ => sockets::connect(comm)?,
        };
        Ok((Box::new(Mesh::new(link.clone(), comm.rank(), comm.size())), Some(link)))
    }

    pub(crate) fn discard(&self, key: &DatasetKey) {
        let under_way = self.encoders.all().remove(key);
        let Some(one) = under_way else { return };
        if let Err(error) = self.await_encoder(one).1 {
            let (rank, title) = (self.site.rank, self.rank.title(key));
            log::message(1, format_args!("rank {rank}: {title}: {error}"));
        }
    }

    fn await_encoder(&self, one: EncodingUnderWay) -> (SealAsked, Result<Encoded>) {
        let outcome = self.site.host.outside(|| one.encoder.wait(LOOK));
        // After a failure members may be at different places of what they have said.
        if let (Ok(_), Some(link)) = (&outcome, one.link) {
            *self.encoders.kept() = Some((one.asked.set.world_ranks.clone(), link));
        }
        (one.asked, outcome)
    }

    /// Returns also what a thread has done of it, if one was begun. Collective.
    pub(crate) fn take_encoded(
        &self,
        links: &Links,
        plan: &SealPlan,
    ) -> Result<(SealAsked, Option<Result<Encoded>>)> {
        let under_way = self.encoders.all().remove(&plan.key);
        let Some(one) = under_way else { return Ok((self.ask(links, plan)?, None)) };
        let (waits, begun) = (one.encoder.ended().is_none(), one.begun);
        let (asked, encoded) = self.await_encoder(one);
        let (title, seconds) = (self.rank.title(&plan.key), begun.elapsed().as_secs_f64());
        let waited = if waits { ", the end of it with the program waiting" } else { "" };
        let text = format!("{title} was encoded beside the program for {seconds:.3} s{waited}");
        self.rank.mention(text);
        Ok((asked, Some(encoded)))
    }

    fn ask(&self, links: &Links, plan: &SealPlan) -> Result<SealAsked> {
        self.stores.give_back_late(&plan.key);
        let selected = self.stores.descriptor(plan.key.series, plan.number);
        let mut wish = selected.to_tree("", None);
        if links.sharing.any() && selected.scheme == SchemeKind::Partner {
            // In a shared store two copies of one file would have the same place.
            wish.set_value("SET_FAILURES", 1);
        }
        let (set, descriptor) = links.sets.choose(&wish)?;
        let (store, mut files) = self.own_files(&plan.key, plan.number);
        self.deal_out(links, &plan.key, &mut files)?;
        let (key, tags) = (self.rank.record_key(&plan.key), self.tags(plan));
        let gone = self.contents.gone_before(&plan.key);
        Ok(SealAsked { key, store, files, tags, gone, set, descriptor })
    }

    fn tags(&self, plan: &SealPlan) -> BTreeMap<String, String> {
        let series = &self.rank.series.series()[plan.key.series];
        let mut tags = BTreeMap::new();
        if series.checkpoint {
            tags.insert(about::TAG_CHECKPOINT.to_string(), plan.number.to_string());
        }
        if series.output || self.node.state().machine.is_output(&plan.key) {
            tags.insert(about::TAG_OUTPUT.to_string(), "1".to_string());
        }
        let (_, job) = self.site.layout.user_and_job();
        tags.insert(about::TAG_JOB.to_string(), job);
        tags.insert(about::TAG_CREATED.to_string(), system::unix_seconds().to_string());
        tags
    }

    fn own_files(&self, key: &DatasetKey, number: u64) -> (String, Vec<FileMeta>) {
        let mut state = self.node.state();
        let State { machine, view, own, .. } = &mut *state;
        let Some(holding) = own.holdings.get(key) else {
            return (self.stores.store_of_number(key.series, number), Vec::new());
        };
        let dir = view.layer(key).map(|layer| layer.dir.as_path());
        let meta = |name: &String| {
            let on_prefix = machine.lies_on_prefix(key, name)?;
            let known = dir
                .filter(|_| !on_prefix)
                .and_then(|dir| own.checksums.take(name, &dir.join(name)));
            let other = || FileMeta { name: name.clone(), on_prefix, ..FileMeta::default() };
            Some(known.unwrap_or_else(other))
        };
        // What another process has removed from the PFS is not waited for.
        let gone = |file: &FileMeta| {
            file.on_prefix && ns::on_prefix(&self.site.on_prefix(&file.name)) == OnPrefix::Absent
        };
        let files = holding.files.iter().filter_map(meta).filter(|file| !gone(file));
        let mut files: Vec<_> = files.collect();
        let known: u64 =
            files.iter().filter(|file| file.crc32.is_some()).map(|file| file.size).sum();
        if known < KNOWN_BYTES_MIN || has_kernel_queues() {
            files.iter_mut().for_each(|file| file.crc32 = None);
        }
        (holding.store.clone(), files)
    }
}
