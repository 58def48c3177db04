//! The state machine of one rank: where files go, when a dataset is sealed, confirmed, flushed,
//! evicted. Pure: events in, actions and steps out; time, epochs and outcomes are given in.
//!
//! # How a caller drives it
//! * **File events** ([`Machine::write_open`] ... [`Machine::renamed`]) come at any time, from any
//!   thread, under one lock. What an answer asks for is done durably, *with the lock held*, before
//!   the program's call goes on.
//! * **Sync points**: `Machine::pass`; if they carry an agreement, all-reduce `Machine::words` by
//!   maximum and call [`Machine::agreed`]. On [`Next::Confer`]: gather every rank's
//!   [`Machine::report`], call [`Machine::confer`], perform the steps. Then the turn ends.
//! * **Steps**: while [`Machine::next_step`] gives one, carry it out and call [`Machine::done`].
//!   The lock is not held while a step communicates. Those that are more than [`Step`] says:
//!   * [`Step::Seal`]: take [`Machine::seal_files`]; checksums, redundancy, catalog. Then, in one
//!     locked section: if [`Machine::seal_record`], write the record (state Prepared, with epoch,
//!     and confirmed if planned) durably; and take [`Machine::vote`]. All-reduce the votes. If
//!     `Done`: node leaders rename the directory (and write the confirmed marker if planned);
//!     all-reduce again.
//!   * [`Step::Encode`]: agree on whether all ranks have begun, and call [`Machine::encoded`] at
//!     the end of this rank's part. When all have, a conference decides on [`Step::Seal`], or, if
//!     the program has changed something, [`Step::Discard`].
//!   * [`Step::Confirm`]: the all-reduce before `done` makes a following eviction safe.
//!   * [`Step::Spill`]: [`Machine::moved_to_prefix`] for each file that is there.
//! * **The end** (in MPI_Finalize): [`Machine::begin_end`], then gather, confer and perform the
//!   steps once, unconditionally; [`Machine::end`]. Afterwards every file is [`Placement::Pass`],
//!   and [`Machine::overdue`] lists what is left.
//! * **Restart**: `cache::rebuild`, then [`Machine::resume`] with what it offers.
//!
//! # Invariants
//! * `shared` is equal on all ranks whenever a rank is outside a conference; reports carry its
//!   digest, and a difference ends the agreements on all ranks at once.
//! * A write after this rank voted for something that confirms a dataset goes to the next
//!   generation. A write to any other sealed dataset revokes the record first.
//! * Only confirmed datasets make others be evicted and deletions be published, or are due for a
//!   flush. (A provisional one that the restart found is flushed if the program still sees a file
//!   in it that nothing newer has.)
//!
//! # Where things are
//! `terms` has the words, `state` what one rank knows, `matters` what is known and done of single
//! matters; `conference` judges from these. The files beside them are [`Machine`]: what
//! is called from outside, and in which order the rest is called.

#![allow(missing_docs, reason = "it is public for tests/core: a name that says all has no comment")]

mod agreeing;
mod concluding;
mod conference;
mod deciding;
mod explicit;
mod left_out;
mod matters;
mod meeting;
mod opening;
mod parts;
mod program;
mod queries;
mod removing;
mod renaming;
mod sharing;
mod state;
mod terms;

pub use crate::streams::SyncKind;
pub(crate) use matters::logs::Restless;
pub use matters::others::{Contested, Overheard};
pub(crate) use matters::others::{contested_reason, parted_reason, unclear_reason};
pub use matters::verdicts::{Act, Course, OfNode, by_stamp, judge};
pub use parts::Machine;
pub(crate) use program::Idle;
pub use program::{Call, Need, NeedLimits, ProgramState};
pub(crate) use state::SharedDataset;
pub use state::{DatasetState, Routing, WORDS};
pub use terms::{
    Accesses, CompleteBy, DatasetKey, Deletion, FileRef, FileShare, Gone, Hints, Intent, Knowledge,
    MachineConfig, Next, Offer, Outcome, OutputSeries, Overdue, Placed, Placement, Reason,
    Rejected, Report, RestartDecision, RestoredFiles, Resumed, SealPlan, SeriesConfig, Step,
    StoreTurns, Why, Withdrawn, name_hash, set_hash,
};
pub(crate) use terms::{Habit, mask_numbers};
