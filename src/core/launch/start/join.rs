//! The ranks of a launch come together: of what each has prepared, the site and the communicators
//! are made that stay for its life.

use std::sync::Arc;
use std::time::SystemTime;

use super::prepare::{Arrival, Preparation};
use super::together::{share_trouble, warn};
use crate::cache::{FilemapFile, Sets, Sharing};
use crate::comm::Comm;
use crate::descriptors::Descriptors;
use crate::error::{Error, Result};
use crate::files::lease::Lease;
use crate::launch::aliases;
use crate::launch::places::resources;
use crate::launch::places::site::{Links, Site};
use crate::launch::required::Required;
use crate::patterns::{PatternConfig, SeriesSet};
use crate::records::Zone;
use crate::transfer::Options;

pub(crate) struct Joined {
    pub site: Arc<Site>,
    pub links: Links,
    pub series: SeriesSet,
    pub hosts: Vec<String>,
    /// Random, the same on all ranks of this launch.
    pub launch: u64,
    /// What a launch must share with the one whose cache it takes over.
    pub identity: String,
    pub leases: Vec<Lease>,
}

impl Arrival {
    /// Brings the ranks together; `world` is ours alone. Collective.
    pub(crate) fn join(mut self, world: Box<dyn Comm>) -> Result<Joined> {
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
        let host = match &self {
            Arrival::Ready(ready) => ready.node_name.as_bytes(),
            Arrival::Unable { .. } => &[],
        };
        let hosts = share_trouble(world.as_ref(), trouble.as_ref(), true, host)?;
        let hosts = hosts.iter().map(|host| String::from_utf8_lossy(host).into_owned()).collect();
        match self {
            Arrival::Ready(ready) => ready.join(world.into(), hosts),
            Arrival::Unable { why, .. } => Err(why),
        }
    }

    /// Tells what is to become of the run if the start fails.
    pub fn required(&self) -> Required {
        match self {
            Arrival::Ready(ready) => ready.required(),
            Arrival::Unable { required, .. } => required.clone(),
        }
    }
}

impl Preparation {
    fn join(mut self, world: Arc<dyn Comm>, hosts: Vec<String>) -> Result<Joined> {
        let launch = self.share_settings(world.as_ref())?;
        let node_ranks: Vec<usize> =
            (0..hosts.len()).filter(|&rank| hosts[rank] == self.node_name).collect();
        let first = node_ranks.first().copied().unwrap_or(self.rank);
        let node = require(world.split(first as i64, self.rank as i64)?)?;
        let leads = if node.rank() == 0 { 0 } else { -1 };
        let leaders = world.split(leads, self.rank as i64)?;
        let descriptors = Descriptors::new(&self.settings, &hosts)?;
        let leases = self.come_in(world.as_ref(), node.rank() == 0)?;
        let sets = Sets::new(world.clone(), descriptors.clone(), &self.settings);
        let patterns = PatternConfig::from_settings(&self.settings, &self.prefix, self.rank);
        let series = SeriesSet::new(&patterns)?.with_program();
        let (sharing, aliases) =
            Sharing::observe(world.as_ref(), first, &self.layout, launch, || {
                aliases::agree(world.as_ref(), &self.prefix, &series)
            })?;
        let identity = self.identity(&series);
        let site = Arc::new(Site {
            filemap: FilemapFile::new(&self.layout, node.rank(), self.rank),
            host: self.host,
            rank: self.rank,
            size: self.size,
            node_name: self.node_name,
            aliases,
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
        let links = Links { world, node, node_ranks, leaders, sets, sharing };
        Ok(Joined { site, links, series, hosts, launch, identity, leases })
    }
}

fn require(comm: Option<Box<dyn Comm>>) -> Result<Box<dyn Comm>> {
    comm.ok_or_else(|| Error::Comm("a split gave no communicator".to_string()))
}
