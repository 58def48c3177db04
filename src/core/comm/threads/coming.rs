//! A message that is on its way, while its receiver does other things.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Channel, QueueKey, ThreadComm, World, lock};
use crate::comm::Pending;
use crate::error::{Error, Result};

/// It keeps no end of the group: without the communicator the group goes on.
pub(super) struct Coming {
    world: Arc<World>,
    /// Where it will be found.
    place: QueueKey,
    from: usize,
    length: usize,
}

impl Coming {
    /// Expects so many bytes from member `from`.
    pub fn new(comm: &ThreadComm, length: usize, from: usize) -> Self {
        let (source, own) = (comm.members[from], comm.world_rank());
        let place = (comm.context, Channel::Point, source, own);
        Coming { world: comm.world.clone(), place, from, length }
    }
}

impl Pending for Coming {
    fn advance(&mut self) -> Result<Option<Vec<u8>>> {
        let (context, _, source, _) = self.place;
        let mut state = lock(&self.world.state);
        if let Some(parcel) = state.queues.get_mut(&self.place).and_then(VecDeque::pop_front) {
            let bytes = parcel.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default();
            return match bytes.len() == self.length {
                true => Ok(Some(bytes)),
                false => Err(Error::Comm("calls do not match".to_string())),
            };
        }
        let is_gone = state.dead.contains(&source) || state.aborted;
        if is_gone || state.gone.contains(&(context, source)) {
            return Err(Error::Comm(format!("rank {} is gone", self.from)));
        }
        Ok(None)
    }
}
