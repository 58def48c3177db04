//! Which run a command asks after, and how it reaches the nodes of that.

use std::path::PathBuf;
use std::time::Duration;

use scr_core::error::Result;
use scr_core::log::messages;
use scr_core::operations::run::{Real, find};
use scr_core::operations::{Listing, Reach, read_nodes_file};
use scr_core::params::keys;

use crate::base::job::{LIMIT, asked, shell};
use crate::base::process::own_path;
use crate::base::settings::load_settings_in;
use crate::base::{progress, say};

#[derive(Default, clap::Args)]
pub struct Run {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY")]
    pub prefix: Option<String>,
    /// Nodes that are asked; SCR_NODELIST, else those of the last run by default.
    #[arg(long, value_name = "HOSTS")]
    nodes: Option<String>,
    /// Nodes that are not asked.
    #[arg(long, value_name = "HOSTS")]
    exclude: Option<String>,
    /// Seconds that a node may take; 3600 by default.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// The job's control directory, in place of SCR_CNTL_BASE, SCR_USER_NAME and SCR_JOB_ID.
    #[arg(long, value_name = "DIRECTORY")]
    cntldir: Option<PathBuf>,
}

impl Run {
    pub fn with<T>(&self, action: impl FnOnce(Reach<'_>) -> Result<T>) -> Result<T> {
        let load = |more: &[(&str, String)]| {
            let (prefix, control) = (self.prefix.as_deref(), self.cntldir.as_deref());
            load_settings_in(prefix, control, more)
        };
        let (mut settings, mut environment) = load(&[])?;
        if settings.get_optional(keys::JOB_ID).is_none() {
            // Outside the job the nodes file tells which one it was.
            let told = read_nodes_file(&settings.get(keys::PREFIX)).ok().flatten();
            if let Some(job) = told.map(|nodes| nodes.job).filter(|job| !job.is_empty()) {
                (settings, environment) = load(&[("SCR_JOB_ID", job)])?;
            }
        }
        let shell = shell(&settings, &environment, &*find(&environment, None));
        action(Reach {
            settings: &settings,
            environment: &environment,
            nodes: asked(&settings, self.nodes.as_deref(), self.exclude.as_deref())?,
            shell: &shell,
            commands: &Real,
            program: &own_path()?,
            limit: self.timeout.map_or(LIMIT, Duration::from_secs),
        })
    }

    /// Does `action` with all files of the run; says which nodes could not be asked.
    pub fn with_files<T>(
        &self,
        tool: &'static str,
        unsealed: bool,
        action: impl FnOnce(&Reach<'_>, &Listing) -> Result<T>,
    ) -> Result<T> {
        self.with(|reach| {
            let shown = progress::show(tool);
            let listing = Listing::of(&reach, unsealed);
            drop(shown);
            let listing = listing?;
            for (node, why) in &listing.silent {
                let text = format!("{node} cannot be asked: {why}");
                say::tell(tool, messages::NODE_SILENT, &text);
            }
            let left_out = listing.left_out.iter();
            left_out.for_each(|what| say::tell(tool, messages::LEFT_OUT, what));
            action(&reach, &listing)
        })
    }
}
