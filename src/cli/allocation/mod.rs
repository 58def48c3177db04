//! What scripts of batch jobs ask of their allocation and its nodes.

pub mod check_node;
pub mod cntl_dir;
pub mod down_nodes;
pub mod env;
pub mod hosts;
pub mod nodes;
pub mod prerun;
pub mod retries_halt;
pub mod test_runtime;
