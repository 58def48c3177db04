//! Between cache and prefix: flush, journaled publish, what the prefix has.
//!
//! | room or file | job |
//! |---|---|
//! | `prefix` | what the prefix has: index, summaries, looks at files, what goes |
//! | `publish` | how files get to the prefix: stage, journal, publish |
//! | `flush` | a dataset from the cache to the prefix: by all ranks, threads or others |
//! | `remains` | what another job has left: caches, copies, older prefixes |
//! | `fetch.rs` | a dataset of the prefix into the cache |

mod fetch;
mod flush;
mod prefix;
mod publish;
mod remains;

pub use fetch::{Fetched, fetch};
pub use flush::afterwards::{
    Completed, Staged, ask_to_stop, complete, set_transfer_command, stage_node,
};
pub use flush::async_flush::{Advance, AsyncFlush, PublishIf, Under};
pub use flush::background::{
    Awaited, Background, BackgroundJob, Waited, announce_background, background_ids,
    complete_background, settle_background,
};
pub use flush::shares::flush_shares;
pub use flush::sync_flush::{
    FlushReport, JournalReport, can_resume, flush_sync, flush_with, recover_journal, roll_back,
};
pub use prefix::check::{Checked, check_files, enter_again};
pub use prefix::findings::Unchecked;
pub use prefix::index::{
    OnPrefix, has_datasets, last_turn, list_in_cache, list_prefix, note_attempt, note_failure,
    note_refusal, note_return, note_success, note_turn, record_incomplete, record_places,
    returned_to,
};
pub use prefix::paths::{DROPPED_NAME, is_published};
pub use prefix::removed::{
    is_marked_removed, mark_removed, missing_since, note_removal, removals, removed_since,
    sweep_marks, unmark_removed,
};
pub use prefix::repair::{Repaired, ids_with_folder, repair_prefix};
pub use prefix::replaced::{bring_back, finish_returns};
pub use prefix::verify::{
    Check, Verified, files_on_prefix, names_on_prefix, verify_on_prefix, verify_outdated,
};
pub use prefix::window::{
    Left, delete_datasets, forget_datasets, purge_prefix, set_aside_datasets,
};
pub use publish::about;
pub use publish::companions::Along;
pub use publish::kept::put_back;
pub use publish::newer::kept_by_newer;
pub use publish::options::Options;
pub use publish::single::{publish_file, publish_file_if, publish_unsealed};
pub use publish::stage::{is_staged_name, remove_staged_below, staged_name};
pub use publish::underway::{Progress, Watch, flushes_under_way};
pub use remains::gather::{FoundBelow, Gathered, gather_found, look_below};
pub use remains::older::{Restored, begin_beside, enter_flat, incomplete_files, restore_flat};
pub use remains::other_size::{
    OnlyRebuild, OtherSize, Which, copy_remains, publish_other_size, publish_remains,
    stores_of_remains,
};
pub use remains::parts::{copy_parts, put_parts_back, rebuild_parts};
