//! Agreement on the outcome of a step: all ranks go on, or none does.

use crate::comm::Comm;
use crate::error::{Error, Result};

/// Makes a step's outcome common: `Ok` on all ranks if all have `Ok`; otherwise a rank with an
/// error keeps it and the others get the first rank's sentence. Collective, except that a rank
/// whose communication failed returns at once (the others then fail in this call).
pub(crate) fn agree<T>(comm: &dyn Comm, outcome: Result<T>) -> Result<T> {
    if let Err(Error::Comm(_)) = outcome {
        return outcome;
    }
    let mut failed = [i64::from(outcome.is_err())];
    comm.all_max(&mut failed)?;
    if failed[0] == 0 {
        return outcome;
    }
    let sentence = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let all = comm.all_gather(sentence.as_bytes())?;
    let (rank, first) = all
        .iter()
        .enumerate()
        .find(|(_, sentence)| !sentence.is_empty())
        .map_or((0, ""), |(rank, bytes)| (rank, std::str::from_utf8(bytes).unwrap_or("?")));
    outcome.and(Err(Error::Remote(format!("rank {rank}: {first}"))))
}

/// Does a step whose outcome is common, and that can be interrupted and repeated, a second time if
/// it has failed: what a file system said may be passing. If not, the first error is told: the
/// second may come of it. Collective.
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

/// Tells whether `flag` is set on any rank. Collective.
pub(crate) fn any(comm: &dyn Comm, flag: bool) -> Result<bool> {
    let mut word = [i64::from(flag)];
    comm.all_max(&mut word)?;
    Ok(word[0] != 0)
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
}
