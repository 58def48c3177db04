//! Who we are, and where things lie: what stays the same for the life of a launch.
//!
//! | file | job |
//! |---|---|
//! | `site.rs` | what stays the same for the life of a launch |
//! | `site_stores.rs` | its stores |
//! | `job.rs` | where a job has its directories |
//! | `resources.rs` | what the resource manager tells of the job |
//! | `owner.rs` | which prefix this is, and so whose caches count |

pub(crate) mod job;
pub(super) mod owner;
pub(crate) mod resources;
pub(crate) mod site;
pub(super) mod site_stores;
