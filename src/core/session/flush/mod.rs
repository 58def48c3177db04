//! Datasets on their way to the prefix.
//!
//! | file | job |
//! |---|---|
//! | `together.rs` | flushes of all ranks together |
//! | `background.rs` | flushes by threads |
//! | `unsealed.rs` | files that no agreement comes for |
//! | `places.rs` | the flush file: where each dataset is |
//! | `run_record.rs` | the run record, for people |
//! | `serving.rs` | what ranks of other nodes wait for |

pub(super) mod background;
pub(super) mod places;
pub(super) mod run_record;
pub(super) mod serving;
pub(super) mod together;
pub(super) mod unsealed;
