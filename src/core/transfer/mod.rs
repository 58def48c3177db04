//! Between cache and prefix. `prefix`: what the prefix has; `publish`: how files get there;
//! `flush`: a dataset goes there; `pull_out`: a file of many ranks, in mid-run; `fetch.rs`: one
//! dataset comes back; `own_parts.rs`: what of it a node reads by itself; `remains`: what another
//! job has left.

mod fetch;
mod flush;
mod own_parts;
mod prefix;
mod publish;
mod pull_out;
mod remains;

pub use fetch::{FetchStore, Fetched, fetch};
pub use flush::afterwards::{
    Completed, Staged, ask_to_stop, complete, set_transfer_command, stage_node,
};
pub use flush::async_flush::{Advance, AsyncFlush, PublishIf};
pub use flush::background::{
    Awaited, Background, BackgroundJob, Waited, announce_background, background_ids,
    complete_background, has_come, is_flushed, settle_background,
};
pub use flush::shares::flush_shares;
pub(crate) use flush::sync_flush::{FlushReport, can_resume};
pub use flush::sync_flush::{JournalReport, flush_sync, flush_with, recover_journal, roll_back};
pub(crate) use own_parts::bring_parts_together;
pub(crate) use prefix::check::enter_again;
pub use prefix::check::{Checked, check_files};
pub use prefix::findings::Unchecked;
pub(crate) use prefix::index::{
    ListedDataset, has_datasets, last_turn, note_attempt, note_refusal, note_return, note_turn,
    record_incomplete, returned_to,
};
pub use prefix::index::{list_in_cache, list_prefix, note_failure, note_success, record_places};
pub(crate) use prefix::paths::{DROPPED_NAME, is_published};
pub(crate) use prefix::removed::{
    is_marked_removed, mark_removed, missing_since, note_removal, removals, removed_since,
    sweep_marks, unmark_removed,
};
pub(crate) use prefix::repair::ids_with_folder;
pub use prefix::repair::{Repaired, repair_prefix};
pub use prefix::replaced::{bring_back, finish_returns};
pub use prefix::verify::{Check, Verified, names_on_prefix, verify_on_prefix};
pub(crate) use prefix::verify::{files_on_prefix, verify_outdated, verify_sealed_again};
pub use prefix::window::{Left, forget_datasets};
pub(crate) use prefix::window::{delete_datasets, purge_prefix, set_aside_datasets};
pub use publish::about;
pub use publish::companions::Along;
pub use publish::kept::put_back;
pub(crate) use publish::newer::kept_by_newer;
pub use publish::options::Options;
pub(crate) use publish::parts::{finish_whole, write_part};
pub(crate) use publish::single::{publish_file, publish_file_if, publish_unsealed};
pub(crate) use publish::stage::{move_directory, remove_staged_below};
pub(crate) use publish::staged::is_staged_name;
pub use publish::staged::staged_name;
pub(crate) use publish::underway::flushes_under_way;
pub use publish::underway::{Progress, Watch};
pub use pull_out::pull::PullOut;
pub use pull_out::rank_pulls::{EXIT_DEADLINE, PULL_DEADLINE, RankPulls};
pub use pull_out::told::PulledOut;
pub use remains::gather::{gather_found, look_below};
pub(crate) use remains::older::{
    Restored, begin_beside, enter_flat, incomplete_files, restore_flat,
};
pub(crate) use remains::other_size::{OnlyRebuild, stores_of_remains};
pub use remains::other_size::{
    OtherSize, Which, copy_remains, publish_other_size, publish_remains,
};
pub use remains::parts::{copy_parts, put_parts_back, rebuild_parts};
