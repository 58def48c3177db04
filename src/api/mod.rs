//! The C face of the engine: [`shim`] for the preload library.

pub mod shim;

/// The contract with the preload library, compiled into both.
#[allow(dead_code, reason = "each side uses its half of the contract")]
#[path = "../../preload/src/abi.rs"]
pub mod abi;
