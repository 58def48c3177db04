//! What the shim tells the session that is about more than one of its parts.
//!
//! | file | job |
//! |---|---|
//! | `hooked.rs` | what the hooks report of the process |
//! | `children.rs` | what processes of a rank ask |

pub(super) mod children;
pub(super) mod hooked;
