//! Agreement on the outcome of a step: all ranks go on, or none does.

use crate::comm::Comm;
use crate::error::{Error, Result};

/// Gives `Ok` on all ranks if all have `Ok`; otherwise a rank with an error keeps it, and the
/// others get the first rank's sentence. A rank whose communication failed returns at once.
/// Collective.
pub(crate) fn agree<T>(comm: &dyn Comm, outcome: Result<T>) -> Result<T> {
    agree_and_ask(comm, outcome, |_| false).map(|(outcome, _)| outcome)
}

/// Does what [`agree`] does, also tells in the same collective whether the `question` is true on
/// any rank.
pub(crate) fn agree_and_ask<T>(
    comm: &dyn Comm,
    outcome: Result<T>,
    question: impl FnOnce(&T) -> bool,
) -> Result<(T, bool)> {
    if let Err(Error::Comm(what)) = outcome {
        return Err(Error::Comm(what));
    }
    let [failed, told] = any_of(comm, [outcome.is_err(), outcome.as_ref().is_ok_and(question)])?;
    if !failed {
        return outcome.map(|outcome| (outcome, told));
    }
    let sentence = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let all = comm.all_gather(sentence.as_bytes())?;
    let first = all.iter().enumerate().find(|(_, sentence)| !sentence.is_empty());
    let (rank, first) = first.map_or((0, &[][..]), |(rank, bytes)| (rank, bytes));
    outcome.and(Err(of_rank(rank, first)))
}

/// Does what [`agree`] does, also gives all ranks the bytes of each in the same collective.
pub(crate) fn agree_and_gather(comm: &dyn Comm, outcome: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let mut all = comm.all_gather(&marked(&outcome)?)?;
    let failed = all.iter().position(|bytes| bytes.first() != Some(&GOOD));
    if let Some(rank) = failed {
        return outcome.and(Err(of_rank(rank, all[rank].get(1..).unwrap_or_default())));
    }
    all.iter_mut().for_each(|bytes| _ = bytes.remove(0));
    Ok(all)
}

pub(crate) fn from_root(comm: &dyn Comm, outcome: Result<Vec<u8>>) -> Result<Vec<u8>> {
    let mut bytes = if comm.rank() == 0 { marked(&outcome)? } else { Vec::new() };
    comm.broadcast(&mut bytes, 0)?;
    match bytes.split_first() {
        Some((&GOOD, rest)) => Ok(rest.to_vec()),
        _ if comm.rank() == 0 => outcome,
        _ => Err(of_rank(0, bytes.get(1..).unwrap_or_default())),
    }
}

/// The first byte before a rank's bytes; before the reason why it has failed is another.
const GOOD: u8 = 0;

fn marked(outcome: &Result<Vec<u8>>) -> Result<Vec<u8>> {
    match outcome {
        Ok(bytes) => Ok([&[GOOD], &bytes[..]].concat()),
        Err(Error::Comm(what)) => Err(Error::Comm(what.clone())),
        Err(error) => Ok([&[GOOD + 1], error.to_string().as_bytes()].concat()),
    }
}

fn of_rank(rank: usize, sentence: &[u8]) -> Error {
    Error::Remote(format!("rank {rank}: {}", String::from_utf8_lossy(sentence)))
}

/// Does a step with a common outcome a second time if it has failed: the error may be passing. If
/// it fails again, the first error is told: the second may come of it. Collective.
pub(crate) fn twice<T>(step: impl Fn() -> Result<T>) -> Result<T> {
    match step() {
        Err(Error::Comm(what)) => Err(Error::Comm(what)),
        Err(first) => step().map_err(|second| match second {
            Error::Comm(_) => second,
            _ => first,
        }),
        done => done,
    }
}

pub(crate) fn any(comm: &dyn Comm, flag: bool) -> Result<bool> {
    any_of(comm, [flag]).map(|[flag]| flag)
}

/// Tells for each of `flags` whether it is set on any rank. Collective.
pub(crate) fn any_of<const N: usize>(comm: &dyn Comm, flags: [bool; N]) -> Result<[bool; N]> {
    let mut words = flags.map(i64::from);
    comm.all_max(&mut words)?;
    Ok(words.map(|word| word != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;

    #[test]
    fn one_error_is_everyones_and_names_its_rank() {
        let seen = run(3, |comm| {
            let mine = match comm.rank() {
                1 => Err(Error::Defect("no room".into())),
                rank => Ok(rank),
            };
            agree(&*comm, mine).map_err(|e| e.to_string())
        });
        assert_eq!(seen[0], Err("rank 1: no room".into()));
        assert_eq!(seen[1], Err("no room".into()));
        assert_eq!(run(2, |comm| agree(&*comm, Ok(5)).unwrap()), [5, 5]);
    }

    #[test]
    fn what_is_gathered_or_sent_has_its_errors_with_it() {
        let told = |who: usize| {
            run(3, move |comm| {
                let own = || match comm.rank() == who {
                    true => Err(Error::Defect("no room".into())),
                    false => Ok(vec![comm.rank() as u8]),
                };
                let gathered = agree_and_gather(&*comm, own()).map_err(|e| e.to_string());
                let asked = agree_and_ask(&*comm, Ok(()), |()| comm.rank() == who).unwrap().1;
                (gathered, from_root(&*comm, own()).map_err(|e| e.to_string()), asked)
            })
        };
        let all = Ok(vec![vec![0], vec![1], vec![2]]);
        assert_eq!(told(9), vec![(all, Ok(vec![0]), false); 3]);
        let remote = |rank| format!("rank {rank}: no room");
        for (rank, seen) in told(1).into_iter().enumerate() {
            let why = if rank == 1 { "no room".into() } else { remote(1) };
            assert_eq!(seen, (Err(why), Ok(vec![0]), true));
        }
        for (rank, seen) in told(0).into_iter().enumerate() {
            let why = if rank == 0 { "no room".into() } else { remote(0) };
            assert_eq!(seen, (Err(why.clone()), Err(why), true));
        }
    }
}
