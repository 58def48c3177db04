//! The engine that the preload shim opens, and the SCR library.
