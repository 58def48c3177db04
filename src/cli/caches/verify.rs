//! `scr verify`: whether what caches and prefix hold is what was sealed; repair of caches.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use indicatif::HumanBytes;
use scr_core::error::{Error, Result};
use scr_core::operations::{
    Caches, Condition, DamagedFile, Depth, Health, Prospect, Repair, VerifiedDataset,
    VerifiedPrefix, VerifyCaches, find_dataset, verify_prefix,
};
use scr_core::params::keys;
use serde_json::{Value, json};

use super::reach::Run;
use crate::base::{progress, say};
use crate::prefix::index::{name, verified_in_json, verified_in_words};

#[derive(clap::Args)]
#[command(after_help = "\
Looks at all sealed datasets, or those that are named by id or name: on each node that the cache \
has what its records say, redundancy files included, and on the prefix as scr index verify does. \
Of each damaged file it tells dataset, node, rank and name, how many ranks of its redundancy set \
have damage, and how many the set survives. Nothing is changed without --repair, and a run that is \
under way does not notice: what it changes meanwhile is no damage.

--repair rebuilds damaged files of caches from those of their redundancy sets (PARTNER, XOR, RS), \
which come to <prefix>/.scr/outside for that, and tells the bytes that were wrong. A file gets its \
place when it is what its record says; files that are right are not touched. It is refused while a \
run uses the prefix or a node. Nodes are reached as scr run reaches them (SCR_REMOTE_SHELL).

Fit for cron: with --quiet nothing is printed if all is right. The exit status says how it is \
afterwards: 0 all is right; 1 something is damaged, and its redundancy, or the next start, can \
bring it back; 2 it cannot be found out (a node does not answer, no run has left anything), or an \
argument is wrong; 3 something is lost: no redundancy of the caches brings it back and the prefix \
has it not, or it is damaged on the prefix and the caches have it not. Example:\n
    scr verify --prefix /pfs/me/run --repair --quiet || mail -s 'checkpoint damaged' me")]
pub struct Args {
    #[command(flatten)]
    run: Run,
    /// Datasets; all by default.
    #[arg(value_name = "DATASET")]
    datasets: Vec<String>,
    /// Rebuild damaged files of caches.
    #[arg(long)]
    repair: bool,
    /// Presence and size only: no file is read.
    #[arg(long)]
    sizes: bool,
    /// Look at one of both.
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    /// Print nothing if all is right.
    #[arg(short, long)]
    quiet: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Caches,
    Prefix,
}

/// How it is, and the exit status that says so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Right,
    Damaged,
    Unknown,
    Lost,
}

pub fn run(args: &Args) -> ExitCode {
    let shown = progress::show("verify");
    let found = look(args);
    drop(shown);
    let (caches, prefix, path) = match found {
        Ok(found) => found,
        Err(error) => return say::fail("verify", &error, Outcome::Unknown.status()),
    };
    let outcome = outcome(caches.as_ref(), prefix.as_ref());
    let is_repaired = caches.as_ref().is_some_and(|caches| !caches.repairs.is_empty());
    let text = match args.json {
        true => format!("{:#}\n", in_json(outcome, caches.as_ref(), prefix.as_ref())),
        false if args.quiet && outcome == Outcome::Right && !is_repaired => String::new(),
        false => in_words(caches.as_ref(), prefix.as_ref(), &path),
    };
    let printed = say::print(&text);
    match outcome {
        Outcome::Right => printed,
        other => ExitCode::from(other.status()),
    }
}

type Found = (Option<Caches>, Option<VerifiedPrefix>, PathBuf);

fn look(args: &Args) -> Result<Found> {
    if args.repair && args.sizes {
        return Err(Error::Refused("--repair has to read the files: leave --sizes out".into()));
    }
    args.run.with(|reach| {
        let path = reach.settings.get(keys::PREFIX);
        let wanted = &args.datasets;
        let prefix = match args.only {
            Some(Only::Caches) => None,
            _ => {
                let listed = |word: &&String| find_dataset(&path, word).is_ok();
                let known: Vec<String> = wanted.iter().filter(listed).cloned().collect();
                match known.is_empty() && !wanted.is_empty() {
                    true => None,
                    false => Some(verify_prefix(&path, &known, !args.sizes)?),
                }
            }
        };
        let caches = match args.only {
            Some(Only::Prefix) => None,
            _ => {
                let depth = if args.sizes { Depth::Sizes } else { Depth::Contents };
                Some(VerifyCaches { reach, depth, repair: args.repair, wanted }.run()?)
            }
        };
        let in_prefix = |word: &str| {
            prefix
                .iter()
                .flat_map(|one| &one.datasets)
                .any(|one| one.entry.id.to_string() == word || name(&one.entry) == word)
        };
        let in_caches = |word: &str| {
            caches.iter().flat_map(|one| &one.judged.datasets).any(|one| is_called(one, word))
        };
        match wanted.iter().find(|word| !in_prefix(word) && !in_caches(word)) {
            Some(word) => Err(Error::Missing(format!(
                "neither the caches that could be asked nor the prefix have a dataset {word:?}"
            ))),
            None => Ok((caches, prefix, path)),
        }
    })
}

fn is_called(one: &Health, word: &str) -> bool {
    one.id.to_string() == word || one.key.name() == word
}

impl Outcome {
    fn status(self) -> u8 {
        match self {
            Outcome::Right => 0,
            Outcome::Damaged => 1,
            Outcome::Unknown => 2,
            Outcome::Lost => 3,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Outcome::Right => "right",
            Outcome::Damaged => "damaged",
            Outcome::Unknown => "unknown",
            Outcome::Lost => "lost",
        }
    }
}

fn outcome(caches: Option<&Caches>, prefix: Option<&VerifiedPrefix>) -> Outcome {
    let datasets = || prefix.iter().flat_map(|found| &found.datasets);
    let mut wrong = datasets().filter(|one| matches!(one.condition, Condition::Wrong(_)));
    let in_cache = |one: &VerifiedDataset| caches.is_some_and(|found| found.can_give(one.entry.id));
    let prefix_wrong = wrong.clone().next().is_some() || prefix.is_some_and(|one| one.no_index);
    let prefix_lost = wrong.any(|one| !in_cache(one));
    let nothing = prefix.is_none_or(|one| one.datasets.is_empty() && one.not_listed.is_empty())
        && caches.is_none_or(|found| found.nodes.is_empty());
    if prefix_lost || caches.is_some_and(Caches::has_lost) {
        Outcome::Lost
    } else if prefix_wrong || caches.is_some_and(Caches::has_damage) {
        Outcome::Damaged
    } else if nothing || caches.is_some_and(Caches::is_incomplete) {
        Outcome::Unknown
    } else {
        Outcome::Right
    }
}

fn in_words(caches: Option<&Caches>, prefix: Option<&VerifiedPrefix>, path: &Path) -> String {
    let mut text = String::new();
    let mut tell = |line: String| text += &format!("{line}\n");
    if let Some(found) = caches {
        for (node, why) in &found.silent {
            tell(format!("cache: {node} cannot be asked: {why}"));
        }
        let about = found.damaged.iter().chain(&found.left_out);
        about.for_each(|(node, what)| tell(format!("cache: {node}: {what}")));
        found.repairs.iter().for_each(|one| tell(format!("cache: {}", repair_in_words(one))));
        for one in &found.judged.datasets {
            tell(format!("cache: {}", health_in_words(one, found)));
            one.troubles
                .iter()
                .for_each(|trouble| tell(format!("    {}", trouble_in_words(trouble))));
            if !one.absent.is_empty() {
                let ranks: Vec<String> = one.absent.iter().map(ToString::to_string).collect();
                tell(format!("    no node that answers has files of rank {}", ranks.join(", ")));
            }
        }
        for (id, key, why) in found.judged.unsealed.iter().filter(|(id, ..)| *id > 0) {
            tell(format!(
                "cache: {} (dataset {id}): not complete, not looked at: {why}",
                key.name()
            ));
        }
        if found.nodes.is_empty() {
            tell("cache: no node has a cache of this run".to_owned());
        }
    }
    let lines = prefix.map(|found| verified_in_words(found, path)).unwrap_or_default();
    for line in lines.lines() {
        let start = if line.starts_with(' ') { "" } else { "prefix: " };
        tell(format!("{start}{line}"));
    }
    text
}

fn health_in_words(one: &Health, found: &Caches) -> String {
    let title = format!("{} (dataset {}, {})", one.key.name(), one.id, one.scheme);
    let (files, bytes) = (one.files, HumanBytes(one.bytes));
    let looked = format!("{files} files, {bytes}, nodes: {}", found.nodes.len());
    let elsewhere = match found.on_prefix.contains(&one.id) {
        true => "; the prefix has it",
        false => "",
    };
    match &one.prospect {
        Prospect::Right => format!("{title}: right ({looked})"),
        Prospect::Repairable => format!("{title}: damaged, can be rebuilt ({looked})"),
        Prospect::Unprotected => format!(
            "{title}: all files are right, too many redundancy files are not: the next start makes \
             them anew ({looked})"
        ),
        Prospect::Lost(why) => format!("{title}: lost: {why} ({looked}){elsewhere}"),
    }
}

fn trouble_in_words(one: &DamagedFile) -> String {
    let DamagedFile { rank, node, fault, set, losses, survives, .. } = one;
    let of = match (fault.redundancy, fault.part) {
        (true, _) => "redundancy file ",
        (_, true) => "its part of ",
        _ => "",
    };
    let set = match set.len() {
        0 | 1 => "nothing protects it".to_owned(),
        members => {
            format!("{losses} of {members} ranks of its set have damage, it survives {survives}")
        }
    };
    format!("{node}, rank {rank}: {of}{} {}; {set}", fault.name, fault.sentence())
}

fn repair_in_words(one: &Repair) -> String {
    match one {
        Repair::Put(id, node, put) => {
            let bytes = |(begin, end): &(u64, u64)| format!("{begin}-{}", end.saturating_sub(1));
            let ranges: Vec<String> = put.ranges.iter().map(bytes).collect();
            let wrong = match ranges.is_empty() {
                true => String::new(),
                false => format!("; wrong were the bytes {}", ranges.join(", ")),
            };
            format!("repaired: dataset {id}, {node}, rank {}: {}{wrong}", put.rank, put.name)
        }
        Repair::Left(id, node, left) => format!(
            "not repaired: dataset {id}, {node}, rank {}: {}: {}",
            left.rank, left.name, left.why
        ),
        Repair::Failed(id, why) => format!("not repaired: dataset {id}: {why}"),
    }
}

fn in_json(outcome: Outcome, caches: Option<&Caches>, prefix: Option<&VerifiedPrefix>) -> Value {
    json!({
        "status": outcome.word(),
        "caches": caches.map(caches_in_json),
        "prefix": prefix.map(verified_in_json),
    })
}

fn caches_in_json(found: &Caches) -> Value {
    let pairs = |of: &[(String, String)]| -> Vec<Value> {
        of.iter().map(|(node, what)| json!({ "node": node, "reason": what })).collect()
    };
    let dataset = |one: &Health| {
        let (condition, reason) = match &one.prospect {
            Prospect::Right => ("right", None),
            Prospect::Repairable => ("repairable", None),
            Prospect::Unprotected => ("unprotected", None),
            Prospect::Lost(why) => ("lost", Some(why)),
        };
        json!({
            "id": one.id,
            "name": one.key.name(),
            "scheme": one.scheme,
            "condition": condition,
            "reason": reason,
            "files": one.files,
            "bytes": one.bytes,
            "absent_ranks": one.absent,
            "on_prefix": found.on_prefix.contains(&one.id),
            "damage": one.troubles.iter().map(trouble_in_json).collect::<Vec<_>>(),
        })
    };
    let unsealed = found.judged.unsealed.iter().filter(|(id, ..)| *id > 0);
    let unsealed =
        unsealed.map(|(id, key, why)| json!({ "id": id, "name": key.name(), "reason": why }));
    json!({
        "nodes": found.nodes,
        "silent": pairs(&found.silent),
        "damaged_records": pairs(&found.damaged),
        "datasets": found.judged.datasets.iter().map(dataset).collect::<Vec<_>>(),
        "not_complete": unsealed.collect::<Vec<_>>(),
        "repairs": found.repairs.iter().map(repair_in_json).collect::<Vec<_>>(),
    })
}

fn trouble_in_json(one: &DamagedFile) -> Value {
    json!({
        "node": one.node,
        "rank": one.rank,
        "file": one.fault.name,
        "redundancy_file": one.fault.redundancy,
        "part": one.fault.part,
        "what": one.fault.sentence(),
        "set": one.set,
        "losses_in_set": one.losses,
        "set_survives": one.survives,
        "repairable": one.repairable,
    })
}

fn repair_in_json(one: &Repair) -> Value {
    match one {
        Repair::Put(id, node, put) => json!({
            "id": id,
            "node": node,
            "rank": put.rank,
            "file": put.name,
            "repaired": true,
            "bytes": put.ranges.iter().map(|(begin, end)| [begin, end]).collect::<Vec<_>>(),
        }),
        Repair::Left(id, node, left) => json!({
            "id": id,
            "node": node,
            "rank": left.rank,
            "file": left.name,
            "repaired": false,
            "reason": left.why,
        }),
        Repair::Failed(id, why) => json!({ "id": id, "repaired": false, "reason": why }),
    }
}
