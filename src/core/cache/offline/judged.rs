//! What the states of all nodes say of each dataset together: what is damaged, and whether its
//! redundancy can bring it back. Pure.

use std::collections::BTreeSet;

use super::health::{Fault, HeldPart, NodeState};
use crate::cache::restart::claims::belongs;
use crate::cache::restart::decide::{Claim, Decision, Verdict, decide};
use crate::cache::restart::identity::{size_in, strange_series};
use crate::cache::restart::recover::Part;
use crate::cache::restart::survey::Facts;
use crate::comm::ranks::ranks_phrase;
use crate::error::{Error, Result};
use crate::records::RecordKey;

/// What can become of a dataset in the caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prospect {
    /// Nothing has to be done.
    Right,
    /// What is damaged or missing can be rebuilt.
    Repairable,
    /// All files are right, but too many redundancy files are not: the next start makes them anew.
    Unprotected,
    /// Why it cannot be had from the caches.
    Lost(String),
}

/// A damaged file, and what its redundancy set can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// World rank that wrote it, or whose redundancy file it is.
    pub rank: usize,
    /// Its node.
    pub node: String,
    /// The file, and what is wrong with it.
    pub fault: Fault,
    /// Ranks of its redundancy set, which may be one.
    pub set: Vec<usize>,
    /// How many ranks of the set have damage, or are gone.
    pub losses: usize,
    /// How many the set survives.
    pub survives: usize,
    /// The redundancy can bring it back.
    pub repairable: bool,
}

/// A dataset that the caches have.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are those of the records")]
pub struct Health {
    pub id: u64,
    pub epoch: u64,
    pub key: RecordKey,
    pub scheme: String,
    /// Number of the files that were looked at, redundancy files included.
    pub files: u64,
    pub bytes: u64,
    pub prospect: Prospect,
    pub troubles: Vec<DamagedFile>,
    /// World ranks whose files are on no node that answers.
    pub absent: Vec<usize>,
    /// By world rank the nodes that hold its files, the one to ask first.
    pub holders: Vec<Option<usize>>,
}

/// All datasets of a run in its caches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// Ranks of the run; 0 if no node has anything of it.
    pub ranks: usize,
    /// Sealed datasets, lowest id first.
    pub datasets: Vec<Health>,
    /// Datasets that are not known to be complete: id (0 without one), key, why.
    pub unsealed: Vec<(u64, RecordKey, String)>,
    /// Numbers of nodes that have the cache of another run.
    pub strange: Vec<usize>,
}

/// Judges what nodes with these names hold.
pub fn judge(nodes: &[(String, NodeState)]) -> Result<Judged> {
    let mut identities = nodes.iter().map(|(_, node)| &node.identity);
    let Some(identity) = identities.find(|text| !text.is_empty()) else {
        return match nodes.iter().any(|(_, node)| !node.parts.is_empty()) {
            false => Ok(Judged::default()),
            true => Err(Error::Refused("nothing tells which run's cache this is".into())),
        };
    };
    let ranks = size_in(identity).ok_or_else(|| {
        Error::Refused(format!("a run with an unknown number of ranks: {identity}"))
    })?;
    let is_strange = |node: &NodeState| {
        !node.identity.is_empty() && strange_series(&node.identity, identity).is_none()
    };
    let strange: Vec<usize> = (0..nodes.len()).filter(|at| is_strange(&nodes[*at].1)).collect();
    let mut told: Vec<(Claim, &HeldPart)> = Vec::new();
    let ours = nodes.iter().enumerate().filter(|(at, _)| !strange.contains(at));
    for (holder, (_, node)) in ours {
        let with_holder = |part: &HeldPart| Claim { holder, ..part.claim.clone() };
        told.extend(node.parts.iter().map(|part| (with_holder(part), part)));
    }
    let claims: Vec<Claim> = told.iter().map(|(claim, _)| claim.clone()).collect();
    let name = |holder: usize| nodes[holder].0.clone();
    let mut judged = Judged { ranks, strange, ..Judged::default() };
    for decision in decide(&claims, ranks) {
        match &decision.verdict {
            Verdict::Restore => judged.datasets.push(health(&decision, &told, ranks, &name)),
            Verdict::Withhold(why) | Verdict::Delete(why) => {
                judged.unsealed.push((decision.id, decision.key.clone(), why.clone()));
            }
            Verdict::Strange | Verdict::Forget => {}
        }
    }
    Ok(judged)
}

fn health(
    decision: &Decision,
    told: &[(Claim, &HeldPart)],
    ranks: usize,
    name: &dyn Fn(usize) -> String,
) -> Health {
    let told: Vec<_> = told.iter().filter(|(claim, _)| belongs(claim, decision)).collect();
    let claims: Vec<&Claim> = told.iter().map(|(claim, _)| claim).collect();
    let facts = Facts::of(&claims, ranks, &[]);
    let mut parts = vec![(Part::Lost, None); ranks];
    for claim in &claims {
        let protected = claim.under(facts.encoding).is_some_and(|one| one.protected);
        let part = match (claim.intact, protected) {
            (true, true) => Part::Whole,
            (true, false) => Part::Unprotected,
            (false, _) => Part::Lost,
        };
        let best = &mut parts[claim.owner];
        if best.1.is_none() || worth(part) > worth(best.0) {
            *best = (part, Some(claim.holder));
        }
    }
    let holders: Vec<Option<usize>> = parts.iter().map(|(_, holder)| *holder).collect();
    let parts: Vec<Part> = parts.into_iter().map(|(part, _)| part).collect();
    let (prospect, sets) = prospect(&facts, &parts);
    let mut troubles = Vec::new();
    for (claim, part) in &told {
        let set = sets.iter().find(|set| set.ranks.contains(&claim.owner));
        for fault in &part.faults {
            troubles.push(DamagedFile {
                rank: claim.owner,
                node: name(claim.holder),
                fault: fault.clone(),
                set: set.map_or_else(|| vec![claim.owner], |set| set.ranks.clone()),
                losses: set.map_or(1, |set| set.losses),
                survives: set.map_or(0, |set| set.survives),
                repairable: set.is_some_and(|set| set.can),
            });
        }
    }
    let wholes: BTreeSet<&String> = told.iter().flat_map(|(_, part)| &part.wholes).collect();
    let own: u64 = told.iter().map(|(_, part)| part.files).sum();
    Health {
        id: decision.id,
        epoch: decision.epoch,
        key: decision.key.clone(),
        scheme: facts.scheme.clone(),
        files: own + wholes.len() as u64,
        bytes: told.iter().fold(0, |sum: u64, (_, part)| sum.saturating_add(part.bytes)),
        prospect,
        troubles,
        absent: decision.absent.clone(),
        holders,
    }
}

fn worth(part: Part) -> u8 {
    match part {
        Part::Lost => 0,
        Part::Unprotected => 1,
        Part::Whole => 2,
    }
}

struct Struck {
    ranks: Vec<usize>,
    losses: usize,
    survives: usize,
    lost: bool,
    can: bool,
}

fn prospect(facts: &Facts, parts: &[Part]) -> (Prospect, Vec<Struck>) {
    let is_struck = |rank: &usize| parts.get(*rank).is_some_and(|part| *part != Part::Whole);
    let struck: BTreeSet<&Vec<usize>> =
        facts.sets.iter().filter(|set| set.iter().any(is_struck)).collect();
    let sets: Vec<Struck> = struck.into_iter().map(|set| strike(facts, set, parts)).collect();
    let alone = |rank: &usize| !facts.sets.iter().any(|set| set.contains(rank));
    let is_lost = |rank: &usize| parts[*rank] == Part::Lost;
    let hopeless: Vec<usize> = (0..parts.len()).filter(is_lost).filter(alone).collect();
    let beyond = sets.iter().find(|set| set.lost && !set.can);
    let prospect = if !hopeless.is_empty() {
        let scheme = &facts.scheme;
        let phrase = ranks_phrase(&hopeless);
        Prospect::Lost(format!("{scheme} keeps no copy of the files of {phrase} elsewhere"))
    } else if let Some(set) = beyond {
        let ranks: Vec<usize> = set.ranks.iter().copied().filter(is_struck).collect();
        Prospect::Lost(format!(
            "{} of the {} ranks of one {} set have damage or are gone ({}), and it survives {}",
            set.losses,
            set.ranks.len(),
            facts.scheme,
            ranks_phrase(&ranks),
            set.survives
        ))
    } else if sets.iter().any(|set| !set.can) {
        Prospect::Unprotected
    } else if sets.is_empty() {
        Prospect::Right
    } else {
        Prospect::Repairable
    };
    (prospect, sets)
}

fn strike(facts: &Facts, set: &[usize], parts: &[Part]) -> Struck {
    let part = |at: usize| parts.get(set[at % set.len()]).copied().unwrap_or(Part::Lost);
    let copies = facts.failures.min(set.len().saturating_sub(1));
    let losses = (0..set.len()).filter(|at| part(*at) != Part::Whole).count();
    let lost = (0..set.len()).any(|at| part(at) == Part::Lost);
    let (survives, can) = match facts.scheme.as_str() {
        "XOR" => (1, losses <= 1),
        "RS" => (copies, losses <= copies),
        "PARTNER" => {
            let kept = |at: usize| (1..=copies).any(|hop| part(at + hop) == Part::Whole);
            (copies, (0..set.len()).filter(|at| part(*at) == Part::Lost).all(kept))
        }
        _ => (0, false),
    };
    Struck { ranks: set.to_vec(), losses, survives, lost, can }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(scheme: &str, failures: usize) -> Facts {
        let sets = [vec![0, 1, 2, 3]].into();
        Facts { scheme: scheme.into(), failures, sets, ..Facts::default() }
    }

    #[test]
    fn each_scheme_survives_what_it_is_for() {
        use Part::{Lost, Unprotected, Whole};
        let ok = |scheme: &str, failures: usize, parts: [Part; 4]| {
            let found = prospect(&facts(scheme, failures), &parts).0;
            match found {
                Prospect::Right => "right",
                Prospect::Repairable => "repairable",
                Prospect::Unprotected => "unprotected",
                Prospect::Lost(_) => "lost",
            }
        };
        for (scheme, failures, parts, want) in [
            ("XOR", 1, [Whole, Whole, Whole, Whole], "right"),
            ("XOR", 1, [Whole, Lost, Whole, Whole], "repairable"),
            ("XOR", 1, [Whole, Unprotected, Whole, Whole], "repairable"),
            ("XOR", 1, [Unprotected, Unprotected, Whole, Whole], "unprotected"),
            ("XOR", 3, [Lost, Unprotected, Whole, Whole], "lost"),
            ("RS", 2, [Lost, Unprotected, Whole, Whole], "repairable"),
            ("RS", 2, [Lost, Lost, Lost, Whole], "lost"),
            ("PARTNER", 1, [Lost, Whole, Lost, Whole], "repairable"),
            ("PARTNER", 1, [Lost, Lost, Whole, Whole], "lost"),
            ("PARTNER", 2, [Lost, Lost, Whole, Whole], "repairable"),
            ("PARTNER", 1, [Whole, Whole, Whole, Lost], "repairable"),
            ("PARTNER", 1, [Lost, Whole, Whole, Lost], "lost"),
        ] {
            assert_eq!(ok(scheme, failures, parts), want, "{scheme} {failures} {parts:?}");
        }
        let alone = Facts { scheme: "SINGLE".into(), ..Facts::default() };
        let found = prospect(&alone, &[Whole, Lost]).0;
        assert!(matches!(&found, Prospect::Lost(why) if why.contains("rank 1")), "{found:?}");
    }
}
