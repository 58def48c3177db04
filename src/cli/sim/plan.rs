//! What a cluster is to be, as `scr sim start` hands it to its keeper, and the keeper to its nodes.

use std::path::{Path, PathBuf};

use scr_core::error::{Error, Result};

use super::places;
use crate::base::process::own_path;

#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// Nodes that programs run on
    #[arg(value_name = "NODES")]
    pub nodes: usize,
    /// Further nodes, used when one of the others is dead
    #[arg(long, default_value_t = 0, value_name = "NODES")]
    pub spare: usize,
    /// Ranks that one node takes when mpirun is called by hand
    #[arg(long, default_value_t = 2, value_name = "RANKS")]
    pub slots: usize,
    /// Size of a node's /dev/shm, as in "512m" (default: half of the memory)
    #[arg(long, value_name = "SIZE")]
    pub shm: Option<String>,
    /// A directory below /tmp or /dev/shm that all nodes share, beside that of the start, that of
    /// this installation, and the home (all others are private there)
    #[arg(long, value_name = "DIR")]
    pub share: Vec<PathBuf>,
    /// End the cluster when this process ends
    #[arg(long, value_name = "PID")]
    pub owner: Option<u32>,
}

impl Plan {
    /// Makes the plan of a cluster that is started here: its nodes see this directory, the home,
    /// and the installation of this command, also where these are below a directory of their own.
    pub fn started_here(&self) -> Result<Plan> {
        let whole = |path: &PathBuf| {
            std::path::absolute(path).map_err(|e| Error::io("cannot find", path.as_path(), e))
        };
        let named = self.share.iter().map(whole).collect::<Result<Vec<_>>>()?;
        let own = own_path()?;
        let found: Vec<PathBuf> = [
            std::env::current_dir().ok(),
            std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir()),
            own.parent().and_then(Path::parent).map(Path::to_path_buf),
        ]
        .into_iter()
        .flatten()
        .collect();
        Ok(Plan { share: places::shared(&named, &found), ..self.clone() })
    }

    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec![self.nodes.to_string()];
        let mut option = |name: &str, value: String| words.push(format!("--{name}={value}"));
        option("spare", self.spare.to_string());
        option("slots", self.slots.to_string());
        if let Some(size) = &self.shm {
            option("shm", size.clone());
        }
        for dir in &self.share {
            option("share", dir.display().to_string());
        }
        words
    }
}
