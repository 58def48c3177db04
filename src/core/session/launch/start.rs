//! The collective part of the start: settings, locks, what an earlier launch left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::account::tally::Tally;
use crate::account::unmatched::Unmatched;
use crate::cache::{FilemapFile, Leftovers, Sets, Sharing, Spare, Takeover, rebuild};
use crate::comm::{Comm, trees, words};
use crate::descriptors::{Descriptors, Groups};
use crate::error::{Error, Result, again};
use crate::files::lease::{self, Lease, Taken};
use crate::launch::aliases;
use crate::launch::prepare::Arrival;
use crate::launch::prepare::Preparation;
use crate::launch::required::Required;
use crate::launch::resources;
use crate::launch::site::{Links, Site};
use crate::log::{self, Id, messages};
use crate::machine::{Idle, Knowledge, Machine, MachineConfig, SeriesConfig};
use crate::namespace::View;
use crate::params::{Settings, keys};
use crate::patterns::{PatternConfig, SeriesSet, Template};
use crate::session::conference::encode::Encoders;
use crate::session::ending::halt::Halt;
use crate::session::ending::need::Need;
use crate::session::handles::children::Counter;
use crate::session::names::directories::Directories;
use crate::session::program::Program;
use crate::session::rank::checksums::Checksums;
use crate::session::rank::holdings::Tokens;
use crate::session::rank::publishing::{Publishing, Shared};
use crate::session::rank::runtime::{Session, State};
use crate::session::report::events::Events;
use crate::session::restart::arrival::{purge, take_over_other_size};
use crate::session::stores::setback::Setbacks;
use crate::session::updates::elsewhere::ToldElsewhere;
use crate::session::updates::knowledge;
use crate::session::updates::moves::Moves;
use crate::session::updates::neighbours::Neighbours;
use crate::session::updates::restless::Silenced;
use crate::system::{monotonic_ms, random_u64, unix_seconds};
use crate::transfer::{Options, ask_to_stop, recover_journal};

/// What the settings say that is not so, or does nothing.
fn warn(site: &Site, series: &SeriesSet, sharing: &Sharing) {
    let each = |id: Id, texts: &[String]| texts.iter().for_each(|text| log::warn(id, text));
    each(messages::SETTING_IGNORED, &site.settings.warnings);
    site.descriptors.warnings.iter().for_each(|(id, text)| log::warn(*id, text));
    each(messages::PATTERNS_OVERLAP, series.warnings());
    each(messages::STORE_MISDECLARED, &site.misdeclared(sharing));
    each(messages::SETTING_INEFFECTIVE, &site.ineffective());
}

impl Arrival {
    /// Does everything that all ranks do together before the program goes on. `None`: the launch
    /// stays without us, and a message has said why. `world` is ours alone.
    ///
    /// # Errors
    /// Communication failed, or something that makes this launch go without us.
    pub fn start(mut self, world: Box<dyn Comm>) -> Result<Session> {
        let trouble = match &mut self {
            Arrival::Ready(ready) => {
                if let Some(launch) = ready.launch.take() {
                    launch.clean_up();
                }
                ready.trouble.take()
            }
            Arrival::Unable { why, .. } => {
                Some(std::mem::replace(why, Error::Remote("a rank cannot take part".to_string())))
            }
        };
        share_trouble(world.as_ref(), trouble.as_ref(), true)?;
        match self {
            Arrival::Ready(ready) => ready.start(world),
            Arrival::Unable { why, .. } => Err(why),
        }
    }

    /// Tells what is to become of the run if [`Arrival::start`] fails.
    pub fn required(&self) -> Required {
        match self {
            Arrival::Ready(ready) => Required::of(ready),
            Arrival::Unable { required, .. } => required.clone(),
        }
    }
}

/// What one rank cannot do, none does; `names`: the error says which rank it is. Collective.
fn share_trouble(world: &dyn Comm, own: Option<&Error>, names: bool) -> Result<()> {
    // Its message first.
    let own = own.map(|why| format!("{} {why}", why.id().number())).unwrap_or_default();
    let all = world.all_gather(own.as_bytes())?;
    let first = all.iter().enumerate().find(|(_, text)| !text.is_empty());
    let Some((rank, text)) = first else { return Ok(()) };
    let text = String::from_utf8_lossy(text);
    let (number, why) = text.split_once(' ').unwrap_or_default();
    let id = number.parse().ok().and_then(Id::of_number).unwrap_or(messages::START_FAILED);
    Err(Error::named(id, if names { format!("rank {rank}: {why}") } else { why.to_owned() }))
}

impl Preparation {
    fn start(mut self, world: Box<dyn Comm>) -> Result<Session> {
        let begin = Instant::now();
        self.share_settings(world.as_ref())?;
        let hosts = Groups::gather_hosts(world.as_ref(), &self.node_name)?;
        let node_ranks: Vec<usize> =
            (0..hosts.len()).filter(|&rank| hosts[rank] == self.node_name).collect();
        let first = node_ranks.first().copied().unwrap_or(self.rank);
        let node = require(world.split(first as i64, self.rank as i64)?)?;
        let leads = if node.rank() == 0 { 0 } else { -1 };
        let leaders = world.split(leads, self.rank as i64)?;
        let for_sets = require(world.split(0, self.rank as i64)?)?;
        let descriptors = Descriptors::new(&self.settings, &hosts)?;
        let leases = self.take_leases(world.as_ref(), node.rank() == 0)?;
        let sets = Sets::new(for_sets, descriptors.clone(), &self.settings);
        self.add_former_stores(world.as_ref(), node.rank() == 0)?;
        let sharing = Sharing::observe(world.as_ref(), node.as_ref(), &self.layout)?;
        let patterns = PatternConfig::from_settings(&self.settings, &self.prefix, self.rank);
        let series = SeriesSet::new(&patterns)?.with_program();
        let identity = self.identity(&series);
        let site = Arc::new(Site {
            filemap: FilemapFile::new(&self.layout, node.rank(), self.rank),
            host: self.host,
            rank: self.rank,
            size: self.size,
            node_name: self.node_name,
            aliases: aliases::agree(world.as_ref(), &self.prefix, &series)?,
            prefix: self.prefix,
            layout: self.layout,
            leads_node: first == self.rank,
            ranks_on_node: node_ranks.len() as u64,
            store_sharers: sharing.counts(),
            transfer: Options::new(&self.settings),
            settings: self.settings,
            overheads: descriptors.overheads(self.rank),
            descriptors,
            end_time: resources::end_time(&self.environment),
            begun: SystemTime::now(),
        });
        if site.rank == 0 {
            warn(&site, &series, &sharing);
        }
        let spare = Spare::find(site.host.owns_process(), &site.settings, node.as_ref())?;
        let links = Links { world, node, node_ranks, leaders, sets, sharing };
        let left = recover_journal(&links.ctx(&site))?;
        let mut events = purge(&links, &site)?;
        events.append(&mut take_over_other_size(&links, &site, &identity)?);
        let mut report = rebuild(&links.ctx(&site), &identity)?;
        if let Takeover::Foreign { hosts } = &report.takeover {
            return Err(foreign(hosts));
        }
        let known = knowledge::read(&site.prefix, &identity, &series, links.world.as_ref())?;
        let machine = Machine::new(machine_config(&site, &series, &hosts), &known, monotonic_ms());
        let launch = words::broadcast(links.world.as_ref(), random_u64(), 0)?;
        let mut session = build(site, series, links, machine, (&known, spare), identity, leases);
        session.launch = launch;
        session.share_messages();
        session.begin_run(&hosts);
        session.begin_records(&hosts, &mut report, events);
        session.meet_neighbours()?;
        session.offer(&mut report, &left, begin.elapsed())?;
        session.silence_restored(&known);
        session.tell_uncached();
        session.record_places();
        session.started(begin);
        session.record_run();
        Ok(session)
    }

    /// Rank 0's settings hold everywhere.
    fn share_settings(&mut self, world: &dyn Comm) -> Result<()> {
        let tree = trees::from_root(world, &self.settings.to_tree(), 0)?;
        self.settings = Settings::from_tree(&tree).ok_or_else(|| {
            Error::Unreadable("the settings of rank 0 are not readable".to_string())
        })?;
        let differences = self.settings.environment_differences(&self.environment);
        let all = world.all_gather(differences.join(", ").as_bytes())?;
        let first = all.iter().enumerate().find(|(_, text)| !text.is_empty());
        if let (0, Some((rank, text))) = (self.rank, first) {
            log::warn(
                messages::ENVIRONMENT_DIFFERS,
                format_args!(
                    "rank {rank} has other settings in its environment ({}); those of rank 0 hold",
                    String::from_utf8_lossy(text)
                ),
            );
        }
        log::set_level(self.settings.get(keys::DEBUG).min(9) as u8);
        Ok(())
    }

    /// The locks on the prefix and on this node; an error if another live launch has one.
    fn take_leases(&self, world: &dyn Comm, leads_node: bool) -> Result<Vec<Lease>> {
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
        share_trouble(world, trouble.as_ref(), false).map(|()| leases)
    }

    /// What a launch must share with the one whose cache it takes over.
    fn identity(&self, series: &SeriesSet) -> String {
        let patterns = series.series().iter().filter(|one| !one.explicit);
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

fn require(comm: Option<Box<dyn Comm>>) -> Result<Box<dyn Comm>> {
    comm.ok_or_else(|| Error::Comm("a split gave no communicator".to_string()))
}

fn build(
    site: Arc<Site>,
    series: SeriesSet,
    links: Links,
    machine: Machine,
    (known, spare): (&[Knowledge], Spare),
    identity: String,
    leases: Vec<Lease>,
) -> Session {
    let state = State {
        machine,
        view: View::of(site.prefix.clone()),
        holdings: BTreeMap::new(),
        tokens: Tokens::default(),
        templates: templates(known),
        shadows: 0,
        kept_out: BTreeSet::new(),
        doomed: BTreeMap::new(),
        co_writers: BTreeMap::new(),
        claims: BTreeMap::new(),
        late: Vec::new(),
        lent: Vec::new(),
        told: ToldElsewhere::default(),
        moves: Moves::default(),
        out_of_reach: Vec::new(),
        troubles: Default::default(),
        checksums: Checksums::default(),
        publishing: Publishing::default(),
    };
    Session {
        site,
        series,
        links: Mutex::new(Some(Arc::new(links))),
        state: Arc::new(Shared::new(state)),
        routing: AtomicBool::new(true),
        child: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        exiting: AtomicBool::new(false),
        finishing: AtomicBool::new(false),
        halt: Halt::default(),
        flushing: AtomicBool::new(false),
        background: Mutex::new(None),
        flushes: Mutex::default(),
        launch: 0,
        identity,
        _leases: leases,
        encoders: Encoders::default(),
        spare,
        tally: Tally::new(),
        idle: Idle::default(),
        setbacks: Setbacks::default(),
        places: Mutex::default(),
        events: Events::default(),
        evicted: Leftovers::default(),
        neighbours: Neighbours::default(),
        counter: Counter::default(),
        need: Mutex::new(Need::new(monotonic_ms())),
        silenced: Silenced::new(known),
        unmatched: Unmatched::new(),
        directories: Directories::new(known),
        program: Program::default(),
    }
}

/// Why this launch goes without us, and what a person can do.
fn foreign(hosts: &[String]) -> Error {
    Error::named(
        messages::CACHE_FOREIGN,
        format!(
            "the cache on {} belongs to another launch (it has checkpoints of other patterns, or \
             of another number of ranks); it is left untouched. Start that one again to go on from \
             it (SCR_FLUSH_ON_RESTART=1 copies its checkpoint to the prefix first), or this one \
             with SCR_CACHE_PURGE=1 to delete it",
            hosts.join(", ")
        ),
    )
}

fn templates(known: &[Knowledge]) -> Vec<(usize, Template)> {
    let of = |(series, known): (usize, &Knowledge)| {
        let texts = known.temporaries.clone().into_iter();
        texts.filter_map(move |text| Some((series, Template::from_text(&text)?)))
    };
    known.iter().enumerate().flat_map(of).collect()
}

fn machine_config(site: &Site, series: &SeriesSet, hosts: &[String]) -> MachineConfig {
    let settings = &site.settings;
    let learn = settings.get(keys::LEARN);
    let mut first: HashMap<&str, usize> = HashMap::new();
    let numbered = hosts.iter().enumerate();
    let nodes = numbered.map(|(rank, host)| *first.entry(host).or_insert(rank)).collect();
    let one = |series: &crate::patterns::Series| SeriesConfig {
        output: series.output,
        output_only: series.output && !series.checkpoint,
        explicit: series.explicit,
        learn: learn && !series.explicit,
        cache_size: settings.get(keys::CACHE_SIZE).max(1) as usize,
        places: site.places(series.output),
        flush_every: settings.get(keys::FLUSH),
        flushes_last: !series.explicit || settings.get(keys::FLUSH) > 0,
        ..SeriesConfig::new(series.name.clone(), series.has_id)
    };
    let all = series.series().iter().map(one).collect();
    let mut config = MachineConfig::new(site.rank, nodes, all);
    config.aside_bytes = Spare::least_bytes(&settings.get(keys::SEAL));
    config.settle_ms = settings.get(keys::SETTLE_MILLISECONDS).as_millis() as u64;
    config.unsealed_ms = settings.get(keys::UNSEALED_SECONDS).as_millis() as u64;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
