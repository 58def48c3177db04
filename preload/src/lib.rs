//! The preload shim of SCR.
