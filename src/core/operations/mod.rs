//! What the commands do: without ranks, without a session, each usable by itself.

mod add;
mod caches;
mod directories;
pub mod doctor;
mod halt;
mod hosts;
mod index;
mod inspect;
pub mod learn;
mod log;
mod older;
mod prefix;
pub mod report;
mod rescue;
pub mod run;
mod transfers;
mod verify;

pub use crate::cache::{
    Damage, DamagedFile, Depth, Fault, Health, Judged, NotMended, Prospect, Put,
};
pub use crate::launch::JobPlaces;
pub use add::{add_dataset, has_summary};
pub use caches::{
    BroughtFiles, Caches, Exchange, FilePlace, Listed, Listing, PartPlace, Question, Repair,
    VerifyCaches, answer, answer_text,
};
pub use directories::{Wanted, begin_allocation, directory_fault, wanted_directories};
pub use halt::{HaltCondition, HaltWish, change_halt_file, forget_halt_reason, read_halt_file};
pub use hosts::HostList;
pub use index::{
    build_index, drop_datasets, find_dataset, read_flush_file, read_index, read_nodes,
    read_nodes_file, reset_nodes_file, set_current,
};
pub use inspect::{InspectedFile, inspect_file};
pub use log::{log_event, read_log};
pub use older::{AddedOlder, add_older_directory, is_older_directory};
pub(crate) use report::status::Unread;
pub use report::status::{Life, PrefixStatus, lines_of_program, read_status};
pub use rescue::rebuild::publish_directories;
pub use rescue::salvage::{copy_node, publish_copies};
pub use rescue::scavenge::{
    Scavenge, Scavenged, copy_this_node, left_in_caches, publish_what_was_copied, used_since,
};
pub use run::reach::Reach;
pub use transfers::{Finished, command_transfers, finish_transfers, serve_transfers};
pub use verify::{Condition, VerifiedDataset, VerifiedPrefix, state_of, verify_prefix};
