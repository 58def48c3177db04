//! This process and its threads, the node, and other processes there.

pub(super) mod affinity;
pub(super) mod lanes;
pub(super) mod node;
pub(super) mod pause;
pub(super) mod peer;
pub(super) mod planted;
pub(super) mod poll;
pub(super) mod queues;
