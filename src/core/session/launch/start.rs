//! The collective part of the start: the ranks come together (`launch/start/join.rs`), and take
//! over what an earlier launch has left.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::account::calls::Calls;
use crate::account::tally::Tally;
use crate::account::unmatched::Unmatched;
use crate::cache::under_way::Encoders;
use crate::cache::{Launches, Leftovers, Setbacks, Spare, Takeover, find_evicted, rebuild};
use crate::comm::Comm;
use crate::error::Result;
use crate::files::lease::Lease;
use crate::launch::HaltConditions;
use crate::launch::meeting::share_messages;
use crate::launch::site::Site;
use crate::launch::start::earlier::{purge, take_over_other_size};
use crate::launch::start::join::Joined;
use crate::launch::start::prepare::Arrival;
use crate::launch::start::together::{foreign, machine_config, templates};
use crate::machine::{Idle, Knowledge, Machine, Need};
use crate::namespace::{Directories, Neighbours, SilencedFiles, View};
use crate::records::learned;
use crate::session::{
    Session,
    conference::Conference,
    contents::Contents,
    door::counter::Counter,
    ending::Ending,
    flush::Flusher,
    halt::Halt,
    handles::Handles,
    names::Names,
    node::{Node, State, shared::StateLock},
    prefix::Inspector,
    program::Program,
    rank::{Events, Rank},
    report::Reporter,
    restart::Restorer,
    stores::Stores,
    unsealed::Unsealed,
    updates::Updates,
};
use crate::system::{Memory, below_limit, monotonic_ms};
use crate::transfer::{RankPulls, recover_journal};

impl Session {
    /// Does everything that all ranks do together before the program goes on; `world` is ours
    /// alone. Collective.
    ///
    /// # Errors
    /// Communication failed, or something that makes this launch go without us.
    pub fn start(arrival: Arrival, world: Box<dyn Comm>) -> Result<Session> {
        let begin = Instant::now();
        let _below = below_limit();
        let mut joined = arrival.join(world)?;
        let hosts = std::mem::take(&mut joined.hosts);
        let Joined { site, links, series, identity, .. } = &joined;
        let world = links.world.as_ref();
        let spare = Spare::find(site.host.owns_process(), &site.settings, links.node.as_ref())?;
        let left = recover_journal(&links.ctx(site))?;
        let mut events = purge(links, site)?;
        events.append(&mut take_over_other_size(links, site, identity)?);
        let mut report = rebuild(&links.ctx(site), identity)?;
        if let Takeover::Foreign { hosts } = &report.takeover {
            return Err(foreign(hosts));
        }
        let known = learned::read(&site.state_dir(), identity, series, world)?;
        let evicted = Leftovers::of(find_evicted(&links.ctx(site)));
        let mut config = machine_config(site, series, &hosts);
        config.caches_parts &= !links.sharing.any(); // a node has one file of what its ranks write
        let machine = Machine::new(config, &known, monotonic_ms());
        let (session, restart) = build(joined, machine, &known, spare, evicted);
        let Session { rank, node, flush, names, .. } = &session;
        share_messages(&rank.site, rank.launch);
        flush.begin_run(&hosts);
        flush.begin_records(&hosts, &mut report, events);
        node.meet_neighbours()?;
        restart.offer(&mut report, &left, begin.elapsed())?;
        names.silence_restored();
        names.updates.tell_uncached();
        flush.record_places();
        names.report.started(begin);
        flush.record_run();
        Ok(session)
    }
}

macro_rules! owner {
    ($type:ident, $site:ident { $($below:ident)* } $($field:ident: $value:expr),*) => {
        Arc::new($type {
            site: $site.clone(),
            $($below: $below.clone(),)*
            $($field: $value,)*
        })
    };
}

fn build(
    joined: Joined,
    machine: Machine,
    known: &[Knowledge],
    spare: Spare,
    evicted: Leftovers,
) -> (Session, Arc<Restorer>) {
    let site = joined.site.clone();
    let (rank, leases) = rank(joined, known);
    let node = node(machine, &rank);
    let report = owner!(Reporter, site { rank node }
        unmatched: Unmatched::new(),
        phases: Mutex::default());
    let stores = owner!(Stores, site { rank node report }
        setbacks: Setbacks::default(),
        memory: Memory::default(),
        launches: Launches::default(),
        pages: Mutex::default(),
        late: Mutex::default(),
        kept_out: Mutex::default());
    let updates = owner!(Updates, site { rank node stores });
    let contents = owner!(Contents, site { rank node stores updates }
        templates: Mutex::new(templates(known)),
        removals: Mutex::default());
    let unsealed = owner!(Unsealed, site { rank node contents }
        passed_by: AtomicBool::new(false), pulls: pulls(&site));
    let handles = owner!(Handles, site { rank node stores contents unsealed }
        lent: Mutex::default(),
        copies: AtomicU64::new(0));
    let names = owner!(Names, site { rank node report stores updates contents unsealed handles }
        together: Mutex::default());
    let flush = owner!(Flusher, site { rank node stores updates unsealed }
        flushing: Mutex::new(false),
        background: Mutex::default(),
        flushes: Mutex::default(),
        places: Mutex::default());
    let halt = owner!(Halt, site { rank node } conditions: HaltConditions::new(site.clone()));
    let conference = owner!(Conference, site
        { rank node report stores updates contents unsealed handles names flush halt }
        meetings: Mutex::default(),
        encoders: Encoders::default(),
        spare: spare,
        need: Mutex::new(Need::new(monotonic_ms())),
        troubles: Mutex::default(),
        evicted: evicted);
    let ending = owner!(Ending, site
        { rank node report stores updates contents unsealed handles flush halt conference }
        out_of_reach: Mutex::default());
    let prefix = owner!(Inspector, site { rank node stores });
    let restart = owner!(Restorer, site { rank node contents names flush ending prefix });
    let program = owner!(Program, site
        { rank node report stores flush halt conference ending prefix }
        progress: Mutex::default());
    let session = Session {
        rank,
        node,
        stores,
        contents,
        unsealed,
        handles,
        names,
        flush,
        conference,
        ending,
        program,
        counter: Counter::default(),
        _leases: leases,
    };
    (session, restart)
}

fn pulls(site: &Site) -> RankPulls {
    let note = site.layout.control_dir.join("pulled");
    RankPulls::new(site.state_dir().join("pulled"), note, site.rank, site.leads_node)
}

fn rank(joined: Joined, known: &[Knowledge]) -> (Arc<Rank>, Vec<Lease>) {
    let Joined { site, links, series, launch, identity, leases, .. } = joined;
    let rank = Rank {
        site,
        series,
        links: Mutex::new(Some(Arc::new(links))),
        launch,
        identity,
        tally: Tally::new(),
        events: Events::default(),
        silenced: SilencedFiles::new(known),
        directories: Directories::new(known),
        calls: Calls::default(),
        milestones: Default::default(),
    };
    (Arc::new(rank), leases)
}

fn node(machine: Machine, rank: &Arc<Rank>) -> Arc<Node> {
    let site = &rank.site;
    let state = State {
        machine,
        view: View::of(site.prefix.clone()),
        own: Default::default(),
        mates: Default::default(),
        moves: Default::default(),
    };
    owner!(Node, site { rank }
        state: Arc::new(StateLock::new(state)),
        neighbours: Neighbours::default(),
        idle: Idle::default())
}
