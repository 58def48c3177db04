//! `scr hosts`: sums of lists of hosts (`scr_glob_hosts` of manual 1.1, section 11.2.1).

use std::process::ExitCode;

use scr_core::error::{Error, Result};
use scr_core::operations::HostList;
use serde_json::{Value, json};

use crate::base::say;

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("question").required(true),
    after_help = "\
Two lists are given as two words, or as one with a colon between them. With --json a list is \
printed as a list of names. The exit status is 0, 1 if a list is none or has no such host, 2 if an \
option is wrong. Examples:\n
    scr hosts --nth 3 'atlas[3,5-7,9-11]'                        prints atlas6
    scr hosts --minus 'atlas[3,5-7,9-11]' 'atlas[5,7,20]'        prints atlas[3,6,9-11]"
)]
pub struct Args {
    /// Print how many hosts the list has.
    #[arg(long, group = "question")]
    count: bool,
    /// Print the N-th host, counted from 1.
    #[arg(long, value_name = "N", group = "question")]
    nth: Option<usize>,
    /// Print the first list without the hosts of the second.
    #[arg(long, group = "question")]
    minus: bool,
    /// Print the hosts that are in both lists.
    #[arg(long, alias = "intersect", group = "question")]
    intersection: bool,
    /// Print each host on a line of its own.
    #[arg(long, group = "question")]
    expand: bool,
    /// Print the hosts as one compressed list.
    #[arg(long, group = "question")]
    compress: bool,
    /// As JSON: a number, a name, or a list of names.
    #[arg(long)]
    json: bool,
    /// Lists of hosts.
    #[arg(required = true, value_name = "HOSTS")]
    hosts: Vec<String>,
}

pub fn run(args: &Args) -> ExitCode {
    say::finish("hosts", answer(args))
}

fn answer(args: &Args) -> Result<String> {
    if args.minus || args.intersection {
        let (one, other) = two_lists(&args.hosts)?;
        let rest = if args.minus { one.minus(&other) } else { one.intersection(&other) };
        return Ok(match args.json {
            true => line(&json!(rest.hosts())),
            false => format!("{}\n", rest.compress()),
        });
    }
    let list = HostList::expand(&args.hosts.join(","))?;
    let hosts = list.hosts();
    Ok(match args.nth {
        Some(nth) => {
            let host = nth.checked_sub(1).and_then(|at| hosts.get(at));
            let host = host.ok_or_else(|| {
                Error::Missing(format!("the list has {} hosts, none is number {nth}", hosts.len()))
            })?;
            if args.json { line(&json!(host)) } else { format!("{host}\n") }
        }
        None if args.count => format!("{}\n", hosts.len()),
        None if args.json => line(&json!(hosts)),
        None if args.expand => hosts.iter().map(|host| format!("{host}\n")).collect(),
        None => format!("{}\n", list.compress()),
    })
}

fn line(value: &Value) -> String {
    format!("{value:#}\n")
}

fn two_lists(words: &[String]) -> Result<(HostList, HostList)> {
    let parts: Vec<&str> =
        words.iter().flat_map(|word| word.split(':')).filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [one, other] => Ok((HostList::expand(one)?, HostList::expand(other)?)),
        _ => Err(Error::Refused(format!("two lists are needed, not {}", parts.len()))),
    }
}
