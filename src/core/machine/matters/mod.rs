//! What the machine knows of single matters: each has its own state, and no other one needs it. To
//! take one out, delete its file and its field of [`Machine`](super::Machine), and what then does
//! not compile.
//!
//! | file | matter |
//! |---|---|
//! | `deletions.rs` | names that the program has taken away, and that stay until that is safe |
//! | `encodings.rs` | datasets that are encoded beside the program |
//! | `keeping.rs` | for how long the program keeps its checkpoints |
//! | `lacking.rs` | checkpoints that have less than the one before |
//! | `logs.rs` | files that are never quiet |
//! | `others.rs` | what other ranks do with this one's files |
//! | `rotations.rs` | programs without ids that move or copy their last checkpoints away |
//! | `telling.rs` | names that other nodes are to hear of |
//! | `trust.rs` | sealed datasets that have been left alone for long |
//! | `unsealed.rs` | files that wait for an agreement for too long |
//! | `verdicts` | files that several nodes write |
//! | `watch.rs` | names that cannot be cached |

pub mod deletions;
pub mod encodings;
pub mod keeping;
pub mod lacking;
pub mod logs;
pub mod others;
pub mod rotations;
pub mod telling;
pub mod trust;
pub mod unsealed;
pub mod verdicts;
pub mod watch;

pub use deletions::Deletions;
pub use encodings::Encodings;
pub use keeping::Keeping;
pub use lacking::Lacking;
pub use logs::Logs;
pub use others::{Others, Overheard};
pub use rotations::Rotations;
pub use telling::NamesToTell;
pub use trust::Trust;
pub use unsealed::UnsealedFiles;
pub use verdicts::Verdicts;
pub use watch::NameWatch;
