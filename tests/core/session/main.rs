//! Real sessions in one process: a job of N ranks, threads that talk by `comm::threads`, on M
//! nodes, each a directory on a RAM disk, and one prefix.
//!
//! | file | job |
//! |---|---|
//! | `cluster.rs` | nodes and prefix; a launch of ranks on them |
//! | `afresh.rs` | what somebody else does to the prefix between two runs |
//! | `aside.rs` | checkpoints that are encoded beside the program |
//! | `ensembles.rs` | several simulations in one job |
//! | `door.rs` | the host: what the shim does with the session's answers |
//! | `paths.rs` | its calls that name a file |
//! | `program.rs` | a program that writes checkpoints and goes on from its newest one |
//! | `sim.rs` | one whose result depends on every step of it |
//! | `scene.rs` | the same program without SCR, and what is on the prefix |
//! | `both_doors.rs` | programs that call SCR under the shim |
//! | `calls.rs` | programs that call SCR themselves |
//! | `calls_shared.rs` | files that several ranks write by calls |
//! | `calls_lost.rs` | the same with lost nodes, other ranks, a flush that nobody heard of |
//! | `life.rs` | undisturbed runs, a lost node |
//! | `deaths.rs` | ranks and nodes die, or a step fails, at every durable step |
//! | `pulled_out.rs` | the same while ranks of several nodes bring a file to the prefix |
//! | `kept.rs` | what the program keeps, and what it deletes by itself |
//! | `logged.rs` | the log of events |
//! | `record.rs` | the run record on the prefix |
//! | `restarts.rs` | with which checkpoint a run begins |
//! | `seen.rs` | files that several ranks write or change |
//! | `settings.rs` | settings that change what a run does |
//! | `generations.rs` | checkpoints without ids, under names that move |
//! | `directories.rs` | directories that get their name when all have written |
//! | `moves.rs` | names that move and go |
//! | `one_node.rs` | files that several ranks of one node write |
//! | `sizes.rs` | what is told of the size of a file of several nodes |
//! | `one_step.rs` | what a rank does to names is one step for the others |
//! | `never_quiet.rs` | logs beside checkpoints |
//! | `pointers.rs` | files and links that name the newest checkpoint |
//! | `rewritten.rs` | checkpoints whose names the next one takes |
//! | `rights.rs` | rights on the PFS, and what other users have put in the way |
//! | `bad_input.rs` | settings and records that are wrong |
//! | `theirs_first.rs` | prefixes that the C implementation has written |
//! | `temporary.rs` | files that get their name when they are complete |
//! | `unprotected.rs` | launches of which no pattern matches a file, odd names |
//! | `markers.rs` | a store fails where a checkpoint is marked as complete |
//! | `sweep/` | small random programs: what they see, and what the next run finds |
//! | `rotated.rs` | the newest states under names that move, killed at every instant |
//! | `deleted.rs` | what the program has deleted stays so |
//! | `deleted_early.rs` | what is deleted before it is complete |
//! | `sparing.rs`, `counted.rs` | what a start and a checkpoint cost, counted in calls |
//! | `written.rs` | checksums that are taken while the program writes |
//! | `same_bytes.rs` | what a start and a command make of the same caches |
//! | `faults.rs` | mistakes made on purpose are found |

#![allow(clippy::unwrap_used)] // a test that cannot go on stops

mod afresh;
mod aside;
mod bad_input;
mod both_doors;
mod calls;
mod calls_lost;
mod calls_shared;
mod cluster;
mod counted;
mod deaths;
mod deleted;
mod deleted_early;
mod directories;
mod door;
mod ensembles;
mod faults;
mod generations;
mod groups;
mod kept;
mod life;
mod logged;
mod many_nodes;
mod markers;
#[path = "../support/mortal.rs"]
mod mortal;
mod moves;
mod named_whole;
mod never_quiet;
mod one_node;
mod one_step;
mod paths;
mod pointers;
#[path = "../support/power.rs"]
mod power;
mod program;
mod pulled_out;
mod record;
mod restarts;
mod rewritten;
mod rights;
mod rotated;
mod same_bytes;
mod scene;
mod seen;
mod settings;
mod sim;
mod sizes;
mod sparing;
mod split;
mod sweep;
#[allow(dead_code, reason = "it serves other tests, too")]
#[path = "../support/syncs.rs"]
mod syncs;
mod temporary;
#[path = "../support/theirs.rs"]
mod theirs;
mod theirs_first;
mod unprotected;
mod written;
