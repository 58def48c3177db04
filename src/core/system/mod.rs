//! Questions to the operating system, and instructions of the processor, that the standard library
//! does not offer.
//!
//! The only module of this crate with `unsafe`; each block wraps one call and says why it is sound.
#![allow(unsafe_code)]

mod access;
mod affinity;
mod attributes;
mod descriptor;
mod durable;
mod file_limit;
mod lanes;
mod memory;
mod nibbles;
mod node;
mod pause;
mod peer;
mod planted;
mod poll;
mod queues;
mod reserve;
mod secure_dir;
mod shared_bytes;
mod shared_log;
mod space;

pub use access::{is_denied, may_write};
pub use affinity::{
    bind_thread, parent, permitted, processor_time, processors, take_short_turns,
    waited_for_processor,
};
pub use attributes::{
    Attributes, clear_acl, copy_default_acl, copy_user_attributes, set_user_attributes,
    user_attributes_at,
};
pub use descriptor::{
    begin_writeback, has_writers, is_locked, is_open_elsewhere, next_data, try_lock, unlock,
    will_read_in_order,
};
pub use durable::{sync_file_system, written_out};
pub use file_limit::{BelowLimit, allow_size, below_limit};
pub use lanes::in_lanes;
pub use memory::{Memory, cgroup_memory_left, memory_available, room};
pub use nibbles::NibbleTables;
pub use node::{
    block_signals, boot_id, exit_at_once, group_id, hostname, monotonic_ms, name_of_user,
    random_u64, send_signal, thread_id, unix_seconds, user_id, user_name,
};
pub use pause::test_pause;
pub use peer::{close_inherited, has_children, identity, make_room, peer, raise};
pub use planted::{Planted, plant, planted};
pub use poll::{addresses, await_ready};
pub use queues::has_kernel_queues;
pub use reserve::{allocated, release_excess, reserve};
pub use secure_dir::{SecureDir, check_own_dir, secure_dir};
pub use shared_bytes::SharedBytes;
pub use shared_log::{Heard, SharedLog, Telling};
pub use space::{Space, space};

use std::io;

/// Turns the -1 of a system call into the error that errno holds.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
