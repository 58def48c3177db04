//! Nodes that are directories, one prefix, and launches of ranks on them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use scr_core::cache::{Address, Layout};
use scr_core::comm::Comm;
use scr_core::comm::threads::ThreadWorld;
use scr_core::error::Result;
use scr_core::launch::JobPlaces;
use scr_core::log::{set_sink, speak_as};
use scr_core::machine::SyncKind;
use scr_core::operations::{copy_node, publish_copies};
use scr_core::params::Settings;
use scr_core::session::{Arrival, Herald, Host, Note, Session, Surroundings};
use scr_core::streams::WORLD;
use scr_core::system::{Planted, plant};
use scr_core::transfer::Which;
use tempfile::TempDir;

use super::counted::{Calls, Counted};
use super::door::{Ended, Files};
use crate::mortal::{Careless, Fate, Life, Plan, What};
use crate::power::Power;

/// A prefix and nodes, in a directory that goes away with it.
pub struct Cluster {
    root: Arc<TempDir>,
    prefix: &'static str,
    settings: BTreeMap<String, OsString>,
    mistake: Option<Mistake>,
    helped: bool,
    /// The launcher ends all ranks at the death of one.
    together: bool,
    calls: Option<Arc<Calls>>,
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
    pub size: usize,
    pub files: Arc<Files>,
    /// `None`: the program runs without SCR.
    session: Option<Arc<Session>>,
    world: Box<dyn Comm>,
}

/// Ranks that open files without the others.
pub struct Group {
    ranks: Vec<usize>,
    comm: Box<dyn Comm>,
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
    /// With what SCR has ended them, if it has.
    pub statuses: Vec<Option<i32>>,
}

impl<T> Outcome<T> {
    /// What the program of each rank has returned; none was ended.
    pub fn all(&self) -> Vec<&T> {
        let one = |result: &'_ Option<T>| result.as_ref().is_some();
        assert!(self.results.iter().all(one), "a rank was ended: {:?}", self.told);
        self.results.iter().flatten().collect()
    }

    /// What the program of rank 0 has returned.
    pub fn first(&self) -> &T {
        self.all()[0]
    }
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
            // A thread that writes when it likes; the log has tests of its own.
            "SCR_LOG_DB_ENABLE=0",
            "SCR_SETTLE_MILLISECONDS=0",
            "SCR_JOB_ID=1",
            "SCR_USER_NAME=me",
        ];
        let both = common.iter().chain(settings).filter_map(|one| one.split_once('='));
        let settings = both.map(|(name, value)| (name.to_string(), value.into())).collect();
        let root = Arc::new(root);
        let (mistake, calls) = (None, None);
        let (helped, together) = (false, false);
        Cluster { root, prefix: "prefix", settings, mistake, helped, together, calls }
    }

    /// The same with a mistake.
    pub fn with(self, mistake: Option<Mistake>) -> Cluster {
        Cluster { mistake, ..self }
    }

    /// The same with the helper thread of each rank, as in a process of its own.
    pub fn helped(self) -> Cluster {
        Cluster { helped: true, ..self }
    }

    /// The same with a launcher that ends all ranks at once when one has died.
    pub fn that_ends_together(self) -> Cluster {
        Cluster { together: true, ..self }
    }

    /// The same with a count of what the sessions of the next launch ask of their communicators.
    pub fn count(&mut self, calls: &Arc<Calls>) {
        self.calls = Some(calls.clone());
    }

    /// Another one that may hold any bytes.
    pub fn set_bytes(&mut self, name: &str, value: &[u8]) {
        self.settings.insert(name.to_string(), OsString::from_vec(value.to_vec()));
    }

    /// Without that setting.
    pub fn unset(&mut self, name: &str) {
        self.settings.remove(name);
    }

    /// Another setting for the launches that follow.
    pub fn set(&mut self, setting: &str) {
        let (name, value) = setting.split_once('=').unwrap();
        self.settings.insert(name.to_string(), value.into());
    }

    pub fn prefix(&self) -> PathBuf {
        self.root.path().join(self.prefix)
    }

    /// Another prefix of the same job, on the same nodes.
    pub fn beside(&self, prefix: &'static str) -> Cluster {
        let (root, settings) = (self.root.clone(), self.settings.clone());
        let (mistake, calls) = (None, None);
        let (helped, together) = (false, false);
        let other = Cluster { root, prefix, settings, mistake, helped, together, calls };
        fs::create_dir_all(other.prefix()).unwrap();
        other
    }

    /// Where a node has what is cached of this prefix.
    pub fn cache(&self, host: char) -> PathBuf {
        self.places(host).layout.control_dir
    }

    pub fn node(&self, host: char) -> PathBuf {
        self.root.path().join("nodes").join(host.to_string())
    }

    /// What lies below the stores of the nodes, but for what stays after an end.
    pub fn cached(&self, hosts: &str) -> Vec<PathBuf> {
        let stores = hosts.chars().map(|host| self.cache(host));
        let entries = stores.flat_map(|store| fs::read_dir(store).into_iter().flatten().flatten());
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Everything that was on the node is gone.
    pub fn lose(&self, host: char) {
        fs::remove_dir_all(self.node(host)).unwrap();
    }

    /// What `scr scavenge` does after a run on `hosts`: names of the datasets that it published.
    pub fn scavenge(&self, hosts: &str) -> Vec<String> {
        for host in hosts.chars() {
            assert!(copy_node(&self.places(host), &host.to_string(), None).unwrap().is_some());
        }
        let first = self.places(hosts.chars().next().unwrap());
        let done = publish_copies(&first, &Settings::default(), Which::Newest).unwrap().unwrap();
        done.published.into_iter().map(|(_, key)| key.id).collect()
    }

    fn places(&self, host: char) -> JobPlaces {
        let store = ["/store".to_string()];
        let address = Address::new("me", "1", &self.prefix());
        let layout = Layout::new(&self.node(host), Path::new(&store[0]), &store, &address);
        JobPlaces::of(self.prefix(), layout, address, &Settings::default()).unwrap()
    }

    fn surroundings(&self, hosts: &str, rank: usize, host: Arc<dyn Host>) -> Surroundings {
        let node = hosts.chars().nth(rank).unwrap();
        let own = self.settings.iter().map(|(name, value)| (name.into(), value.clone()));
        let prefix = ("SCR_PREFIX".into(), self.prefix().into_os_string());
        Surroundings {
            rank,
            program: Vec::new(),
            size: hosts.len(),
            variables: [prefix].into_iter().chain(own).collect(),
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
        self.start(hosts, plan, true, |rank| rank.session.is_some().then(|| program(rank)))
    }

    /// The same for a program that runs without SCR, too, where SCR cannot take part.
    pub fn run<T: Send>(&self, hosts: &str, program: impl Fn(&Rank) -> T + Sync) -> Outcome<T> {
        self.start(hosts, None, true, |rank| Some(program(rank)))
    }

    /// The same with other settings for this launch.
    pub fn run_with<T: Send>(
        &mut self,
        settings: &[&str],
        hosts: &str,
        program: impl Fn(&Rank) -> T + Sync,
    ) -> Outcome<T> {
        let usual = self.settings.clone();
        settings.iter().for_each(|setting| self.set(setting));
        let outcome = self.run(hosts, program);
        self.settings = usual;
        outcome
    }

    /// Nobody has heard of SCR.
    pub fn run_plain<T: Send>(
        &self,
        hosts: &str,
        program: impl Fn(&Rank) -> T + Sync,
    ) -> Outcome<T> {
        self.start(hosts, None, false, |rank| Some(program(rank)))
    }

    fn start<T: Send>(
        &self,
        hosts: &str,
        plan: Option<Plan>,
        shim: bool,
        program: impl Fn(&Rank) -> Option<T> + Sync,
    ) -> Outcome<T> {
        let store = |host| self.node(host).join("store");
        hosts.chars().for_each(|host| fs::create_dir_all(store(host)).unwrap());
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
        let (reaper, all) = (world.reaper(), hosts.chars().collect::<Vec<_>>());
        let (nodes, lost) = (self.root.path().join("nodes"), self.root.path().join("lost"));
        let (host_of, together) = (all.clone(), self.together);
        let who = move |rank: usize, what| match what {
            // The first one's node counts.
            _ if together => (rank..all.len()).chain(0..rank).collect(),
            What::Rank => vec![rank],
            _ => (0..all.len()).filter(|&other| all[other] == all[rank]).collect(),
        };
        fate.on_death(who, move |dead, what| {
            dead.iter().for_each(|rank| reaper.kill(*rank));
            if what == What::Node {
                let _ = fs::rename(nodes.join(host_of[dead[0]].to_string()), &lost);
            }
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let lives: Vec<_> = (0..hosts.len()).map(|rank| fate.life(rank)).collect();
        let doors = |life: &Arc<Life>| Files::new(life.clone(), &self.prefix());
        let doors: Vec<_> = lives.iter().map(doors).collect();
        let outcome = world.run(|comm| {
            let (life, files) = (&lives[comm.rank()], doors[comm.rank()].clone());
            let (told, speaker) = (told.clone(), life.clone());
            files.enter_thread();
            plant(planted);
            // Nobody hears what a thread of a dead rank has still to say.
            set_sink(Some(Arc::new(move |line| {
                if !speaker.is_dead() {
                    told.lock().unwrap().push(line.to_string());
                }
            })));
            let run = || self.run_rank(hosts, comm, files.clone(), shim, &program);
            let result = catch_unwind(AssertUnwindSafe(run));
            life.end();
            files.leave();
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
        let statuses = doors.iter().map(|files| files.status()).collect();
        Outcome { results, steps: fate.steps(), told, statuses }
    }

    fn run_rank<T>(
        &self,
        hosts: &str,
        comm: Box<dyn Comm>,
        files: Arc<Files>,
        shim: bool,
        program: &impl Fn(&Rank) -> Option<T>,
    ) -> Option<T> {
        let (rank, size) = (comm.rank(), comm.size());
        let world = comm.split(0, rank as i64).ok().flatten()?;
        let comm = match &self.calls {
            Some(calls) => Counted::around(comm, calls.clone()),
            None => comm,
        };
        let session = if shim { self.join(hosts, comm, &files) } else { None };
        program(&Rank { rank, size, files, session, world })
    }

    /// What the shim does in MPI_Init.
    fn join(&self, hosts: &str, comm: Box<dyn Comm>, files: &Arc<Files>) -> Option<Arc<Session>> {
        let rank = comm.rank();
        let around = self.surroundings(hosts, rank, files.clone());
        let arrival = Arrival::new(around, &Silence)?;
        let required = arrival.required();
        let started = Session::start(arrival, comm);
        let told = started.inspect_err(|error| required.fall_back(error, rank == 0));
        let session = told.ok()?;
        session.ending.halt_at_start();
        let session = Arc::new(session);
        files.serve(&session);
        if self.helped {
            // The thread lives as long as the process, whatever it does.
            let kept: &'static Arc<Session> = Box::leak(Box::new(session.clone()));
            kept.start_helper();
        }
        Some(session)
    }
}

/// Calls after which a checkpoint that all have closed is sealed, confirmed and flushed.
const CALM: usize = 4;

impl Rank {
    /// The session of a rank that has one.
    pub fn session(&self) -> &Arc<Session> {
        self.session.as_ref().unwrap()
    }

    fn sync(&self, kind: SyncKind) {
        if let Some(session) = &self.session {
            session.ending.sync(WORLD, kind);
        }
    }

    /// A blocking collective of the program: the largest of all words.
    ///
    /// # Errors
    /// Another rank is gone: the launcher ends this one.
    pub fn all_max(&self, own: i64) -> Result<i64> {
        self.sync(SyncKind::Collective);
        let mut words = [own];
        self.world.all_max(&mut words)?;
        Ok(words[0])
    }

    /// MPI_Barrier.
    pub fn barrier(&self) {
        self.try_barrier().unwrap();
    }

    /// The same.
    ///
    /// # Errors
    /// Another rank is gone: the launcher ends this one.
    pub fn try_barrier(&self) -> Result<()> {
        self.sync(SyncKind::Barrier);
        self.world.barrier()
    }

    /// Makes a group of these ranks, as MPI_Comm_split does; `None` on the others.
    pub fn group(&self, ranks: &[usize]) -> Option<Group> {
        let color = if ranks.contains(&self.rank) { 0 } else { -1 };
        let comm = self.world.split(color, self.rank as i64).unwrap();
        comm.map(|comm| Group { ranks: ranks.to_vec(), comm })
    }

    /// A blocking collective call on a file that the group has open, or MPI_File_open itself.
    pub fn group_call(&self, group: &Group) {
        if let Some(session) = &self.session {
            session.conference.tell_group(group.comm.as_ref(), &group.ranks).unwrap();
        }
        group.comm.barrier().unwrap();
    }

    /// MPI_Allgather.
    pub fn gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        self.sync(SyncKind::Collective);
        self.world.all_gather(own).unwrap()
    }

    /// All ranks wait for one another by messages; no agreement.
    pub fn meet(&self) {
        self.world.barrier().unwrap();
    }

    /// MPI_Send; no agreement.
    pub fn send(&self, to: usize) {
        self.world.send(b"", to).unwrap();
    }

    /// MPI_Recv; no agreement.
    pub fn receive(&self, from: usize) {
        self.world.receive(from).unwrap();
    }

    /// Calls that carry an agreement however fast they follow one another.
    pub fn calm(&self) {
        self.try_calm().unwrap();
    }

    /// The same.
    ///
    /// # Errors
    /// Another rank is gone: the launcher ends this one.
    pub fn try_calm(&self) -> Result<()> {
        let mut encoded = true;
        while encoded {
            encoded = false;
            for _ in 0..CALM {
                self.sync(SyncKind::Constructor);
                self.world.barrier()?;
                encoded |= self.is_encoding();
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Whether a checkpoint is being encoded beside the program.
    pub fn is_encoding(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.conference.is_encoding())
    }

    /// MPI_Finalize.
    pub fn finish(&self) {
        if let Some(session) = &self.session {
            session.ending.finish();
            session.note(Note::Finalized);
        }
        self.world.barrier().unwrap();
    }
}
