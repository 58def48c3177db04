//! Where a job has its directories: prefix, and what its user and its id name on each node.

use std::path::{Path, PathBuf};

use super::resources;
use crate::bytes::stable_number;
use crate::cache::{Address, Layout, Owner, stores_in_records};
use crate::descriptors::Descriptors;
use crate::error::{Error, Result, again};
use crate::namespace::STATE_FOLDER;
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

/// Where a job has its directories, as one of its nodes sees them.
#[derive(Debug, Clone)]
pub struct JobPlaces {
    /// The prefix, symlinks resolved.
    pub prefix: PathBuf,
    /// This node's directories, those of stores that only records of the job name included.
    pub layout: Layout,
    /// Its user and id, which name them.
    pub address: Address,
}

impl JobPlaces {
    /// Finds them; nothing is made. The environment names the job, as that of the run did.
    pub fn new(settings: &Settings, environment: &Environment) -> Result<JobPlaces> {
        let prefix = canonical(&settings.get(keys::PREFIX))?;
        let descriptors = Descriptors::new(settings, &[system::hostname()])?;
        let root = Path::new("/");
        let address = address(settings, &prefix, environment, root, &descriptors)?;
        let stores = descriptors.stores.iter().filter(|store| store.enabled);
        let names: Vec<String> = stores.map(|store| store.base.display().to_string()).collect();
        let mut layout = Layout::new(root, &settings.get(keys::CNTL_BASE), &names, &address);
        for name in stores_in_records(&layout.control_dir) {
            layout.add_store(root, &name, &address, true);
        }
        JobPlaces::of(prefix, layout, address, settings)
    }

    /// Makes them of the prefix's directories. Local.
    pub fn of(
        prefix: PathBuf,
        mut layout: Layout,
        address: Address,
        settings: &Settings,
    ) -> Result<JobPlaces> {
        // The user's word counts for what nothing proves.
        if !settings.get(keys::CACHE_ADOPT) {
            layout.owner = Owner::of_state_dir(&prefix.join(STATE_FOLDER))?;
        }
        Ok(JobPlaces { prefix, layout, address })
    }
}

/// Finds what our directories are called. The job is the resource manager's, else the same for
/// every start with this prefix. `root`: where the files of the node begin.
pub(crate) fn address(
    settings: &Settings,
    prefix: &Path,
    environment: &Environment,
    root: &Path,
    descriptors: &Descriptors,
) -> Result<Address> {
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
    let stores = descriptors.stores.iter().filter(|store| store.enabled);
    let mut bases = vec![settings.get(keys::CNTL_BASE)];
    bases.extend(stores.map(|store| store.base.clone()));
    Ok(Address::new(&user, &job, prefix).or_older(root, &bases, prefix))
}
