//! `scr env`: what is known of the job that this is called in (`scr_env` of manual 1.1, section
//! 11.2).

use std::process::ExitCode;

use scr_core::error::Result;
use scr_core::launch::JobPlaces;
use scr_core::operations::HostList;
use scr_core::operations::run::{Real, find, is_same_host};
use scr_core::params::keys;
use scr_core::system::unix_seconds;
use serde_json::{Map, Value};

use crate::base::job::hosts;
use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("question"),
    after_help = "\
Without a question all answers are printed, with their names. The exit status is 0, 1 if the \
settings are wrong or the resource manager does not answer, 2 if an option is wrong. Example:\n
    scr hosts --count \"$(scr env --nodes)\""
)]
pub struct Args {
    /// Print the user.
    #[arg(long, group = "question")]
    user: bool,
    /// Print the job's id, as in the names of its directories.
    #[arg(long, alias = "jobid", group = "question")]
    job: bool,
    /// Print the nodes of the allocation.
    #[arg(long, group = "question")]
    nodes: bool,
    /// Print the nodes that the resource manager knows to be down.
    #[arg(long, group = "question")]
    down: bool,
    /// Print when the allocation ends, in seconds since 1970; nothing if nobody knows.
    #[arg(long, alias = "endtime", group = "question")]
    end_time: bool,
    /// Print the prefix directory.
    #[arg(long, group = "question")]
    prefix: bool,
    /// Print the resource manager.
    #[arg(long, group = "question")]
    manager: bool,
    /// All answers as JSON.
    #[arg(long, conflicts_with = "question")]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    say::finish("env", answer(args))
}

fn answer(args: &Args) -> Result<String> {
    let (settings, environment) = load_settings(None)?;
    let places = JobPlaces::new(&settings, &environment)?;
    let manager = find(&environment, None);
    let all = hosts(&settings, &*manager, None)?;
    let end = || {
        let told = settings.get_optional(keys::END_TIME);
        let end = told.or_else(|| manager.end_time(&Real, unix_seconds()));
        end.map(|time| time.to_string()).unwrap_or_default()
    };
    let down = || {
        let known = manager.down(&Real, &all);
        let mut down: Vec<String> = all.iter().map(|host| host.name.clone()).collect();
        down.retain(|name| known.iter().any(|one| is_same_host(one, name)));
        HostList::of(down).compress()
    };
    let rows: [(&str, bool, &dyn Fn() -> String); 7] = [
        ("user", args.user, &|| places.address.user.clone()),
        ("job", args.job, &|| places.address.job.clone()),
        ("nodes", args.nodes, &|| {
            HostList::of(all.iter().map(|host| host.name.clone())).compress()
        }),
        ("down", args.down, &down),
        ("end_time", args.end_time, &end),
        ("prefix", args.prefix, &|| places.prefix.display().to_string()),
        ("manager", args.manager, &|| manager.name().to_owned()),
    ];
    if let Some((_, _, value)) = rows.iter().find(|(_, asked, _)| *asked) {
        return Ok(format!("{}\n", value()));
    }
    if args.json {
        let pair = |(name, _, value): &(&str, bool, &dyn Fn() -> String)| {
            ((*name).to_owned(), Value::String(value()))
        };
        let object: Map<String, Value> = rows.iter().map(pair).collect();
        return Ok(format!("{:#}\n", Value::Object(object)));
    }
    Ok(rows.iter().map(|(name, _, value)| format!("{name} {}\n", value())).collect())
}
