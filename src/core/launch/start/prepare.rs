//! Before any communication: the settings, the directories, the launch check.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::account::unmatched::without_pattern;
use crate::cache::{Address, Layout, on_node};
use crate::descriptors::{Descriptors, NODE};
use crate::error::{Error, Result};
use crate::launch::host::{Door, Host, Surroundings};
use crate::launch::places::job::{address, canonical};
use crate::launch::required::Required;
use crate::launch::roll_call::census::{excuse, meeting_place};
use crate::launch::roll_call::check::{LIMIT, Launch, LaunchVerdict, handed_on, node_size};
use crate::launch::roll_call::herald::Herald;
use crate::launch::roll_call::nonce::nonce;
use crate::log::{self, messages};
use crate::namespace::STATE_FOLDER;
use crate::params::{Environment, Inputs, Problems, SettingName, Settings, keys, load};
use crate::system::{check_own_dir, secure_dir};

/// A rank in a launch that is whole.
pub enum Arrival {
    /// It has work for us.
    Ready(Box<Preparation>),
    /// It cannot take part. The others must hear of it, or they would wait for us.
    Unable {
        /// Why.
        why: Error,
        /// What is to become of the run.
        required: Required,
    },
}

/// What a rank that has work for us brings to the start.
pub struct Preparation {
    pub(crate) settings: Settings,
    pub(crate) environment: Environment,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) node_name: String,
    pub(crate) process: u32,
    pub(crate) prefix: PathBuf,
    /// Where the files of the node begin.
    pub(crate) root: PathBuf,
    pub(crate) layout: Layout,
    /// What our directories are called.
    pub(crate) address: Address,
    pub(crate) launch: Option<Launch>,
    /// Why this rank cannot take part after all; it is part of the launch.
    pub(crate) trouble: Option<Error>,
}

impl Arrival {
    /// Reads the settings and proves the launch whole. `None`: there is nothing to do for us (no
    /// pattern, or anything wrong: with one message; switched off: silently). Makes no file where
    /// there is nothing to do. Takes up to 15 s when ranks without us are among us; without a nonce
    /// in the environment that is not looked for.
    pub fn new(around: Surroundings, herald: &dyn Herald) -> Option<Self> {
        let (environment, problems) = around.environment();
        let (rank, node_name) = (around.rank, around.node_name.clone());
        let here = around.working_directory.as_deref().ok();
        let place = here.and_then(|here| meeting_place(&environment, here));
        // Of a program that calls us all ranks come.
        let by_calls = around.host.door() == Door::Calls;
        let place = place.filter(|_| around.size > 1 && !by_calls);
        let required = Required::of_environment(&around, &environment);
        let prepared = match problems.is_empty() {
            true => Preparation::new(around, environment),
            false => Err(Problems(problems).into()),
        };
        match (prepared, place) {
            (Ok(None), _) => None,
            (Ok(Some(ready)), _) if by_calls => Some(Arrival::Ready(Box::new(ready))),
            (Ok(Some(mut ready)), _) => match ready.launch_is_whole(herald) {
                Ok(whole) => whole.then(|| Arrival::Ready(Box::new(ready))),
                Err(error) => Some(Arrival::Unable { why: error, required }),
            },
            // No launch check: the others wait in their first collective.
            (Err(error), None) => Some(Arrival::Unable { why: error, required }),
            // The settings of another node may be right: its ranks wait for us.
            (Err(error), Some(place)) => {
                excuse(place, node_name, rank, error.to_string());
                required.fall_back(&error, rank == 0);
                None
            }
        }
    }
}

impl Preparation {
    fn new(around: Surroundings, environment: Environment) -> Result<Option<Self>> {
        let Surroundings { rank, size, node_name, node_root: root, process, host, .. } = around;
        let here = around
            .working_directory
            .map_err(|e| Error::io("cannot find the working directory", ".", e))?;
        let inputs = Inputs {
            environment: &environment,
            working_directory: &here,
            system_file: &around.system_file,
            program: &around.program,
        };
        let settings = load(&inputs)?;
        if !settings.get(keys::ENABLE) {
            return Ok(None);
        }
        if host.door() == Door::Files && !has_patterns(&settings) {
            if rank == 0 && !host.may_be_called() {
                log::warn(messages::NO_PATTERN, without_pattern(&settings));
            }
            return Ok(None);
        }
        let prefix = canonical(&settings.get(keys::PREFIX))?;
        check_own_dir(&prefix.join(STATE_FOLDER))?;
        // The other ranks' hosts are not known yet; mistakes in the lines can be told all the same.
        let descriptors = Descriptors::new(&settings, &vec![node_name.clone(); size])?;
        let address = address(&settings, &prefix, &environment, &root, &descriptors)?;
        let bases: Vec<PathBuf> = descriptors
            .stores
            .iter()
            .filter(|store| store.enabled && store.mkdir)
            .map(|store| store.base.clone())
            .collect();
        let control = settings.get(keys::CNTL_BASE);
        let ours = bases.iter().chain([&control]).map(PathBuf::as_path);
        let trouble = secure(&root, ours, &address).err();
        let names: Vec<String> = bases.iter().map(|base| base.display().to_string()).collect();
        let mut layout = Layout::new(&root, &control, &names, &address);
        for store in descriptors.stores.iter().filter(|store| store.group != NODE) {
            layout.declare_shared(&store.base.display().to_string());
        }
        Ok(Some(Preparation {
            settings,
            host,
            rank,
            size,
            node_name,
            process,
            prefix,
            root,
            layout,
            address,
            launch: None,
            trouble,
            environment,
        }))
    }

    pub(crate) fn required(&self) -> Required {
        let restarts = self.settings.get(keys::RESTART_REQUIRED);
        let control = restarts.then(|| self.layout.control_dir.clone());
        Required::of(self.host.clone(), self.prefix.clone(), control)
    }

    /// False: ranks are without us. One of the others has said so.
    fn launch_is_whole(&mut self, herald: &dyn Herald) -> Result<bool> {
        let variable = |name: &str| self.environment.get(name).cloned();
        let found = nonce(variable);
        let Some(nonce) = found.filter(|_| self.size > 1) else { return Ok(true) };
        let launch = Launch {
            prefix_state: self.prefix.join(STATE_FOLDER),
            // A directory that is not safely ours is not used, not even for this.
            control: self.trouble.is_none().then(|| self.layout.control_dir.clone()),
            nonce,
            host: self.node_name.clone(),
            rank: self.rank,
            size: self.size,
            node_size: node_size(variable),
            handed_on: handed_on(variable),
        };
        if let LaunchVerdict::Stop { reason, own } = launch.prove_whole(LIMIT, herald)? {
            let why = Error::named(messages::LAUNCH_INCOMPLETE, reason);
            self.required().fall_back(&why, own);
            return Ok(false);
        }
        self.launch = Some(launch);
        Ok(true)
    }

    /// Adds stores that an earlier launch of the job has used and that are configured no more: what
    /// lies in them is brought back like the rest. `named`: in the records of all nodes.
    pub(crate) fn add_former_stores(&mut self, named: &BTreeSet<&str>) {
        for name in named.iter().filter(|name| Path::new(name).is_absolute()) {
            let usable = secure(&self.root, [Path::new(name)], &self.address).is_ok();
            self.layout.add_store(&self.root, name, &self.address, usable);
        }
    }
}

/// Tells what a setting is before the session is there; `None` if nobody has set it. Local.
pub fn program_setting(around: &Surroundings, asked: &SettingName) -> Result<Option<String>> {
    let (environment, problems) = around.environment();
    if !problems.is_empty() {
        return Err(Problems(problems).into());
    }
    let inputs = Inputs {
        environment: &environment,
        working_directory: &around.here(),
        system_file: &around.system_file,
        program: &around.program,
    };
    Ok(asked.find(&load(&inputs)?))
}

fn has_patterns(settings: &Settings) -> bool {
    !settings.family(keys::CHECKPOINT_PATTERN).is_empty()
        || !settings.family(keys::OUTPUT_PATTERN).is_empty()
}

fn secure<'a>(
    root: &Path,
    bases: impl IntoIterator<Item = &'a Path>,
    address: &Address,
) -> Result<()> {
    let names = address.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    bases.into_iter().try_for_each(|base| secure_dir(&on_node(root, base), &names))
}
