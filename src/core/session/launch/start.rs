//! The collective part of the start: the ranks come together (`launch/join.rs`), and take over
//! what an earlier launch has left.

use std::collections::BTreeMap;
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
use crate::namespace::{Directories, Neighbours, Silenced, ToldElsewhere, View};
use crate::records::learned;
use crate::session::Session;
use crate::session::conference::Conference;
use crate::session::conference::encode::Encoders;
use crate::session::contents::Contents;
use crate::session::door::children::Counter;
use crate::session::ending::Ending;
use crate::session::flush::Flusher;
use crate::session::halt::Halt;
use crate::session::handles::Handles;
use crate::session::names::Names;
use crate::session::node::moves::Moves;
use crate::session::node::shared::Shared;
use crate::session::node::{Node, State};
use crate::session::prefix::Inspector;
use crate::session::program::Program;
use crate::session::rank::Rank;
use crate::session::rank::calls::Calls;
use crate::session::rank::events::Events;
use crate::session::report::Report;
use crate::session::report::phases::Phases;
use crate::session::restart::Restorer;
use crate::session::stores::Stores;
use crate::session::unsealed::Unsealed;
use crate::session::updates::Updates;
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
        let evicted = Leftovers::of(find_evicted(&links.ctx(site)));
        let machine = Machine::new(machine_config(site, series, &hosts), &known, monotonic_ms());
        let (session, restart) = build(joined, machine, &known, spare, evicted);
        let Session { rank, node, flush, names, .. } = &session;
        rank.share_messages();
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

/// Makes the owners of the session, each of those below it.
fn build(
    joined: Joined,
    machine: Machine,
    known: &[Knowledge],
    spare: Spare,
    evicted: Leftovers,
) -> (Session, Restorer) {
    let Joined { site, links, series, launch, identity, leases, .. } = joined;
    let view = View::of(site.prefix.clone());
    let rank = Arc::new(Rank {
        site,
        series,
        links: Mutex::new(Some(Arc::new(links))),
        launch,
        identity,
        tally: Tally::new(),
        events: Events::default(),
        silenced: Silenced::new(known),
        directories: Directories::new(known),
        calls: Calls::default(),
        routing: AtomicBool::new(true),
        child: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        exiting: AtomicBool::new(false),
        finishing: AtomicBool::new(false),
    });
    let state = State {
        machine,
        view,
        holdings: BTreeMap::new(),
        tokens: Tokens::default(),
        checksums: Checksums::default(),
        co_writers: BTreeMap::new(),
        claims: BTreeMap::new(),
        turns: Default::default(),
        told: ToldElsewhere::default(),
        moves: Moves::default(),
    };
    let node = Arc::new(Node {
        rank: rank.clone(),
        state: Arc::new(Shared::new(state)),
        neighbours: Neighbours::default(),
        idle: Idle::default(),
    });
    let report = Arc::new(Report {
        rank: rank.clone(),
        node: node.clone(),
        unmatched: Unmatched::new(),
        phases: Phases::default(),
    });
    let stores = Arc::new(Stores {
        rank: rank.clone(),
        node: node.clone(),
        report: report.clone(),
        setbacks: Setbacks::default(),
        memory: Memory::default(),
        launches: Launches::default(),
        pages: Mutex::default(),
        late: Mutex::default(),
        kept_out: Mutex::default(),
    });
    let updates =
        Arc::new(Updates { rank: rank.clone(), node: node.clone(), stores: stores.clone() });
    let contents = Arc::new(Contents {
        rank: rank.clone(),
        node: node.clone(),
        stores: stores.clone(),
        updates: updates.clone(),
        templates: Mutex::new(templates(known)),
        removals: Mutex::default(),
    });
    let unsealed = Arc::new(Unsealed {
        rank: rank.clone(),
        node: node.clone(),
        contents: contents.clone(),
        passed_by: AtomicBool::new(false),
    });
    let handles = Arc::new(Handles {
        rank: rank.clone(),
        node: node.clone(),
        stores: stores.clone(),
        contents: contents.clone(),
        unsealed: unsealed.clone(),
        lent: Mutex::default(),
        copies: Default::default(),
    });
    let names = Arc::new(Names {
        rank: rank.clone(),
        node: node.clone(),
        report: report.clone(),
        stores: stores.clone(),
        updates: updates.clone(),
        contents: contents.clone(),
        unsealed: unsealed.clone(),
        handles: handles.clone(),
        together: Mutex::default(),
    });
    let flush = Arc::new(Flusher {
        rank: rank.clone(),
        node: node.clone(),
        stores: stores.clone(),
        updates: updates.clone(),
        unsealed: unsealed.clone(),
        flushing: AtomicBool::new(false),
        background: Mutex::default(),
        flushes: Mutex::default(),
        places: Mutex::default(),
    });
    let halt = Arc::new(Halt {
        rank: rank.clone(),
        node: node.clone(),
        reason: Mutex::default(),
        looked: Mutex::default(),
    });
    let conference = Arc::new(Conference {
        rank: rank.clone(),
        node: node.clone(),
        report: report.clone(),
        stores: stores.clone(),
        updates: updates.clone(),
        contents: contents.clone(),
        unsealed: unsealed.clone(),
        handles: handles.clone(),
        names: names.clone(),
        flush: flush.clone(),
        halt: halt.clone(),
        meetings: Mutex::default(),
        encoders: Encoders::default(),
        spare,
        need: Mutex::new(Need::new(monotonic_ms())),
        troubles: Mutex::default(),
        evicted,
    });
    let ending = Arc::new(Ending {
        rank: rank.clone(),
        node: node.clone(),
        report: report.clone(),
        stores: stores.clone(),
        updates: updates.clone(),
        contents: contents.clone(),
        unsealed: unsealed.clone(),
        handles: handles.clone(),
        names: names.clone(),
        flush: flush.clone(),
        halt: halt.clone(),
        conference: conference.clone(),
        out_of_reach: Mutex::default(),
    });
    let prefix = Arc::new(Inspector {
        rank: rank.clone(),
        node: node.clone(),
        stores: stores.clone(),
        names: names.clone(),
    });
    let restart = Restorer {
        rank: rank.clone(),
        node: node.clone(),
        contents: contents.clone(),
        names: names.clone(),
        flush: flush.clone(),
        ending: ending.clone(),
        prefix: prefix.clone(),
    };
    let program = Program {
        rank: rank.clone(),
        node: node.clone(),
        report,
        stores: stores.clone(),
        flush: flush.clone(),
        halt,
        conference: conference.clone(),
        ending: ending.clone(),
        prefix,
        progress: Mutex::default(),
    };
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
