//! `scr rebuild`: the second half of a scavenge, on the prefix alone (000 sections 11.10.4 to 9).

use std::process::ExitCode;

use scr_core::operations::publish_what_was_copied;

/// Arguments of `scr rebuild`.
#[derive(clap::Args)]
#[command(after_help = "\
Takes what `scr copy` has brought from the nodes to <prefix>/.scr/scavenge, rebuilds what lost \
nodes had, and publishes it with summary and index. scr scavenge does both. The exit status is \
that of scr scavenge. Example:\n
    pdsh -w node[1-4] scr copy --prefix /pfs/me/run; scr rebuild --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY")]
    prefix: Option<String>,
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    let shown = crate::progress::show("rebuild");
    let outcome = crate::load_settings(args.prefix.as_deref())
        .and_then(|(settings, environment)| publish_what_was_copied(&settings, &environment));
    drop(shown);
    crate::scavenge::exit("rebuild", outcome)
}
