//! The codes that parity is made by.

/// A code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// One parity piece, the plain sum.
    Xor,
    /// Any number of them.
    ReedSolomon,
}

impl Code {
    pub(super) fn name(self) -> &'static str {
        match self {
            Code::Xor => "XOR",
            Code::ReedSolomon => "RS",
        }
    }
}
