//! File operations that survive a crash: what everything durable is built from.
//!
//! | file | job |
//! |---|---|
//! | `path.rs` | names: normalise, check, join |
//! | `atomic_write.rs` | replace a small file: temporary, fsync, rename, fsync of the directory |
//! | `copy.rs` | copy a file with holes, mode, times; checksum on the way |
//! | `ours.rs` | open our own files where others may have put something else |
//! | `own.rs` | open what the program may have forbidden itself to read |
//! | `pace.rs` | bytes that were moved, and the time that it took |
//! | `checksum.rs` | CRC32 (IEEE, as in zlib) |
//! | `lock.rs` | lock files between processes |
//! | `stand_in.rs` | a lock for as long as a process lives, where the file system has none |
//! | `lease.rs` | the lock that a launch holds, with the name of the holder |
//! | `together.rs` | many small files become durable together |
//! | `directory.rs` | fsync, create, remove directories; replace a file |

mod atomic_write;
mod checksum;
mod copy;
mod directory;
pub mod lease;
mod lock;
mod ours;
mod own;
mod pace;
mod path;
mod stand_in;
mod together;

pub use atomic_write::{is_temporary_name, read_optional, replace_atomic, write_atomic};
pub use checksum::{Crc32, crc32, crc32_of_file, multiplied};
pub use copy::{
    CopyOptions, CopyOutcome, Durable, copy_file, copy_unsynced, mode_at, modified, size_at,
};
pub use directory::{
    create_dirs, has_no_file, remove_empty_dirs, remove_file_if_there, remove_tree, replace,
    sync_dir,
};
pub use lock::{FileLock, LOCK_WAIT_MAX};
pub use ours::{open_ours, read_ours, read_regular, write_ours};
pub use own::{open_own, read_own, same_content};
pub use pace::Pace;
pub use path::{is_safe_relative, join_relative, normalize, relative_to};
pub use stand_in::StandIn;
pub use together::Together;
