//! The state machine of one rank: where files go, when a dataset is sealed, confirmed, flushed,
//! evicted. Pure: events in, actions and steps out; time, epochs and outcomes are given in.
//!
//! # How a caller drives it
//! * **File events** ([`Machine::write_open`] ... [`Machine::renamed`]) at any time, from any
//!   thread, under one lock. What an answer asks for (a first record, a revocation) is done
//!   durably, *with the lock held*, before the program's call goes on.
//! * **Sync points**: [`Machine::pass`]; if they carry an agreement, all-reduce [`Machine::words`]
//!   (maximum) and call [`Machine::agreed`]. On [`Next::Confer`]: gather every rank's
//!   [`Machine::report`], call [`Machine::confer`], then perform the steps.
//!   [`Machine::end_turn`] when all that is done.
//! * **Steps**: while [`Machine::next_step`] gives one, carry it out and call [`Machine::done`].
//!   The lock is not held while a step communicates.
//!   * [`Step::Seal`]: take [`Machine::seal_files`]; checksums, redundancy, catalog. Then, in one
//!     locked section: if [`Machine::seal_record`] says yes, write the record (state Prepared, with
//!     epoch, and confirmed if planned) durably; and take [`Machine::vote`]. All-reduce the votes
//!     (maximum of [`Outcome::to_word`]). If `Done`: node leaders rename the directory (and write
//!     the confirmed marker if planned), all-reduce again, then [`Machine::done`].
//!   * [`Step::Encode`]: agree on whether all ranks have begun. When this rank's part has ended,
//!     [`Machine::encoded`]; an agreement tells when all have, and a conference decides on
//!     [`Step::Seal`], or, if the program has changed something, [`Step::Discard`]. What comes
//!     before that end (the next dataset, a halt, the program's end) makes it wait.
//!   * [`Step::Confirm`]: [`Machine::vote`], all-reduce, leaders write the marker, all-reduce,
//!     [`Machine::done`]. The all-reduce before `done` is what makes a following eviction safe.
//!   * [`Step::Flush`]: [`Machine::is_left_out`] says what not to write, [`Machine::files_along`]
//!     what goes along of older ones; agree on the outcome.
//!   * [`Step::Spill`]: write the files that the step names; [`Machine::moved_to_prefix`] for each
//!     that is there; agree on the outcome.
//!   * The others are local; `done` with `Outcome::Done`.
//! * **The end** (in MPI_Finalize): [`Machine::begin_end`], then gather, confer and perform the
//!   steps once, unconditionally; [`Machine::end`]. Afterwards every file is
//!   [`Placement::Pass`], and [`Machine::overdue`] lists what is left.
//! * **Restart**: `cache::rebuild`, then [`Machine::resume`] with what it offers.
//!
//! # Invariants
//! * `shared` is equal on all ranks whenever a rank is outside a conference; reports carry its
//!   digest, and a difference ends the agreements on all ranks at once.
//! * A write after this rank voted for something that confirms a dataset never changes it: it goes
//!   to the next generation. A write to any other sealed dataset revokes the record first.
//! * Only confirmed datasets make others be evicted and deletions be published, or are due for a
//!   flush. (A provisional one that the restart found is flushed if the program still sees a file
//!   in it that nothing newer has.)
//!
//! [perform]: Machine::next_step
//!
//! # Where things are
//! `terms` has the words, `state` what one rank knows, `matters` what is known and done of single
//! matters, each by itself; `prefix` and `conference` judge from these. The files beside them are
//! [`Machine`]: what is called from outside, and in which order the rest is called. Each uses what
//! comes before it here.

mod agreeing;
mod concluding;
mod conference;
mod deciding;
mod explicit;
mod matters;
mod meeting;
mod opening;
mod parts;
mod prefix;
mod program;
mod queries;
mod removing;
mod renaming;
mod sharing;
mod state;
mod terms;

pub use crate::streams::SyncKind;
pub use matters::logs::Restless;
pub use matters::others::{Contested, Overheard, contested_reason, parted_reason};
pub use parts::Machine;
pub use program::{Call, Idle, Need, NeedLimits, ProgramState};
pub use state::{DatasetState, Routing, SharedDataset, WORDS};
pub use terms::{
    Accesses, CLEAN_SEALS, CONFERENCE_MS, CompleteBy, DatasetKey, DatasetReport, Deletion,
    EncodingReport, FileRef, Gone, Habit, Hints, Intent, Knowledge, LeftAlone, LeftBehind,
    MachineConfig, Next, Offer, Outcome, OutputSeries, Overdue, Placed, Placement, ProgramWord,
    Reason, Rejected, Renamed, Report, RestartDecision, RestoredFiles, Resumed, SETTLE_MS_MAX,
    SYNC_POINTS_MAX, SealFile, SealPlan, SealedNews, SealedReport, SeriesConfig, SeriesReport,
    SetReport, Step, StoreTurns, UnsafeName, Why, Withdrawn, kind_hash, name_hash, set_hash,
};
