//! Where a job has its directories: prefix, and what its user and its id name on each node.

use std::path::{Path, PathBuf};

use super::resources;
use crate::cache::{Layout, Owner, other_prefix, stores_in_records};
use crate::descriptors::Descriptors;
use crate::error::{Error, Result, again};
use crate::namespace::{STATE_FOLDER, stable_number};
use crate::params::{Environment, Settings, keys};
use crate::system;

/// Resolves the symlinks of the prefix. Records are text, so its name has to be.
pub(crate) fn canonical(wanted: &Path) -> Result<PathBuf> {
    let resolve =
        || wanted.canonicalize().map_err(|e| Error::io("cannot use SCR_PREFIX", wanted, e));
    let prefix = again(resolve)?;
    match prefix.to_str() {
        Some(_) => Ok(prefix),
        None => Err(Error::Refused(format!(
            "cannot use SCR_PREFIX: the name of the directory {prefix:?} is not UTF-8 text"
        ))),
    }
}

/// Finds the prefix, symlinks resolved, and this node's control directory under these settings.
pub(crate) fn places(settings: &Settings, environment: &Environment) -> Result<(PathBuf, PathBuf)> {
    let prefix = canonical(&settings.get(keys::PREFIX))?;
    let (user, job) = job(settings, &prefix, environment)?;
    let control = settings.get(keys::CNTL_BASE);
    Ok((prefix, Layout::new(Path::new("/"), &control, &[], (&user, &job)).control_dir))
}

/// Where a job has its directories, as one of its nodes sees them.
#[derive(Debug, Clone)]
pub struct JobPlaces {
    /// The prefix, symlinks resolved.
    pub prefix: PathBuf,
    /// This node's directories, those of stores that only records of the job name included.
    pub layout: Layout,
    /// Its user.
    pub user: String,
    /// Its id.
    pub job: String,
    /// Why this node's cache is not the prefix's, if so, in words.
    pub strange: Option<String>,
}

impl JobPlaces {
    /// Finds them; nothing is made. The environment names the job, as that of the run did.
    ///
    /// # Errors
    /// The settings are wrong, or the prefix is not there.
    pub fn new(settings: &Settings, environment: &Environment) -> Result<JobPlaces> {
        let prefix = canonical(&settings.get(keys::PREFIX))?;
        let (user, job) = job(settings, &prefix, environment)?;
        let descriptors = Descriptors::new(settings, &[system::hostname()])?;
        let stores = descriptors.stores.iter().filter(|store| store.enabled);
        let names: Vec<String> = stores.map(|store| store.base.display().to_string()).collect();
        let mut layout =
            Layout::new(Path::new("/"), &settings.get(keys::CNTL_BASE), &names, (&user, &job));
        for name in stores_in_records(&layout.control_dir) {
            layout.add_store(Path::new("/"), &name, (&user, &job), true);
        }
        JobPlaces::of(prefix, layout, (user, job), settings)
    }

    /// Makes them of directories, which are the prefix's own unless something tells that they were
    /// made for another one. Local.
    ///
    /// # Errors
    /// The identity of the prefix cannot be read.
    pub fn of(
        prefix: PathBuf,
        mut layout: Layout,
        (user, job): (String, String),
        settings: &Settings,
    ) -> Result<JobPlaces> {
        // The user's word counts for what nothing proves.
        let strange = match settings.get(keys::CACHE_ADOPT) {
            true => None,
            false => {
                layout.owner = Owner::of_state_dir(&prefix.join(STATE_FOLDER))?;
                other_prefix(&layout.control_dir, &prefix)
            }
        };
        Ok(JobPlaces { prefix, layout, user, job, strange })
    }
}

/// Finds user and job id, which name our directories. The job is the resource manager's, else the
/// same for every start with this prefix.
pub(crate) fn job(
    settings: &Settings,
    prefix: &Path,
    environment: &Environment,
) -> Result<(String, String)> {
    let user = settings.get_optional(keys::USER_NAME).unwrap_or_else(system::user_name);
    let job = settings
        .get_optional(keys::JOB_ID)
        .or_else(|| resources::job_id(environment))
        .unwrap_or_else(|| format!("{:016x}", stable_number(&prefix.to_string_lossy())));
    for (name, text) in [("user name", &user), ("SCR_JOB_ID", &job)] {
        if text.is_empty() || text.contains('/') || text.starts_with('.') {
            return Err(Error::Refused(format!("the {name} '{text}' cannot be part of a path")));
        }
    }
    Ok((user, job))
}
