//! Questions to the operating system, and instructions of the processor, that the standard library
//! does not offer.
//!
//! The only module of this crate with `unsafe`; each block wraps one call and says why it is sound.
#![allow(unsafe_code)]

mod errno;
mod nibbles;
mod process;
mod shared;
mod storage;

pub use nibbles::NibbleTables;
pub use process::affinity::{
    bind_thread, parent, permitted, processor_time, processors, take_short_turns,
    waited_for_processor,
};
pub use process::lanes::in_lanes;
pub use process::node::{
    block_signals, boot_id, exit_at_once, group_id, hostname, monotonic_ms, name_of_user,
    random_u64, send_signal, thread_id, unix_seconds, user_id, user_name,
};
pub use process::pause::test_pause;
pub use process::peer::{close_inherited, has_children, identity, make_room, peer, raise};
pub use process::planted::{Planted, plant, planted};
pub use process::poll::{addresses, await_ready};
pub use process::queues::has_kernel_queues;
pub use shared::log_memory::access_log;
pub use shared::shared_bytes::SharedBytes;
pub use shared::shared_log::{HeardInLog, SharedLog, Telling};
pub use storage::access::{is_denied, may_write};
pub use storage::attributes::{
    Attributes, clear_acl, copy_default_acl, copy_user_attributes, set_user_attributes,
    user_attributes_at,
};
pub use storage::descriptor::{
    begin_writeback, has_writers, is_locked, is_open_elsewhere, next_data, try_lock, unlock,
    will_read_in_order,
};
pub use storage::durable::{sync_file_system, written_out};
pub use storage::file_limit::{BelowLimit, allow_size, below_limit};
pub use storage::memory::{Memory, cgroup_memory_left, memory_available, room};
pub use storage::reserve::{allocated, release_excess, reserve};
pub use storage::secure_dir::{SecureDir, check_own_dir, secure_dir};
pub use storage::space::{Space, space};
