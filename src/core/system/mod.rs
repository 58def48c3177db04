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

pub(crate) use nibbles::NibbleTables;
pub(crate) use process::affinity::{
    bind_thread, parent, permitted, processor_time, processors, run_when_idle, take_short_turns,
    waited_for_processor,
};
pub use process::lanes::Lanes;
pub(crate) use process::lanes::in_lanes;
pub use process::node::{
    block_signals, exit_at_once, hostname, send_signal, thread_id, unix_seconds, user_id,
};
pub(crate) use process::node::{
    boot_id, group_id, monotonic_ms, name_of_user, random_u64, user_name,
};
pub(crate) use process::pause::test_pause;
pub use process::peer::make_room;
pub(crate) use process::peer::{close_inherited, has_children, identity, peer, raise};
pub(crate) use process::planted::planted;
pub use process::planted::{Planted, plant};
pub(crate) use process::poll::{addresses, await_ready};
pub(crate) use process::queues::has_kernel_queues;
pub(crate) use shared::log_memory::access_log;
pub(crate) use shared::shared_bytes::SharedBytes;
pub(crate) use shared::shared_log::{HeardInLog, SharedLog, Telling};
pub(crate) use storage::access::is_denied;
pub use storage::access::{may_make_in, may_write};
pub use storage::attributes::{Attributes, set_user_attributes, user_attributes_at};
pub(crate) use storage::attributes::{clear_acl, copy_default_acl, copy_user_attributes};
pub(crate) use storage::descriptor::{
    begin_writeback, has_writers, is_locked, is_open_elsewhere, next_data, try_lock, unlock,
    will_read_in_order,
};
pub(crate) use storage::durable::{sync_file_system, written_out};
pub(crate) use storage::file_limit::{allow_size, below_limit};
pub(crate) use storage::memory::{Memory, room};
pub(crate) use storage::reserve::{allocated, release_excess, reserve};
pub(crate) use storage::secure_dir::{check_own_dir, secure_dir};
pub(crate) use storage::space::space;
