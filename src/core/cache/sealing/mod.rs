//! How a dataset becomes complete and protected: the seal, its catalog, its marker.

pub(super) mod catalog;
pub(super) mod encoder;
pub(super) mod encoding;
pub(super) mod marker;
pub(super) mod node_catalog;
pub(super) mod own_part;
pub(super) mod packed;
pub(super) mod protection;
pub(crate) mod seal;
pub(super) mod shared_store;
pub(super) mod spare;
pub(crate) mod under_way;
