//! `scr copy`: what a node does of a scavenge (manual 1.1, section 11.10.3).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::operations::copy_this_node;
use scr_core::system::hostname;
use serde_json::json;

use crate::base::settings::load_settings_in;
use crate::base::{progress, say};

#[derive(clap::Args)]
#[command(after_help = "\
scr scavenge runs it on each node. It copies the records and those datasets of this node's cache \
that are not on the prefix to <prefix>/.scr/scavenge, and prints \"copied\", or \"nothing\" if the \
node has no cache of the job. Needs the environment of the run: SCR_PREFIX, SCR_CONF_FILE and, \
unless the resource manager tells it, SCR_JOB_ID.

The options of the manuals' scr_copy are understood; which nodes are down (HOST) and --partner \
change nothing: copies that a node keeps for its partners always go along.

The exit status is 0; 1 if something could not be copied or a live run uses the node; 2 if an \
argument is wrong. Example:\n
    pdsh -w node[1-4] scr copy --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// The name of this node.
    #[arg(long, value_name = "HOST")]
    node: Option<String>,
    /// Only the dataset with this id.
    #[arg(long, value_name = "ID")]
    id: Option<u64>,
    /// The job's control directory, in place of SCR_CNTL_BASE, SCR_USER_NAME and SCR_JOB_ID.
    #[arg(long, value_name = "DIRECTORY")]
    cntldir: Option<PathBuf>,
    /// Bytes that are copied at a time, in place of SCR_FILE_BUF_SIZE.
    #[arg(long, value_name = "BYTES")]
    buf: Option<u64>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Compare checksums, as is always done when the copies are published.
    #[arg(long, hide = true)]
    crc: bool,
    /// Copy what the node keeps for its partners.
    #[arg(long, hide = true)]
    partner: bool,
    /// Nodes that are down.
    #[arg(value_name = "HOST", hide = true)]
    down: Vec<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let node = args.node.clone().unwrap_or_else(hostname);
    let shown = progress::show("copy");
    let buffer = args.buf.map(|bytes| ("SCR_FILE_BUF_SIZE", bytes.to_string()));
    let buffer: Vec<(&str, String)> = buffer.into_iter().collect();
    let loaded = load_settings_in(args.prefix.as_deref(), args.cntldir.as_deref(), &buffer);
    let answer = loaded.and_then(|(settings, environment)| {
        copy_this_node(&settings, &environment, &node, args.id)
    });
    drop(shown);
    say::finish(
        "copy",
        answer.map(|word| match args.json {
            true => format!("{:#}\n", json!({ "node": node, "state": word })),
            false => format!("{word}\n"),
        }),
    )
}
