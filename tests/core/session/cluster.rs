//! Nodes that are directories, one prefix, and launches of ranks on them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use scr_core::comm::Comm;
use scr_core::comm::threads::ThreadWorld;
use scr_core::error::Result;
use scr_core::log::{Voice, set_sink, speak_as};
use scr_core::session::machine::SyncKind;
use scr_core::session::{Arrival, Herald, Host, Session, Surroundings};
use scr_core::system::{Planted, plant};
use tempfile::TempDir;

use super::door::{Ended, Files};
use crate::mortal::{Careless, Fate, Plan, What};
use crate::power::Power;

/// A prefix and nodes, in a directory that goes away with it.
pub struct Cluster {
    root: TempDir,
    settings: BTreeMap<String, String>,
    mistake: Option<Mistake>,
}

/// A mistake that all launches make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    Careless(Careless),
    Planted(Planted),
}

/// One rank of a job, as its program sees it.
pub struct Rank {
    pub rank: usize,
    pub files: Arc<Files>,
    pub session: Arc<Session>,
    world: Box<dyn Comm>,
}

/// What a launch left.
#[derive(Debug)]
pub struct Outcome<T> {
    /// Of the ranks that came to their end, `None` for those that died, or went without SCR.
    pub results: Vec<Option<T>>,
    /// What they did that lasts.
    pub steps: Vec<Vec<String>>,
    /// What they told the user.
    pub told: Vec<String>,
}

/// There is no launch check, so nobody speaks.
struct Silence;

impl Herald for Silence {
    fn tell(&self, _rank: usize) -> Result<()> {
        Ok(())
    }

    fn has_told(&self, _rank: usize) -> Result<bool> {
        Ok(false)
    }
}

impl Cluster {
    /// `settings`: `KEY=VALUE`, beside those that all have.
    pub fn new(settings: &[&str]) -> Cluster {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        fs::create_dir(root.path().join("prefix")).unwrap();
        let common = [
            "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat",
            "SCR_CNTL_BASE=/store",
            "SCR_CACHE_BASE=/store",
            "SCR_LEARN=0",
            "SCR_SETTLE_MILLISECONDS=0",
            "SCR_JOB_ID=1",
            "SCR_USER_NAME=me",
        ];
        let both = common.iter().chain(settings).filter_map(|one| one.split_once('='));
        let settings = both.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Cluster { root, settings, mistake: None }
    }

    /// The same with a mistake.
    pub fn with(self, mistake: Option<Mistake>) -> Cluster {
        Cluster { mistake, ..self }
    }

    /// Another setting for the launches that follow.
    pub fn set(&mut self, setting: &str) {
        let (name, value) = setting.split_once('=').unwrap();
        self.settings.insert(name.to_string(), value.to_string());
    }

    pub fn prefix(&self) -> PathBuf {
        self.root.path().join("prefix")
    }

    fn node(&self, host: char) -> PathBuf {
        self.root.path().join("nodes").join(host.to_string())
    }

    /// What lies below the stores of the nodes, but for what stays after an end.
    pub fn cached(&self, hosts: &str) -> Vec<PathBuf> {
        let stores = hosts.chars().map(|host| self.node(host).join("store/me/scr.1"));
        let entries = stores.flat_map(|store| fs::read_dir(store).into_iter().flatten().flatten());
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Everything that was on the node is gone.
    pub fn lose(&self, host: char) {
        fs::remove_dir_all(self.node(host)).unwrap();
    }

    fn surroundings(&self, hosts: &str, rank: usize, host: Arc<dyn Host>) -> Surroundings {
        let node = hosts.chars().nth(rank).unwrap();
        let word = |text: &String| OsString::from(text);
        let own = self.settings.iter().map(|(name, value)| (word(name), word(value)));
        let prefix = ("SCR_PREFIX".into(), self.prefix().into_os_string());
        Surroundings {
            rank,
            program: Vec::new(),
            size: hosts.len(),
            variables: own.chain([prefix]).collect(),
            working_directory: Ok(self.prefix()),
            system_file: self.root.path().join("no system file"),
            node_name: format!("node_{node}"),
            node_root: self.node(node),
            process: rank as u32,
            host,
        }
    }

    /// Rank i runs on the i-th of `hosts`, which are letters; `plan` happens to one of them.
    /// `program` gets no rank where the launch goes without SCR.
    pub fn launch<T: Send>(
        &self,
        hosts: &str,
        plan: Option<Plan>,
        program: impl Fn(&Rank) -> T + Sync,
    ) -> Outcome<T> {
        for host in hosts.chars() {
            fs::create_dir_all(self.node(host).join("store")).unwrap();
        }
        let cut = plan.filter(|plan| plan.what == What::Power);
        let power = cut.map(|plan| {
            let node = self.node(hosts.chars().nth(plan.rank).unwrap());
            Power::new(&node, &self.root.path().join("graves"))
        });
        let (careless, planted) = match self.mistake {
            Some(Mistake::Careless(how)) => (Some(how), None),
            Some(Mistake::Planted(what)) => (None, Some(what)),
            None => (None, None),
        };
        let fate = Fate::new(self.root.path(), plan, (power, careless));
        let world = ThreadWorld::new(hosts.len());
        let (reaper, all) = (world.reaper(), hosts.to_string());
        let (nodes, lost) = (self.root.path().join("nodes"), self.root.path().join("lost"));
        fate.on_death(move |rank, what| {
            let host = all.chars().nth(rank).unwrap();
            let mut dead = vec![rank];
            if what != What::Rank {
                let here = |(at, other): (usize, char)| (other == host).then_some(at);
                dead = all.chars().enumerate().filter_map(here).collect();
            }
            if what == What::Node {
                let _ = fs::rename(nodes.join(host.to_string()), &lost);
            }
            dead.iter().for_each(|rank| reaper.kill(*rank));
            dead
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let lives: Vec<_> = (0..hosts.len()).map(|rank| fate.life(rank)).collect();
        let outcome = world.run(|comm| {
            let (life, told) = (&lives[comm.rank()], told.clone());
            let voice = Arc::new(Voice::new());
            let files = Files::new(life.clone(), voice);
            files.enter_thread();
            plant(planted);
            set_sink(Some(Arc::new(move |line| told.lock().unwrap().push(line.to_string()))));
            let run = || self.run_rank(hosts, comm, files.clone(), &program);
            let result = catch_unwind(AssertUnwindSafe(run));
            life.end();
            speak_as(None);
            plant(None);
            match result {
                Ok(result) => result,
                Err(payload) if payload.is::<Ended>() => None,
                Err(payload) => resume_unwind(payload),
            }
        });
        let _ = fs::remove_dir_all(self.root.path().join("lost"));
        assert!(!fate.is_stuck(), "a rank waits for one that is dead");
        let told = told.lock().unwrap().clone();
        let results = outcome.results.into_iter().map(Option::flatten).collect();
        Outcome { results, steps: fate.steps(), told }
    }

    fn run_rank<T>(
        &self,
        hosts: &str,
        comm: Box<dyn Comm>,
        files: Arc<Files>,
        program: &impl Fn(&Rank) -> T,
    ) -> Option<T> {
        let rank = comm.rank();
        let around = self.surroundings(hosts, rank, files.clone());
        let world = comm.split(0, rank as i64).ok().flatten()?;
        let arrival = Arrival::new(around, &Silence)?;
        let required = arrival.required();
        let started = arrival.start(comm);
        let told = started.inspect_err(|error| required.fall_back(&error.to_string(), rank == 0));
        let session = told.ok()?;
        session.halt_at_start();
        let session = Arc::new(session);
        files.serve(&session);
        let rank = Rank { rank, files, session, world };
        Some(program(&rank))
    }
}

impl Rank {
    /// A blocking collective of the program: the largest of all words.
    ///
    /// # Errors
    /// Another rank is gone: the launcher ends this one.
    pub fn all_max(&self, own: i64) -> Result<i64> {
        self.session.sync(SyncKind::Collective);
        let mut words = [own];
        self.world.all_max(&mut words)?;
        Ok(words[0])
    }
}
