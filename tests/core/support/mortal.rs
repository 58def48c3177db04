//! Ranks of a job in this process that die, or fail, at one of their durable steps.
//!
//! A thread that belongs to a rank ([`Life::enter`]) counts its steps in `syncs.rs`: whatever
//! changes what is on the disk. At the chosen one the rank dies: its thread waits there until no
//! rank lives any more, since the destructors of a process that is killed do not run either, its
//! locks are gone as the kernel would have it, and nothing that its threads do from then on has an
//! effect.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use super::power::Power;

/// How long a dead rank waits for the others: longer than any of them takes.
const WAIT: Duration = Duration::from_secs(15);

/// What is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The rank is killed.
    Rank,
    /// All ranks of its node, and what was on the node is gone.
    Node,
    /// All ranks of its node, and what was not durable on the node is gone.
    Power,
    /// The step fails with this errno, and if it is for good, all that follow.
    Fails(c_int, bool),
}

/// What a program that was written carelessly would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Careless {
    /// Files of a checkpoint are not synced.
    Data,
    /// Records are not synced before they get their names.
    Records,
    /// Directories are not synced.
    Directories,
    /// Records get their names before they are written.
    RecordInPlace,
    /// Files on the prefix get their names before they are written.
    FlushInPlace,
    /// Nothing is ever removed.
    Removal,
}

/// At which step of which rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub rank: usize,
    pub step: usize,
    pub what: What,
}

/// Gives all ranks that die with the first one.
type Who = Box<dyn Fn(usize, What) -> Vec<usize> + Send + Sync>;

/// What the death of these does to the job and their node.
type Takes = Box<dyn Fn(&[usize], What) + Send + Sync>;

/// What the ranks of a job have in common.
pub struct Fate {
    /// Steps elsewhere do not count.
    top: PathBuf,
    plan: Option<Plan>,
    power: Option<Power>,
    careless: Option<Careless>,
    deaths: OnceLock<(Who, Takes)>,
    lives: Mutex<Vec<Arc<Life>>>,
    over: Mutex<bool>,
    ended: Condvar,
    stuck: AtomicBool,
}

/// One rank.
pub struct Life {
    rank: usize,
    fate: Arc<Fate>,
    dead: AtomicBool,
    count: AtomicUsize,
    steps: Mutex<Vec<String>>,
    /// Descriptors that it has locked.
    locked: Mutex<BTreeSet<c_int>>,
}

thread_local! {
    static LIFE: RefCell<Option<Arc<Life>>> = const { RefCell::new(None) };
    /// What the thread does before each step.
    static BEFORE: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
    /// The program's own calls fail for its own reasons.
    static PROGRAM: RefCell<bool> = const { RefCell::new(false) };
}

/// Threads that belong to a rank: no call of others is slower.
static LIVES: AtomicUsize = AtomicUsize::new(0);

impl Fate {
    pub fn new(
        top: &Path,
        plan: Option<Plan>,
        (power, careless): (Option<Power>, Option<Careless>),
    ) -> Arc<Fate> {
        LIVES.fetch_add(1, Ordering::Relaxed);
        Arc::new(Fate {
            top: top.to_path_buf(),
            plan,
            power,
            careless,
            deaths: OnceLock::new(),
            lives: Mutex::default(),
            over: Mutex::default(),
            ended: Condvar::new(),
            stuck: AtomicBool::new(false),
        })
    }

    /// Who dies with whom, and what that does, when all of them are dead: a rank that lives on
    /// while its node is taken away would tell the others of files that are gone.
    pub fn on_death(
        &self,
        who: impl Fn(usize, What) -> Vec<usize> + Send + Sync + 'static,
        takes: impl Fn(&[usize], What) + Send + Sync + 'static,
    ) {
        assert!(self.deaths.set((Box::new(who), Box::new(takes))).is_ok());
    }

    pub fn life(self: &Arc<Fate>, rank: usize) -> Arc<Life> {
        let life = Arc::new(Life {
            rank,
            fate: self.clone(),
            dead: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            steps: Mutex::default(),
            locked: Mutex::default(),
        });
        self.lives.lock().unwrap().push(life.clone());
        life
    }

    /// The steps that each rank has made.
    pub fn steps(&self) -> Vec<Vec<String>> {
        let mut lives = self.lives.lock().unwrap().clone();
        lives.sort_by_key(|life| life.rank);
        lives.iter().map(|life| life.steps.lock().unwrap().clone()).collect()
    }

    /// A rank that lives has waited for one that is dead.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::SeqCst)
    }

    fn look_whether_over(&self) {
        let all = self.lives.lock().unwrap().iter().all(|life| life.is_dead());
        if all {
            *self.over.lock().unwrap() = true;
            self.ended.notify_all();
        }
    }

    fn await_the_end(&self) {
        let over = self.over.lock().unwrap();
        let (mut over, late) = self.ended.wait_timeout_while(over, WAIT, |over| !*over).unwrap();
        if late.timed_out() {
            *over = true;
            self.stuck.store(true, Ordering::SeqCst);
            self.ended.notify_all();
        }
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        LIVES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Life {
    /// The calling thread belongs to this rank.
    pub fn enter(self: &Arc<Life>) {
        let _ = LIFE.try_with(|life| *life.borrow_mut() = Some(self.clone()));
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The rank has ended: its threads do nothing any more.
    pub fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.let_go();
        self.fate.look_whether_over();
    }

    /// The locks of a process that is gone.
    fn let_go(&self) {
        for descriptor in std::mem::take(&mut *self.locked.lock().unwrap()) {
            // SAFETY: takes any number; it is this rank's descriptor until it is closed.
            unsafe { libc::syscall(libc::SYS_flock, descriptor, libc::LOCK_UN) };
        }
    }

    fn die(&self, what: What) {
        let deaths = self.fate.deaths.get();
        let all = deaths.map_or(vec![self.rank], |(who, _)| who(self.rank, what));
        let lives = self.fate.lives.lock().unwrap().clone();
        for life in lives.iter().filter(|life| all.contains(&life.rank)) {
            life.dead.store(true, Ordering::SeqCst);
            life.let_go();
        }
        // What is done to the node is not the rank's doing.
        let own = LIFE.with(|life| life.borrow_mut().take());
        if let Some((_, takes)) = deaths {
            takes(&all, what);
        }
        if let Some(power) = self.fate.power.as_ref().filter(|_| what == What::Power) {
            power.cut();
        }
        LIFE.with(|life| *life.borrow_mut() = own);
        self.fate.look_whether_over();
    }
}

/// Runs `body` on the storage of the node whose power will be cut, as nobody's doing.
pub fn with_power<T>(body: impl FnOnce(&Power) -> T) -> Option<T> {
    let life = own().filter(|life| life.fate.power.is_some() && !life.is_dead())?;
    LIFE.with(|life| life.borrow_mut().take());
    let result = life.fate.power.as_ref().map(body);
    life.enter();
    result
}

/// Whether the calling thread is careless in this way.
pub fn is_careless(how: Careless) -> bool {
    own().is_some_and(|life| life.fate.careless == Some(how))
}

fn own() -> Option<Arc<Life>> {
    if LIVES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    LIFE.try_with(|life| life.try_borrow().ok()?.clone()).ok().flatten()
}

/// What `body` does is the program's doing: it does not fail.
pub fn program<T>(body: impl FnOnce() -> T) -> T {
    PROGRAM.with(|program| *program.borrow_mut() = true);
    let result = body();
    PROGRAM.with(|program| *program.borrow_mut() = false);
    result
}

/// The calling thread does this before each of its steps.
pub fn before_steps(act: Option<Box<dyn Fn()>>) {
    BEFORE.with(|before| *before.borrow_mut() = act);
}

/// The errno with which a step of this thread fails, if it does.
pub fn step(call: &str, path: impl FnOnce() -> Option<PathBuf>) -> Option<c_int> {
    let life = own()?;
    let below = path()?.strip_prefix(&life.fate.top).ok()?.to_path_buf();
    if life.is_dead() {
        life.fate.await_the_end();
        return Some(libc::EIO);
    }
    let _ = BEFORE.try_with(|before| before.borrow().as_ref().map(|act| act()));
    let at = life.count.fetch_add(1, Ordering::SeqCst);
    life.steps.lock().unwrap().push(format!("{call} {}", below.display()));
    let plan = life.fate.plan.filter(|plan| plan.rank == life.rank)?;
    match plan.what {
        What::Fails(errno, for_good) => {
            let program = PROGRAM.try_with(|program| *program.borrow()).unwrap_or(false);
            let fails = at == plan.step || (for_good && at > plan.step);
            // A store of the node, not the prefix.
            (fails && !program && below.starts_with("nodes")).then_some(errno)
        }
        what if at == plan.step => {
            life.die(what);
            life.fate.await_the_end();
            Some(libc::EIO)
        }
        _ => None,
    }
}

/// Tells whether the calling thread belongs to a rank that is dead: it waits for nothing that
/// others are about to tell it there.
pub fn reads_nothing(path: impl FnOnce() -> Option<PathBuf>) -> bool {
    let dead = own().filter(|life| life.is_dead());
    dead.is_some_and(|life| path().is_some_and(|path| path.starts_with(&life.fate.top)))
}

/// The thread has, or has no more, the lock of a descriptor.
pub fn locked(descriptor: c_int, held: bool) {
    let Some(life) = own() else { return };
    if held && !life.is_dead() {
        life.locked.lock().unwrap().insert(descriptor);
    } else if held {
        // SAFETY: takes any number.
        unsafe { libc::syscall(libc::SYS_flock, descriptor, libc::LOCK_UN) };
    } else {
        life.locked.lock().unwrap().remove(&descriptor);
    }
}
