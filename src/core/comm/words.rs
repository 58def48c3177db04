//! Numbers and messages of unknown length over a group of ranks.

use super::Comm;
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

/// Bytes that no message of [`swap`] has; a larger length is a sign of disorder.
const MESSAGE_BYTES_MAX: u64 = 4 << 30;

const LENGTH_BYTES: usize = size_of::<u64>();

/// Bytes of a message that travel with its length: most messages are shorter.
const BEGIN_BYTES: usize = 2048 - LENGTH_BYTES;

pub fn broadcast(comm: &dyn Comm, word: u64, root: usize) -> Result<u64> {
    let mut bytes = Writer::new().word(word).take();
    comm.broadcast(&mut bytes, root)?;
    Ok(read::<1>(&bytes, root)?[0])
}

pub fn all_gather<const N: usize>(comm: &dyn Comm, words: [u64; N]) -> Result<Vec<[u64; N]>> {
    let mut out = Writer::new();
    words.iter().for_each(|word| _ = out.word(*word));
    let all = comm.all_gather(&out.take())?;
    all.iter().enumerate().map(|(rank, bytes)| read(bytes, rank)).collect()
}

/// Sends `out` to rank `to` while receiving what rank `from` sends here; any lengths. One exchange
/// if both are short, two otherwise.
pub fn swap(comm: &dyn Comm, out: &[u8], to: usize, from: usize) -> Result<Vec<u8>> {
    let (begin, rest) = out.split_at(out.len().min(BEGIN_BYTES));
    let mut own = Writer::new().word(out.len() as u64).take();
    own.extend(begin);
    own.resize(LENGTH_BYTES + BEGIN_BYTES, 0);
    let mut arrived = vec![0; own.len()];
    comm.exchange(&own, to, &mut arrived, from)?;
    let (length, begin) = arrived.split_at(LENGTH_BYTES);
    let [length] = read(length, from)?;
    let length = usize::try_from(length).ok().filter(|_| length <= MESSAGE_BYTES_MAX);
    let Some(length) = length else {
        return Err(Error::Comm(format!("rank {from} announced a message of an impossible size")));
    };
    let mut into = begin[..length.min(BEGIN_BYTES)].to_vec();
    into.resize(length, 0);
    if !rest.is_empty() || length > BEGIN_BYTES {
        comm.exchange(rest, to, &mut into[length.min(BEGIN_BYTES)..], from)?;
    }
    Ok(into)
}

fn read<const N: usize>(bytes: &[u8], from: usize) -> Result<[u64; N]> {
    let mut reader = Reader::new(bytes);
    let mut words = [0; N];
    let whole = words.iter_mut().try_for_each(|word| {
        *word = reader.word()?;
        Some(())
    });
    let malformed = || Error::Comm(format!("what rank {from} sent is not {N} numbers"));
    whole.and_then(|()| reader.whole(words)).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;

    #[test]
    fn every_rank_has_what_was_sent() {
        let found = run(3, |comm| {
            let me = comm.rank();
            let root = broadcast(&*comm, me as u64 + 7, 1).unwrap();
            let all = all_gather(&*comm, [me as u64, u64::MAX]).unwrap();
            let (left, right) = ((me + 2) % 3, (me + 1) % 3);
            // One of them has nothing to say, one says all at once, one does not.
            let said = vec![1; me * (BEGIN_BYTES - 1)];
            (root, all, swap(&*comm, &said, right, left).unwrap())
        });
        for (me, (root, all, swapped)) in found.into_iter().enumerate() {
            assert_eq!((root, swapped), (8, vec![1; (me + 2) % 3 * (BEGIN_BYTES - 1)]));
            assert_eq!(all, [[0, u64::MAX], [1, u64::MAX], [2, u64::MAX]]);
        }
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        let found = run(2, |comm| {
            let words = all_gather::<1>(&*comm, [0]);
            let sent = comm.all_gather(&vec![0; comm.rank()]).unwrap();
            (words, read::<1>(&sent[1], 1).is_err())
        });
        assert!(found.into_iter().all(|(words, refused)| words.is_ok() && refused));
    }
}
