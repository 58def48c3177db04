//! `scr copy`: what a node does of a scavenge (000 section 11.10.3).

use std::process::ExitCode;

use scr_core::operations::copy_this_node;
use scr_core::system::hostname;

/// Arguments of `scr copy`.
#[derive(clap::Args)]
#[command(after_help = "\
scr scavenge runs it on each node. It copies the records and those datasets of this node's cache \
that are not on the prefix to <prefix>/.scr/scavenge, and prints \"copied\", or \"nothing\" if the \
node has no cache of the job. Needs the environment of the run: SCR_PREFIX, SCR_CONF_FILE and, \
unless the resource manager tells it, SCR_JOB_ID. The exit status is 0, or 1 if something could \
not be copied or a live run uses the node. Example:\n
    pdsh -w node[1-4] scr copy --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// The name of this node.
    #[arg(long, value_name = "HOST")]
    node: Option<String>,
}

/// Runs the tool; fails if something could not be copied, or a live run uses the node.
pub fn run(args: &Args) -> ExitCode {
    let node = args.node.clone().unwrap_or_else(hostname);
    let shown = crate::progress::show("copy");
    let answer = crate::load_settings(args.prefix.as_deref())
        .and_then(|(settings, environment)| copy_this_node(&settings, &environment, &node));
    drop(shown);
    crate::finish("copy", answer.map(|word| format!("{word}\n")))
}
