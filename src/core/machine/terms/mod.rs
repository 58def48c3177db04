//! The words that the machine and its callers have in common. Nothing here changes by itself.

mod accesses;
mod answers;
mod config;
mod habit;
mod keys;
mod knowledge;
mod names;
mod reason;
mod report;
mod restart;
mod steps;
mod wire;

pub use accesses::{Accesses, FileShare, PartedNews};
pub use answers::{
    Deletion, Gone, Intent, LeftAlone, LeftBehind, Overdue, Placed, Placement, Renamed, Withdrawn,
};
pub use config::{
    BARRIER_STRIDE_MAX, BUSY_MS, BUSY_SYNC_POINTS_MAX, CLEAN_SEALS, CONFERENCE_MS, CompleteBy,
    MachineConfig, OutputSeries, SETTLE_MS_MAX, SYNC_POINTS_MAX, SeriesConfig, StoreTurns,
};
pub use habit::{Habit, RecentIds};
pub use keys::{DatasetKey, FileRef};
pub use knowledge::Knowledge;
pub use names::{kind_hash, mask_numbers, name_hash, set_hash};
pub use reason::{Hints, Reason, Why};
pub use report::{
    DatasetReport, EncodingReport, ProgramWord, Report, SealedNews, SealedReport, SeriesReport,
    SetReport, UnsafeName,
};
pub use restart::{Offer, Rejected, RestartDecision, RestoredFiles, Resumed};
pub use steps::{Next, Outcome, SealFile, SealPlan, Step};
