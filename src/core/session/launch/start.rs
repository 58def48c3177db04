//! The collective part of the start: settings, locks, what an earlier launch left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use crate::account::tally::Tally;
use crate::account::unmatched::Unmatched;
use crate::cache::Setbacks;
use crate::cache::{FilemapFile, Leftovers, Sets, Sharing, Spare, Takeover, rebuild};
use crate::comm::{Comm, words};
use crate::descriptors::{Descriptors, Groups};
use crate::error::{Error, Result};
use crate::files::lease::Lease;
use crate::handles::Checksums;
use crate::handles::Tokens;
use crate::launch::aliases;
use crate::launch::earlier::{purge, take_over_other_size};
use crate::launch::prepare::Arrival;
use crate::launch::prepare::Preparation;
use crate::launch::required::Required;
use crate::launch::resources;
use crate::launch::site::{Links, Site};
use crate::launch::together::{foreign, machine_config, share_trouble, templates, warn};
use crate::machine::Need;
use crate::machine::{Idle, Knowledge, Machine};
use crate::namespace::Directories;
use crate::namespace::Neighbours;
use crate::namespace::Silenced;
use crate::namespace::ToldElsewhere;
use crate::namespace::View;
use crate::patterns::{PatternConfig, SeriesSet};
use crate::records::Zone;
use crate::records::learned;
use crate::session::conference::encode::Encoders;
use crate::session::ending::halt::Halt;
use crate::session::handles::children::Counter;
use crate::session::program::Program;
use crate::session::rank::publishing::{Publishing, Shared};
use crate::session::rank::runtime::{Session, State};
use crate::session::report::events::Events;
use crate::session::stores::pages::Pages;
use crate::session::updates::moves::Moves;
use crate::system::{Memory, monotonic_ms, random_u64};
use crate::transfer::{Options, recover_journal};

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
            zone: Zone::new(&self.environment),
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
        let known = learned::read(&site.state_dir(), &identity, &series, links.world.as_ref())?;
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
        pages: Pages::default(),
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
        memory: Memory::default(),
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
