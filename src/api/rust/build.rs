//! Where libscr.so is: below SCR_ROOT, or below the prefix in whose share/scr/rust this is
//! installed; else the linker looks where it always does.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=SCR_ROOT");
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = env::var_os("SCR_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(Path::new(&here).ancestors().nth(3)?.to_path_buf()));
    let Some(lib) = root.map(|root| root.join("lib")) else { return };
    if lib.join("libscr.so").exists() {
        println!("cargo:rustc-link-search=native={}", lib.display());
        // The program's own build script gets it as DEP_SCR_LIB.
        println!("cargo:lib={}", lib.display());
    }
}
