//! What ranks of a node and of the job tell each other of names.
//!
//! | file | job |
//! |---|---|
//! | `moves.rs` | directories that got their final name |
//! | `neighbours.rs` | what the ranks of a node see at once |
//! | `turns.rs` | one step of theirs at a time |
//! | `elsewhere.rs` | what those of other nodes see at the next agreement |
//! | `wanted.rs` | checkpoints whose files a rank of another node waits for |
//! | `knowledge.rs` | what was learned of how the program writes |
//! | `restless.rs` | files that are never quiet |

pub(super) mod elsewhere;
pub(super) mod knowledge;
pub(super) mod moves;
pub(super) mod neighbours;
pub(super) mod restless;
pub(super) mod turns;
pub(super) mod wanted;
