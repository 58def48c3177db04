//! `scr cntl-dir`: where a job has its directories on a node (manual 1.1, section 11.2.4).

use std::process::ExitCode;

use scr_core::cache::job_dir;
use scr_core::launch::JobPlaces;

use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(after_help = "\
Each prefix has a directory of its own in it. Needs the environment of the run: SCR_PREFIX, \
SCR_CONF_FILE and, unless the resource manager tells it, SCR_JOB_ID.

The exit status is 0, or 1 if the settings are wrong. Example:\n
    ls \"$(scr cntl-dir --prefix /pfs/me/run)\"")]
pub struct Args {
    /// Print the cache directories instead, one a line.
    #[arg(short, long)]
    cache: bool,
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let places = load_settings(args.prefix.as_deref())
        .and_then(|(settings, environment)| JobPlaces::new(&settings, &environment));
    let text = places.map(|places| match args.cache {
        true => {
            let stores = places.layout.stores.iter();
            stores.map(|store| format!("{}\n", job_dir(&store.cache_dir).display())).collect()
        }
        false => format!("{}\n", job_dir(&places.layout.control_dir).display()),
    });
    say::finish("cntl-dir", text)
}
