//! One binary for the tests of `scr-core`; each topic is a file beside this one.

#![allow(clippy::unwrap_used)] // a test that cannot go on stops

mod cache;
mod comm_threads;
mod comm_trees;
mod descriptors;
mod events;
mod files_copy;
mod kvtree;
mod machine;
mod machine_end;
mod machine_explicit;
mod machine_failed;
mod machine_failing;
mod machine_ids;
mod machine_in_place;
mod machine_loud;
mod machine_others;
mod machine_output;
mod machine_overdue;
mod machine_pointer;
mod machine_rotation;
mod machine_trust;
mod metadata;
mod params;
mod params_used;
mod patterns;
mod records;
mod redundancy;
mod scale;
mod streams;
mod support;
mod theirs;
