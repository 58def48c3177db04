//! A file that a child of the rank writes beside it.

use std::path::Path;
use std::time::{Duration, Instant};

/// The child opens the file as soon as it has the answer, if it lives.
pub const GRACE: Duration = Duration::from_secs(1);

/// A token for what a child has open.
#[derive(Debug)]
pub struct Loan {
    pub token: u64,
    /// The process that asked; 0 if it cannot be seen.
    child: i32,
    since: Instant,
}

impl Loan {
    pub fn new(token: u64, child: i32) -> Loan {
        Loan { token, child, since: Instant::now() }
    }

    /// Tells whether the child may be about to open the file.
    pub fn is_new(&self) -> bool {
        let lives = || self.child == 0 || Path::new(&format!("/proc/{}", self.child)).exists();
        self.since.elapsed() < GRACE && lives()
    }
}
