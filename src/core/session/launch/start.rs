//! The collective part of the start: the ranks come together (`launch/join.rs`), and take over
//! what an earlier launch has left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::account::tally::Tally;
use crate::account::unmatched::Unmatched;
use crate::cache::{Launches, Leftovers, Setbacks, Spare, Takeover, find_evicted, rebuild};
use crate::comm::Comm;
use crate::error::Result;
use crate::handles::{Checksums, Tokens};
use crate::launch::earlier::{purge, take_over_other_size};
use crate::launch::join::Joined;
use crate::launch::prepare::Arrival;
use crate::launch::together::{foreign, machine_config, templates};
use crate::machine::{Idle, Knowledge, Machine, Need};
use crate::namespace::{Directories, Neighbours, SilencedFiles, ToldElsewhere, View};
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
use crate::system::{Memory, below_limit, monotonic_ms};
use crate::transfer::recover_journal;

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
        let machine = Machine::new(machine_config(site, series, &hosts), &known, monotonic_ms());
        let mut session = build(joined, machine, &known, spare);
        session.share_messages();
        session.begin_run(&hosts);
        session.begin_records(&hosts, &mut report, events);
        session.meet_neighbours()?;
        session.offer(&mut report, &left, begin.elapsed())?;
        session.silence_restored(&known);
        let found = session.links().map(|links| find_evicted(&links.ctx(&session.site)));
        session.evicted = Leftovers::of(found.unwrap_or_default());
        session.tell_uncached();
        session.record_places();
        session.started(begin);
        session.record_run();
        Ok(session)
    }
}

fn build(joined: Joined, machine: Machine, known: &[Knowledge], spare: Spare) -> Session {
    let Joined { site, links, series, launch, identity, leases, .. } = joined;
    let state = State {
        machine,
        view: View::of(site.prefix.clone()),
        holdings: BTreeMap::new(),
        tokens: Tokens::default(),
        templates: templates(known),
        together: BTreeSet::new(),
        shadows: 0,
        kept_out: BTreeSet::new(),
        doomed: BTreeMap::new(),
        removals: BTreeSet::new(),
        removals_cached: VecDeque::new(),
        co_writers: BTreeMap::new(),
        claims: BTreeMap::new(),
        turns: Default::default(),
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
        launch,
        identity,
        _leases: leases,
        encoders: Encoders::default(),
        spare,
        tally: Tally::new(),
        idle: Idle::default(),
        setbacks: Setbacks::default(),
        memory: Memory::default(),
        launches: Launches::default(),
        places: Mutex::default(),
        events: Events::default(),
        evicted: Leftovers::default(),
        meetings: Mutex::default(),
        passed_by: AtomicBool::new(false),
        neighbours: Neighbours::default(),
        counter: Counter::default(),
        need: Mutex::new(Need::new(monotonic_ms())),
        silenced: SilencedFiles::new(known),
        unmatched: Unmatched::new(),
        directories: Directories::new(known),
        program: Program::default(),
    }
}
