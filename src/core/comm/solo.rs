//! A world of one rank: nothing to wait for, messages only to oneself.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::Comm;
use crate::error::{Error, Result};

/// The communicator of a process that is alone.
#[derive(Default)]
pub struct Solo {
    to_self: Mutex<VecDeque<Vec<u8>>>,
}

impl Solo {
    /// Makes a world of one rank.
    pub fn new() -> Self {
        Self::default()
    }

    fn check(rank: usize) -> Result<()> {
        match rank {
            0 => Ok(()),
            _ => Err(Error::Comm(format!("rank {rank} does not exist in a world of one"))),
        }
    }
}

impl Comm for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn broadcast(&self, _bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        Self::check(root)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![bytes.to_vec()])
    }

    fn all_max(&self, _words: &mut [i64]) -> Result<()> {
        Ok(())
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        Self::check(to)?;
        Self::check(from)?;
        if out.len() != into.len() {
            return Err(Error::Comm(format!("expected {} bytes, got {}", into.len(), out.len())));
        }
        into.copy_from_slice(out);
        Ok(())
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        Self::check(to)?;
        let mut queue = self.to_self.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(bytes.to_vec());
        Ok(())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        Self::check(from)?;
        let mut queue = self.to_self.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front().ok_or_else(|| Error::Comm("no message to oneself is waiting".into()))
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        out.iter().try_for_each(|(to, _)| Self::check(*to))?;
        Ok(out)
    }

    fn aside(&self) -> Result<Option<Box<dyn Comm>>> {
        Ok(Some(Box::new(Solo::new())))
    }

    fn split(&self, color: i64, _key: i64) -> Result<Option<Box<dyn Comm>>> {
        Ok(if color < 0 { None } else { Some(Box::new(Solo::new())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_of_one_talks_to_itself() {
        let comm = Solo::new();
        comm.send(b"a", 0).unwrap();
        comm.send(b"b", 0).unwrap();
        assert_eq!(comm.receive(0).unwrap(), b"a");
        assert_eq!(comm.receive(0).unwrap(), b"b");
        assert!(matches!(comm.receive(0), Err(Error::Comm(_))));
        assert!(matches!(comm.send(b"", 1), Err(Error::Comm(_))));
        let mut into = [0; 2];
        comm.exchange(b"xy", 0, &mut into, 0).unwrap();
        assert_eq!(&into, b"xy");
        assert_eq!(comm.sparse_exchange(vec![(0, vec![7])]).unwrap(), vec![(0, vec![7])]);
        assert!(comm.split(-1, 0).unwrap().is_none());
        assert_eq!(comm.split(3, 0).unwrap().unwrap().size(), 1);
    }
}
