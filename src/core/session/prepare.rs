//! Before any communication: the settings, the directories, the launch check.

use std::path::{Path, PathBuf};

use super::census::{excuse, meeting_place};
use super::launch::{LIMIT, Launch, Verdict, node_size, nonce};
use super::namespace::{STATE_FOLDER, stable_number};
use super::resources;
use super::site::Host;
use crate::cache::Layout;
use crate::descriptors::{Descriptors, NODE};
use crate::error::{Error, Result};
use crate::log;
use crate::params::{
    Environment, Inputs, Problems, SYSTEM_FILE, Settings, keys, load, read_environment,
};
use crate::system;

/// A rank that has work for us, in a launch that is whole.
pub struct Preparation {
    pub(super) settings: Settings,
    pub(super) environment: Environment,
    pub(super) host: Host,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) node_name: String,
    pub(super) prefix: PathBuf,
    pub(super) layout: Layout,
    /// User and job id, which name our directories.
    pub(super) job: (String, String),
    pub(super) launch: Option<Launch>,
    /// Why this rank cannot take part. The others must hear of it, or they would wait for us.
    pub(super) trouble: Option<String>,
}

impl Preparation {
    /// Reads the settings and proves the launch whole. `None`: there is nothing to do for us (no
    /// pattern: silently; anything wrong: with one message by rank 0). Makes no file in the first
    /// case. Takes up to 10 s when ranks without the shim are among us.
    pub fn new(rank: usize, size: usize, host: Host) -> Option<Self> {
        let (environment, problems) = read_environment(std::env::vars_os());
        let place = meeting_place(&environment);
        let prepared = match problems.is_empty() {
            true => Self::try_new(rank, size, host, environment),
            false => Err(Problems(problems).into()),
        };
        match prepared {
            Ok(preparation) => preparation,
            Err(error) => {
                if rank == 0 {
                    log::warn(format_args!("{error}; the program runs without SCR"));
                }
                // The settings of another node may be right: its ranks wait for us.
                if let Some(place) = place {
                    excuse(place, rank, error.to_string());
                }
                None
            }
        }
    }

    fn try_new(
        rank: usize,
        size: usize,
        host: Host,
        environment: Environment,
    ) -> Result<Option<Self>> {
        let here = std::env::current_dir()
            .map_err(|e| Error::io("cannot find the working directory", ".", e))?;
        let inputs = Inputs {
            environment: &environment,
            working_directory: &here,
            system_file: Path::new(SYSTEM_FILE),
            program: &[],
        };
        let settings = load(&inputs)?;
        if !settings.get(keys::ENABLE) || !has_patterns(&settings) {
            return Ok(None);
        }
        let prefix = canonical(&settings.get(keys::PREFIX))?;
        let node_name = system::hostname();
        // The other ranks' hosts are not known yet; mistakes in the lines can be told all the same.
        let descriptors = Descriptors::new(&settings, &vec![node_name.clone(); size])?;
        let job = job(&settings, &prefix, &environment)?;
        let bases: Vec<PathBuf> = descriptors
            .stores
            .iter()
            .filter(|store| store.enabled && store.mkdir)
            .map(|store| store.base.clone())
            .collect();
        let control = settings.get(keys::CNTL_BASE);
        let trouble = secure(&control, &bases, &job).err().map(|error| error.to_string());
        let names: Vec<String> = bases.iter().map(|base| base.display().to_string()).collect();
        let mut layout = Layout::new(&control, &names, &job.0, &job.1);
        for store in descriptors.stores.iter().filter(|store| store.group != NODE) {
            layout.declare_shared(&store.base.display().to_string());
        }
        let mut preparation = Preparation {
            settings,
            host,
            rank,
            size,
            node_name,
            prefix,
            layout,
            job,
            launch: None,
            trouble,
            environment,
        };
        Ok(preparation.launch_is_whole()?.then_some(preparation))
    }

    /// False: ranks are without us. One of the others has said so.
    fn launch_is_whole(&mut self) -> Result<bool> {
        let variable = |name: &str| self.environment.get(name).cloned();
        let found = nonce(variable);
        let Some(nonce) = found.filter(|_| self.size > 1) else { return Ok(true) };
        // A directory that is not safely ours is not used, not even for this.
        let control = match &self.trouble {
            None => self.layout.control_dir.clone(),
            Some(_) => self.prefix.join(STATE_FOLDER).join("launch").join(&self.node_name),
        };
        let launch = Launch {
            prefix_state: self.prefix.join(STATE_FOLDER),
            control,
            nonce,
            host: self.node_name.clone(),
            rank: self.rank,
            size: self.size,
            node_size: node_size(variable),
        };
        if let Verdict::Stop { reason, own } = launch.prove_whole(LIMIT)? {
            if own {
                log::warn(format_args!("{reason}; the program runs without SCR"));
            }
            return Ok(false);
        }
        self.launch = Some(launch);
        Ok(true)
    }
}

/// The prefix, symlinks resolved. Records are text, so its name has to be.
fn canonical(wanted: &Path) -> Result<PathBuf> {
    let prefix =
        wanted.canonicalize().map_err(|e| Error::io("cannot use SCR_PREFIX", wanted, e))?;
    match prefix.to_str() {
        Some(_) => Ok(prefix),
        None => Err(Error::Other(format!(
            "cannot use SCR_PREFIX: the name of the directory {prefix:?} is not UTF-8 text"
        ))),
    }
}

fn has_patterns(settings: &Settings) -> bool {
    !settings.family(keys::CHECKPOINT_PATTERN).is_empty()
        || !settings.family(keys::OUTPUT_PATTERN).is_empty()
}

/// The prefix, symlinks resolved, and this node's control directory under these settings.
pub(super) fn places(settings: &Settings, environment: &Environment) -> Result<(PathBuf, PathBuf)> {
    let prefix = canonical(&settings.get(keys::PREFIX))?;
    let (user, job) = job(settings, &prefix, environment)?;
    let control = settings.get(keys::CNTL_BASE);
    Ok((prefix, Layout::new(&control, &[], &user, &job).control_dir))
}

/// User and job id, which name our directories. The job is the resource manager's, else the same
/// for every start with this prefix.
fn job(settings: &Settings, prefix: &Path, environment: &Environment) -> Result<(String, String)> {
    let user = settings.get_optional(keys::USER_NAME).unwrap_or_else(system::user_name);
    let job = settings
        .get_optional(keys::JOB_ID)
        .or_else(|| resources::job_id(environment))
        .unwrap_or_else(|| format!("{:016x}", stable_number(&prefix.to_string_lossy())));
    for (name, text) in [("user name", &user), ("SCR_JOB_ID", &job)] {
        if text.is_empty() || text.contains('/') || text.starts_with('.') {
            return Err(Error::Other(format!("the {name} '{text}' cannot be part of a path")));
        }
    }
    Ok((user, job))
}

/// Makes our directories, or makes sure that they are ours alone.
fn secure(control: &Path, bases: &[PathBuf], job: &(String, String)) -> Result<()> {
    for base in bases.iter().map(PathBuf::as_path).chain([control]) {
        system::secure_dir(base, &[&job.0, &format!("scr.{}", job.1)])?;
    }
    Ok(())
}
