//! A message that is on its way, while its receiver does other things.

use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};

use super::ThreadComm;
use super::world::{Channel, Killed, QueueKey, World, WorldState, lock};
use crate::comm::{Buffers, Pending};
use crate::error::{Error, Result};

/// It keeps no end of the group: without the communicator the group goes on.
pub(super) struct Coming {
    world: Arc<World>,
    place: QueueKey,
    buffers: Buffers,
}

impl Coming {
    pub fn new(comm: &ThreadComm, buffers: Buffers, from: usize) -> Self {
        let (source, own) = (comm.members[from], comm.world_rank());
        let place = (comm.context, Channel::Point, source, own);
        Coming { world: comm.world.clone(), place, buffers }
    }

    fn take(&mut self, state: &mut WorldState) -> Result<Option<Buffers>> {
        let Some(parcel) = state.take(&self.place)? else { return Ok(None) };
        let bytes = parcel.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default();
        if bytes.len() != self.buffers.into.len() {
            return Err(Error::Comm("calls do not match".to_string()));
        }
        self.buffers.into.copy_from_slice(&bytes);
        Ok(Some(std::mem::take(&mut self.buffers)))
    }
}

impl Pending for Coming {
    fn advance(&mut self) -> Result<Option<Buffers>> {
        let world = self.world.clone();
        self.take(&mut lock(&world.state))
    }

    fn wait(&mut self) -> Result<Buffers> {
        let (world, (_, _, _, me)) = (self.world.clone(), self.place);
        let mut state = lock(&world.state);
        loop {
            if state.dead.contains(&me) {
                drop(state);
                resume_unwind(Box::new(Killed));
            }
            if let Some(buffers) = self.take(&mut state)? {
                return Ok(buffers);
            }
            state = world.arrived[me].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
