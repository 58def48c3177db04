//! Between cache and prefix: flush, journaled publish, what the prefix has.
//!
//! | file | job |
//! |---|---|
//! | `stage.rs` | one file: staged beside its target, synced, renamed |
//! | `single.rs` | one file by itself |
//! | `journal.rs` | what the next start must complete or roll back |
//! | `flush.rs` | a whole dataset, all ranks together |
//! | `companions.rs` | what is published with it of older ones |
//! | `async_flush.rs`, `throttle.rs`, `work.rs` | the same by threads, while the program goes on |
//! | `ledger.rs`, `leader_sign.rs` | how far it is; what a node's leader has seen on the prefix |
//! | `polling.rs` | waiting for what others do |
//! | `turns.rs` | who of the threads waits for whom, and what each may take |
//! | `afterwards.rs` | the same by a process on each node, once the program has gone |
//! | `background.rs` | a rank's own files on a helper thread, without communication |
//! | `shares.rs` | a whole dataset, by those who have its files |
//! | `other_size.rs` | the cache of a run with another number of ranks |
//! | `gather.rs` | the same from directories that a person has copied |
//! | `options.rs` | what the settings say |
//! | `about.rs` | what is said of a dataset as a whole |
//! | `paths.rs` | where what is ours lies on the prefix |
//! | `fetch.rs` | a dataset of the prefix into the cache |
//! | `index.rs` | index and summaries: what is on the prefix, and whether it is whole |
//! | `verify.rs` | whether the files on the prefix are still what the index says |
//! | `check.rs` | the same by one process, for a person |
//! | `findings.rs` | what a look at them has found, and what follows |
//! | `others.rs` | what other datasets have under the same names |
//! | `unfinished.rs` | a flush that ended halfway, and does not go on |
//! | `newer.rs` | what a flush of an older dataset must leave as it is |
//! | `older.rs` | directories of version 1.1, prefixes of the C implementation |
//! | `kept.rs` | copies of pointer files, by dataset |
//! | `replaced.rs` | older generations of a series without ids, and the way back to them |
//! | `window.rs` | datasets leave the prefix |
//! | `repair.rs` | a damaged index, made anew from the summaries |

pub mod about;
mod afterwards;
mod async_flush;
mod background;
mod check;
mod companions;
mod fetch;
mod findings;
mod flush;
mod gather;
mod index;
mod journal;
mod kept;
mod leader_sign;
mod ledger;
mod newer;
mod older;
mod options;
mod other_size;
mod others;
mod parts;
mod paths;
mod polling;
mod removed;
mod repair;
mod replaced;
mod shares;
mod single;
mod stage;
mod throttle;
mod turns;
mod underway;
mod unfinished;
mod verify;
mod window;
mod work;

pub use afterwards::{Completed, Staged, ask_to_stop, complete, set_transfer_command, stage_node};
pub use async_flush::{Advance, AsyncFlush, PublishIf, Under};
pub use background::{
    Awaited, Background, BackgroundJob, Waited, announce_background, background_ids,
    complete_background, settle_background,
};
pub use check::{Checked, check_files, enter_again};
pub use companions::Along;
pub use fetch::{Fetched, fetch};
pub use findings::Unchecked;
pub use flush::{
    FlushReport, JournalReport, can_resume, flush_sync, flush_with, recover_journal, roll_back,
};
pub use gather::{FoundBelow, Gathered, gather_found, look_below};
pub use index::record_incomplete;
pub use index::{
    OnPrefix, has_datasets, last_turn, list_in_cache, list_prefix, note_attempt, note_failure,
    note_refusal, note_return, note_success, note_turn, record_places, returned_to,
};
pub use kept::put_back;
pub use newer::kept_by_newer;
pub use older::{Restored, begin_beside, enter_flat, incomplete_files, restore_flat};
pub use options::Options;
pub use other_size::{
    OnlyRebuild, OtherSize, Which, copy_remains, publish_other_size, publish_remains,
    stores_of_remains,
};
pub use parts::{copy_parts, put_parts_back, rebuild_parts};
pub use paths::{DROPPED_NAME, is_published};
pub use removed::{
    is_marked_removed, mark_removed, missing_since, note_removal, removals, removed_since,
    sweep_marks, unmark_removed,
};
pub use repair::{Repaired, ids_with_folder, repair_prefix};
pub use replaced::{bring_back, finish_returns};
pub use shares::flush_shares;
pub use single::{publish_file, publish_file_if, publish_unsealed};
pub use stage::{is_staged_name, remove_staged_below, staged_name};
pub use underway::{Progress, Watch, flushes_under_way};
pub use verify::{
    Check, Verified, files_on_prefix, names_on_prefix, verify_on_prefix, verify_outdated,
};
pub use window::{Left, delete_datasets, forget_datasets, purge_prefix, set_aside_datasets};
