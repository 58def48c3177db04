//! Who we are, and where things lie: what stays the same for the life of a launch.
//!
//! | file | job |
//! |---|---|
//! | `site.rs` | what stays the same for the life of a launch |
//! | `site_stores.rs` | its stores |
//! | `job.rs` | where a job has its directories |
//! | `halt_conditions.rs` | what the halt file and the settings say |
//! | `resources.rs` | what the resource manager tells of the job |

pub(crate) mod halt_conditions;
pub(crate) mod job;
pub(crate) mod resources;
pub(crate) mod site;
pub(super) mod site_stores;
