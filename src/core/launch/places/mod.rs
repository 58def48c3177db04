//! Who we are, and where things lie: what stays the same for the life of a launch.

pub(crate) mod halt_conditions;
pub(crate) mod job;
pub(crate) mod resources;
pub(crate) mod site;
pub(super) mod site_stores;
