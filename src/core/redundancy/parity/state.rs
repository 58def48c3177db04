//! What a member of a set brings to a rebuild, as it tells the others.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberState {
    pub id: u64,
    pub epoch: u64,
    pub data: bool,
    pub total: u64,
    /// Chunk size of its parity file, if that is there.
    pub chunk_bytes: Option<u64>,
}

impl MemberState {
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Writer::new();
        out.flags(&[self.data]).flags(&[self.chunk_bytes.is_some()]);
        out.word(self.id).word(self.epoch).word(self.total).word(self.chunk_bytes.unwrap_or(0));
        out.take()
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        MemberState::read(bytes).ok_or_else(|| Error::Comm("a member's state is malformed".into()))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let ([data], [parity]) = (from.flags()?, from.flags()?);
        let (id, epoch, total) = (from.word()?, from.word()?, from.word()?);
        let chunk_bytes = Some(from.word()?).filter(|_| parity);
        from.whole(MemberState { id, epoch, data, total, chunk_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_travels_in_this_form() {
        let state =
            MemberState { id: 1, epoch: 2, data: true, total: 3, chunk_bytes: Some(u64::MAX) };
        let bytes = state.to_bytes();
        let words = [[0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 3]];
        assert_eq!(bytes, [&[1, 1][..], &words.concat(), &[255; 8]].concat());
        assert_eq!(MemberState::from_bytes(&bytes).unwrap(), state);
        for bytes in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
            assert!(MemberState::from_bytes(bytes).is_err());
        }
        let lost = MemberState { data: false, chunk_bytes: None, ..state };
        assert_eq!(MemberState::from_bytes(&lost.to_bytes()).unwrap(), lost);
    }
}
