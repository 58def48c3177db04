//! What the ranks of a launch settle together before anything is built: settings, locks, and what
//! one of them cannot do.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::prepare::Preparation;
use crate::bytes::{Reader, Writer};
use crate::cache::{Sharing, Spare, stores_in_records};
use crate::comm::{Comm, trees};
use crate::error::{Error, Result, again};
use crate::files::lease::{self, Lease, Taken};
use crate::kvtree::KvTree;
use crate::launch::places::site::Site;
use crate::log::{self, Id, messages};
use crate::machine::{CompleteBy, Knowledge, MachineConfig, OutputSeries, SeriesConfig};
use crate::params::{Settings, keys};
use crate::patterns::{SeriesSet, Template};
use crate::system::{random_u64, unix_seconds};
use crate::transfer::ask_to_stop;

pub(crate) fn warn(site: &Site, series: &SeriesSet, sharing: &Sharing) {
    let each = |id: Id, texts: &[String]| texts.iter().for_each(|text| log::warn(id, text));
    each(messages::SETTING_IGNORED, &site.settings.warnings);
    site.descriptors.warnings.iter().for_each(|(id, text)| log::warn(*id, text));
    each(messages::PATTERNS_OVERLAP, series.warnings());
    each(messages::STORE_MISDECLARED, &site.misdeclared(sharing));
    each(messages::SETTING_INEFFECTIVE, &site.ineffective());
}

/// Makes an error on all ranks of what one of them cannot do; `names`: it says which rank that is.
/// Else returns what each rank has to tell. Collective.
pub(crate) fn share_trouble(
    world: &dyn Comm,
    own: Option<&Error>,
    names: bool,
    to_tell: &[u8],
) -> Result<Vec<Vec<u8>>> {
    // Its message first.
    let own = own.map(|why| format!("{} {why}", why.id().number())).unwrap_or_default();
    let all = world.all_gather(&Writer::new().counted(own.as_bytes()).raw(to_tell).take())?;
    let read = |bytes: &Vec<u8>| {
        let mut from = Reader::new(bytes);
        Some((from.counted()?.to_vec(), from.rest().to_vec()))
    };
    let all: Option<Vec<_>> = all.iter().map(read).collect();
    let malformed = || Error::Comm("what a rank has told cannot be read".to_string());
    let (troubles, told): (Vec<_>, Vec<_>) = all.ok_or_else(malformed)?.into_iter().unzip();
    let first = troubles.iter().enumerate().find(|(_, text)| !text.is_empty());
    let Some((rank, text)) = first else { return Ok(told) };
    let text = String::from_utf8_lossy(text);
    let (number, why) = text.split_once(' ').unwrap_or_default();
    let id = number.parse().ok().and_then(Id::of_number).unwrap_or(messages::START_FAILED);
    Err(Error::named(id, if names { format!("rank {rank}: {why}") } else { why.to_owned() }))
}

impl Preparation {
    /// Takes rank 0's settings: they hold everywhere. Returns a number that only this launch has.
    /// Collective.
    pub(crate) fn share_settings(&mut self, world: &dyn Comm) -> Result<u64> {
        let mut own = KvTree::new();
        own.set("SETTINGS", self.settings.to_tree());
        own.set_value("LAUNCH", random_u64());
        let tree = trees::from_root(world, &own, 0)?;
        let settings = tree.get("SETTINGS").and_then(Settings::from_tree);
        let (Some(settings), Some(launch)) = (settings, tree.get_u64("LAUNCH")) else {
            return Err(Error::Unreadable("the settings of rank 0 are not readable".to_string()));
        };
        self.settings = settings;
        log::set_level(self.settings.get(keys::DEBUG).min(9) as u8);
        Ok(launch)
    }

    /// Takes the locks, and hears what all ranks have found before: settings in their environments
    /// that do not hold, and stores of an earlier launch. Collective.
    pub(crate) fn come_in(&mut self, world: &dyn Comm, leads_node: bool) -> Result<Vec<Lease>> {
        let (leases, mut trouble) = self.take_leases(leads_node);
        let differences = self.settings.environment_differences(&self.environment);
        let mut own = KvTree::new();
        own.set_value("DIFFERENCES", differences.join(", "));
        if leads_node {
            for name in stores_in_records(&self.layout.control_dir) {
                own.child_mut("STORE").child_mut(name);
            }
        }
        if let Err(error) = self.tell_owner(leads_node, trouble.is_none(), &mut own) {
            trouble.get_or_insert(error);
        }
        let all = share_trouble(world, trouble.as_ref(), false, &own.encode())?;
        let all = all.iter().map(|bytes| KvTree::decode(bytes));
        let all: Vec<KvTree> = all.collect::<std::result::Result<_, _>>()?;
        let told = all.iter().map(|tree| tree.get_value("DIFFERENCES").unwrap_or_default());
        let first = told.enumerate().find(|(_, text)| !text.is_empty());
        if let (0, Some((rank, text))) = (self.rank, first) {
            log::warn(
                messages::ENVIRONMENT_DIFFERS,
                format_args!(
                    "rank {rank} has other settings in its environment ({text}); those of rank 0 \
                     hold"
                ),
            );
        }
        self.settle_owner(world, &all)?;
        self.add_former_stores(&all.iter().flat_map(|tree| tree.child("STORE").keys()).collect());
        Ok(leases)
    }

    /// The locks on the prefix and on this node; and what is in the way of them.
    fn take_leases(&self, leads_node: bool) -> (Vec<Lease>, Option<Error>) {
        let holder =
            format!("host {}, process {}, {}", self.node_name, self.process, unix_seconds());
        let (mut paths, mut leases, mut trouble) = (Vec::new(), Vec::new(), None);
        let host = self.host.clone();
        let enter_thread = move || host.enter_thread();
        let take =
            |path: &Path, patience| lease::take(path, &holder, patience, enter_thread.clone());
        if self.rank == 0 {
            let dir = self.prefix.join(crate::namespace::STATE_FOLDER);
            let failed = |error| Error::io("cannot create the directory", &dir, error);
            if let Err(error) = again(|| std::fs::create_dir_all(&dir).map_err(failed)) {
                trouble = Some(error); // told below: the others wait there
            }
            paths.push(dir.join("lease"));
        }
        if leads_node {
            paths.push(self.layout.control_dir.join("lease"));
        }
        for path in paths {
            // A process that finishes the last run's flush leaves them to us.
            let taken = take(&path, Duration::ZERO).and_then(|taken| match taken {
                Taken::Busy(_) => ask_to_stop(&self.layout.control_dir)
                    .and_then(|()| take(&path, lease::PATIENCE)),
                taken => Ok(taken),
            });
            match taken {
                Ok(Taken::Ours(lease)) => leases.push(lease),
                Ok(Taken::Busy(other)) => {
                    let is_node_own = path.starts_with(&self.layout.control_dir);
                    trouble = Some(busy(&path, &other, is_node_own.then_some(&self.node_name)));
                }
                Err(error) => drop(trouble.get_or_insert(error)),
            }
        }
        (leases, trouble)
    }

    /// Returns what a launch must share with the one whose cache it takes over.
    pub(crate) fn identity(&self, series: &SeriesSet) -> String {
        let patterns = series.series().iter().filter(|one| !one.is_explicit());
        let texts: Vec<_> = patterns.map(|one| format!("{}={}", one.name, one.text)).collect();
        format!("{} | {} | {}", self.prefix.display(), self.size, texts.join("; "))
    }
}

/// That somebody else holds a lease; `node`: who asks for one that each node has of its own.
fn busy(path: &Path, holder: &str, node: Option<&String>) -> Error {
    let of_host = |host: &&str| node.is_some_and(|node| node != host);
    let host = holder.strip_prefix("host ").and_then(|rest| rest.split(", ").next());
    let path = path.display();
    match (host.filter(of_host), node) {
        (Some(other), Some(node)) => Error::named(
            messages::CONTROL_SHARED,
            format!(
                "nodes {other} and {node} share the control directory, which has to be storage of \
                 each node (SCR_CNTL_BASE): {path}"
            ),
        ),
        _ => Error::named(messages::IN_USE, format!("another run uses {path} ({holder})")),
    }
}

pub(crate) fn foreign(hosts: &[String]) -> Error {
    Error::named(
        messages::CACHE_FOREIGN,
        format!(
            "the cache on {} belongs to another launch of this prefix (it has checkpoints of other \
             patterns, or of another number of ranks); it is left untouched. Start that one again \
             to go on from it (SCR_FLUSH_ON_RESTART=1 copies its checkpoint to the prefix first), \
             bring it to the prefix with scr scavenge, or start this one with SCR_CACHE_PURGE=1 to \
             delete it",
            hosts.join(", ")
        ),
    )
}

/// Returns the temporary names that are known, each with its series.
pub(crate) fn templates(known: &[Knowledge]) -> Vec<(usize, Template)> {
    let of = |(series, known): (usize, &Knowledge)| {
        let texts = known.temporaries.clone().into_iter();
        texts.filter_map(move |text| Some((series, Template::from_text(&text)?)))
    };
    known.iter().enumerate().flat_map(of).collect()
}

pub(crate) fn machine_config(site: &Site, series: &SeriesSet, hosts: &[String]) -> MachineConfig {
    let settings = &site.settings;
    let learn = settings.get(keys::LEARN);
    let mut first: HashMap<&str, usize> = HashMap::new();
    let numbered = hosts.iter().enumerate();
    let nodes = numbered.map(|(rank, host)| *first.entry(host).or_insert(rank)).collect();
    let one = |series: &crate::patterns::Series| SeriesConfig {
        output: match (series.output, series.checkpoint) {
            (false, _) => OutputSeries::No,
            (true, true) => OutputSeries::Checkpoints,
            (true, false) => OutputSeries::Only,
        },
        complete: if series.is_explicit() { CompleteBy::Program } else { CompleteBy::Files },
        learn: learn && !series.is_own() && !series.is_explicit(),
        cache_size: settings.get(keys::CACHE_SIZE).max(1) as usize,
        places: site.places(series.output),
        keeps: site.keeps(series),
        flush_every: if site.keeps(series) { 0 } else { settings.get(keys::FLUSH) },
        flushes_last: !series.is_explicit() || settings.get(keys::FLUSH) > 0,
        ..SeriesConfig::new(series.name.clone(), series.has_id)
    };
    let all = series.series().iter().map(one).collect();
    let mut config = MachineConfig::new(site.rank, nodes, all);
    config.aside_bytes = Spare::least_bytes(&settings.get(keys::SEAL));
    config.tells_of_parted = settings.get(keys::SHARED);
    config.caches_parts = config.tells_of_parted && settings.get(keys::SHARED_CACHE);
    config.settle_ms = settings.get(keys::SETTLE_MILLISECONDS).as_millis() as u64;
    config.unsealed_ms = settings.get(keys::UNSEALED_SECONDS).as_millis() as u64;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;

    #[test]
    fn nodes_that_share_a_control_directory_are_told_from_another_run() {
        let (path, node) = (Path::new("/shared/scr.1/lease"), "node1".to_string());
        let told = |holder: &str, node| busy(path, holder, node);
        let shared = told("host node2, process 7, 1000", Some(&node));
        assert!(
            shared.to_string().contains("node2 and node1 share the control directory"),
            "{shared}"
        );
        for (holder, node) in [
            ("host node1, process 7, 1000", Some(&node)),
            ("host node2, process 7, 1000", None),
            ("", Some(&node)),
        ] {
            assert!(
                told(holder, node).to_string().starts_with("another run uses /shared"),
                "{holder}"
            );
        }
    }

    #[test]
    fn what_one_rank_cannot_do_none_does_and_all_hear_why() {
        let outcomes = run(3, |comm| {
            let own = Error::named(messages::IN_USE, "another run");
            let own = Some(&own).filter(|_| comm.rank() == 1);
            let told = |names| match share_trouble(comm.as_ref(), own, names, b"") {
                Ok(_) => (0, String::new()),
                Err(error) => (error.id().number(), error.to_string()),
            };
            let own = [comm.rank() as u8];
            let fine = share_trouble(comm.as_ref(), None, true, &own)
                .is_ok_and(|told| told == [[0], [1], [2]]);
            (fine, told(true), told(false))
        });
        let number = messages::IN_USE.number();
        for (fine, named, plain) in outcomes {
            assert!(fine);
            assert_eq!(named, (number, "rank 1: another run".to_string()));
            assert_eq!(plain, (number, "another run".to_string()));
        }
    }
}
