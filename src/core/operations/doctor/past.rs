//! What the last run has recorded: what it protected and what not, how it ended, what it has left.

use std::path::Path;

use super::finding::{Finding, Level, shell};
use crate::log::messages;
use crate::machine::Reason;
use crate::operations::{Life, PrefixStatus};
use crate::records::{FINALIZE_CALLED, RunPassed, RunRecord, Timestamp, Zone};
use crate::system::unix_seconds;

/// Looks at the last run on `prefix`; times are those of `zone`.
pub fn look_at_past(prefix: &Path, status: &PrefixStatus, zone: &Zone) -> Vec<Finding> {
    let quoted = shell(prefix.display());
    let mut findings = Vec::new();
    for what in &status.unreadable {
        let cure = match what.id == messages::SYSTEM_REFUSED {
            true => format!("ls -la {}", shell(prefix.join(".scr").display())),
            false => format!("scr index verify --prefix {quoted}"),
        };
        findings.push(Finding::fault("record-unreadable", &what.text, cure));
    }
    if let Some(refusal) = &status.refused {
        let time = zone.write(Timestamp::from_unix_seconds(refusal.time));
        let what = format!("a launch at {time} went without SCR: {}", refusal.why);
        findings.push(Finding::fault("refused", what, "scr doctor -- mpirun -n 4 ./app"));
    }
    let halts = status.halt.due(unix_seconds()).filter(|reason| *reason != FINALIZE_CALLED);
    if let Some(reason) = halts {
        let what = format!("a run would halt at once: a halt condition holds ({reason})");
        let cure = format!("scr halt --unset all {quoted}");
        findings.push(Finding::fault("halt-due", what, cure));
    }
    if let Some(holder) = &status.holder {
        let what = format!("the prefix is in use ({holder}): a second run on it goes without SCR");
        let cure = format!("scr status --prefix {quoted}");
        findings.push(Finding::advice("prefix-in-use", what, cure));
    }
    if !status.only_in_caches.is_empty() {
        let names: Vec<&str> = status.only_in_caches.iter().map(|(_, name)| &**name).collect();
        let what = format!(
            "only the nodes' caches of a run that is over have {}: start it again on those nodes, \
             or save the newest",
            names.join(", ")
        );
        let cure = format!("scr scavenge --prefix {quoted}");
        findings.push(Finding::fault("unsaved", what, cure));
    }
    if let Some(run) = &status.run {
        findings.extend(look_at_run(run, status.life, &quoted));
    }
    findings
}

fn look_at_run(run: &RunRecord, life: Life, prefix: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let show = format!("scr status --prefix {prefix}");
    match run.unmatched.as_deref() {
        Some("") => {
            let what = "the last run wrote no file below the prefix: SCR_PREFIX is not where its \
                        checkpoints go";
            let cure = "export SCR_PREFIX=/where/the/checkpoints/go";
            findings.push(Finding::fault("nothing-written", what, cure));
        }
        Some(nearest) => {
            let what = format!(
                "no file that the last run wrote matched a pattern. Nearest: {nearest}. In force: \
                 {}",
                run.patterns
            );
            let cure = format!("${{EDITOR:-vi}} {prefix}/.scrconf");
            findings.push(Finding::fault("nothing-matched", what, cure));
        }
        None if run.datasets.is_empty() && life == Life::Ended => {
            let what = "files of the last run matched a pattern, but no checkpoint was sealed";
            findings.push(Finding::fault("nothing-sealed", what, &show));
        }
        None => {}
    }
    if run.nodes.len() == 1 && run.ranks > 1 && !is_single(run) {
        let what = "all ranks of the last run were on one node: its checkpoints do not survive the \
                    loss of that node";
        let cure = "scr config COPY_TYPE";
        findings.push(Finding::advice("one-node", what, cure));
    } else {
        for warning in &run.warnings {
            findings.push(Finding::advice("run-warned", warning, &show));
        }
    }
    if is_single(run) && run.nodes.len() > 1 {
        let what = "checkpoints of the last run do not survive the loss of a node: SCR_COPY_TYPE \
                    is SINGLE";
        findings.push(Finding::advice("no-redundancy", what, "export SCR_COPY_TYPE=XOR"));
    }
    for (reason, passed) in &run.passed {
        findings.push(went_past(reason, passed, prefix));
    }
    for (id, dataset) in run.datasets.iter().filter(|(_, one)| !one.on_prefix) {
        let Some(why) = &dataset.flush.failed else { continue };
        let what = format!("the flush of {} (dataset {id}) failed: {why}", dataset.name);
        findings.push(Finding::fault("flush-failed", what, format!("df -h {prefix}; {show}")));
    }
    if life == Life::Died {
        let what = "the last run is gone and has not said why: it was killed, or its first node \
                    was lost. Started again, it goes on from the newest checkpoint";
        findings.push(Finding::advice("died", what, show));
    }
    let own = env!("CARGO_PKG_VERSION");
    if run.version != own {
        let what = format!("the last run had SCR {}, this command is of {own}", run.version);
        findings.push(Finding::advice("other-version", what, "command -v scr; echo $LD_PRELOAD"));
    }
    findings
}

fn is_single(run: &RunRecord) -> bool {
    let is_single = |clause: &String| clause.starts_with("SINGLE ");
    !run.protection.is_empty() && run.protection.iter().all(is_single)
}

fn went_past(words: &str, passed: &RunPassed, prefix: &str) -> Finding {
    let reason = Reason::ALL.into_iter().find(|reason| reason.text() == words);
    let (level, cure) = reason.map_or_else(
        || (Level::Advice, format!("scr status --prefix {prefix}")),
        |reason| cure_of(reason, prefix),
    );
    let RunPassed { files, bytes, example } = passed;
    let as_one = if example.is_empty() { String::new() } else { format!(" (as {example})") };
    let help = match reason {
        Some(Reason::Learned(why)) if !why.help().is_empty() => format!(". {}", why.help()),
        _ => String::new(),
    };
    let what =
        format!("{files} files{as_one}, {bytes} bytes, went straight to the prefix: {words}{help}");
    Finding { id: "straight-to-prefix", level, what, cure }
}

fn cure_of(reason: Reason, prefix: &str) -> (Level, String) {
    let meaning = |part: &str| format!("scr config {part}");
    let status = || format!("scr status --prefix {prefix}");
    match reason {
        Reason::NoRoom | Reason::WaitsForFlush => (Level::Fault, meaning("CACHE")),
        Reason::StoreFailed | Reason::FallenBack => (Level::Fault, "scr check-node".to_owned()),
        Reason::NoAgreement => (Level::Fault, "scr explain SCR-3005".to_owned()),
        Reason::Unsealable => (Level::Fault, status()),
        Reason::Watched => (Level::Advice, meaning("LEARN")),
        Reason::NeverQuiet => (Level::Advice, meaning("IGNORE")),
        _ => (Level::Advice, status()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Unread;
    use crate::records::{HaltFile, Refusal, RunDataset, RunFlush, RunNode};

    fn found(run: RunRecord, life: Life) -> Vec<(&'static str, Level)> {
        let status = PrefixStatus { run: Some(run), life, ..PrefixStatus::default() };
        look_at_past(Path::new("/p"), &status, &Zone::default())
            .iter()
            .map(|one| (one.id, one.level))
            .collect()
    }

    fn run() -> RunRecord {
        let node = || RunNode { ranks: 2, ..RunNode::default() };
        RunRecord {
            version: env!("CARGO_PKG_VERSION").into(),
            ranks: 4,
            protection: vec!["XOR in /dev/shm, failure group NODE: every checkpoint".into()],
            nodes: [("n1".to_owned(), node()), ("n2".to_owned(), node())].into(),
            datasets: [(1, RunDataset::default())].into(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn a_run_that_was_well_has_no_findings() {
        assert_eq!(found(run(), Life::Ended), []);
    }

    #[test]
    fn each_fault_of_a_run_is_found() {
        let flush = RunFlush { failed: Some("no space".into()), ..RunFlush::default() };
        let failed = RunDataset { flush, ..RunDataset::default() };
        let passed = |reason: Reason| {
            let one = RunPassed { files: 1, ..RunPassed::default() };
            RunRecord { passed: [(reason.text().to_owned(), one)].into(), ..run() }
        };
        let one_node = [("n1".to_owned(), RunNode::default())].into();
        for (record, life, id, level) in [
            (
                RunRecord { unmatched: Some(String::new()), ..run() },
                Life::Ended,
                "nothing-written",
                Level::Fault,
            ),
            (
                RunRecord { unmatched: Some("a".into()), ..run() },
                Life::Ended,
                "nothing-matched",
                Level::Fault,
            ),
            (
                RunRecord { datasets: [].into(), ..run() },
                Life::Ended,
                "nothing-sealed",
                Level::Fault,
            ),
            (RunRecord { nodes: one_node, ..run() }, Life::Ended, "one-node", Level::Advice),
            (
                RunRecord { protection: vec!["SINGLE in /x".into()], ..run() },
                Life::Ended,
                "no-redundancy",
                Level::Advice,
            ),
            (
                RunRecord { datasets: [(1, failed)].into(), ..run() },
                Life::Ended,
                "flush-failed",
                Level::Fault,
            ),
            (passed(Reason::NoRoom), Life::Runs, "straight-to-prefix", Level::Fault),
            (passed(Reason::NeverQuiet), Life::Runs, "straight-to-prefix", Level::Advice),
            (run(), Life::Died, "died", Level::Advice),
            (
                RunRecord { version: "0".into(), ..run() },
                Life::Ended,
                "other-version",
                Level::Advice,
            ),
            (
                RunRecord { warnings: vec!["w".into()], ..run() },
                Life::Ended,
                "run-warned",
                Level::Advice,
            ),
        ] {
            assert_eq!(found(record, life), [(id, level)]);
        }
    }

    #[test]
    fn what_waits_for_a_person_is_found() {
        let status = PrefixStatus {
            halt: HaltFile { exit_reason: Some("maintenance".into()), ..HaltFile::default() },
            holder: Some("host n1".into()),
            only_in_caches: vec![(7, "checkpoint.70".into())],
            unreadable: vec![Unread { id: messages::FILE_DAMAGED, text: "x is damaged".into() }],
            refused: Some(Refusal { time: 0, why: "node b has no shim".into() }),
            ..PrefixStatus::default()
        };
        let ids: Vec<_> = look_at_past(Path::new("/p q"), &status, &Zone::default())
            .iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(ids, ["record-unreadable", "refused", "halt-due", "prefix-in-use", "unsaved"]);
        let over = HaltFile { exit_reason: Some(FINALIZE_CALLED.into()), ..HaltFile::default() };
        let status = PrefixStatus { halt: over, ..PrefixStatus::default() };
        assert_eq!(look_at_past(Path::new("/p"), &status, &Zone::default()), []);
    }
}
