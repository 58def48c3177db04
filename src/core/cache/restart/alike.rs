//! Lists of bytes that are much alike, as the ranks of a node send them: each is told by how it
//! differs from the one before it.
//!
//! ```text
//! all bytes of the list: number       then, until they are all there:
//! bytes as before: number   bytes of the one before that are left out: number
//! other bytes: number, those
//! ```

use crate::bytes::{Reader, Writer};

/// Bytes that have to agree before what follows a difference counts as the same again.
const AGREE: usize = 6;
const REACH: usize = 48;

pub(super) fn join_alike(lists: &[Vec<u8>]) -> Vec<u8> {
    let (mut out, mut before): (Writer, &[u8]) = (Writer::new(), &[]);
    for list in lists {
        out.packed(list.len() as u64);
        let (mut was, mut now) = (before, list.as_slice());
        while !now.is_empty() {
            let same = was.iter().zip(now).take_while(|(was, now)| was == now).count();
            (was, now) = (&was[same..], &now[same..]);
            let (left_out, other) = next_same(was, now);
            out.packed(same as u64).packed(left_out as u64).packed_counted(&now[..other]);
            (was, now) = (&was[left_out..], &now[other..]);
        }
        before = list;
    }
    out.take()
}

fn next_same(was: &[u8], now: &[u8]) -> (usize, usize) {
    let agree = |at: &(usize, usize)| {
        let pieces = (was.get(at.0..at.0 + AGREE), now.get(at.1..at.1 + AGREE));
        pieces.0.is_some() && pieces.0 == pieces.1
    };
    let near = (1..REACH).flat_map(|sum| (0..=sum).map(move |left_out| (left_out, sum - left_out)));
    near.into_iter().find(agree).unwrap_or_else(|| {
        let step = now.len().min(REACH);
        (step.min(was.len()), step)
    })
}

/// Returns `None` if the message is malformed.
pub(super) fn split_alike(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    let mut lists: Vec<Vec<u8>> = Vec::new();
    while !from.is_done() {
        let length = from.packed()?;
        let mut was = lists.last().map_or(&[][..], Vec::as_slice);
        let mut list = Vec::new();
        while (list.len() as u64) < length {
            let (same, left_out) = (from.packed()?, from.packed()?);
            let (kept, rest) = was.split_at_checked(usize::try_from(same).ok()?)?;
            let new = from.packed_counted()?;
            if kept.is_empty() && new.is_empty() {
                return None;
            }
            list.extend(kept.iter().chain(new));
            was = rest.get(usize::try_from(left_out).ok()?..)?;
        }
        if list.len() as u64 != length {
            return None;
        }
        lists.push(list);
    }
    Some(lists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;

    fn lists() -> Vec<Vec<u8>> {
        let list =
            |rank| format!("KEY ckpt 17 OWNER {rank} HOLDER {rank} SET 0-63 PRESENT {}", rank % 3);
        let mut lists: Vec<Vec<u8>> = (95..105).map(|rank| list(rank).into_bytes()).collect();
        lists.insert(4, Vec::new());
        lists.insert(6, vec![7; 300]);
        lists
    }

    #[test]
    fn lists_come_back_as_they_were() {
        for lists in [lists(), Vec::new(), vec![Vec::new()]] {
            assert_eq!(split_alike(&join_alike(&lists)).unwrap(), lists);
        }
    }

    #[test]
    fn the_form_is_as_it_was() {
        assert_eq!(crc32(&join_alike(&lists())), 0xbe57_204d);
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let whole = join_alike(&lists());
        for length in 0..whole.len() {
            let _ = split_alike(&whole[..length]);
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[length] ^= 1 << bit;
                let _ = split_alike(&bytes);
            }
        }
        assert_eq!(split_alike(&[1, 0, 0, 0]), None, "it would never end");
    }
}
