//! Has the programs find libscr.so where it was when they were built.

fn main() {
    if let Ok(lib) = std::env::var("DEP_SCR_LIB") {
        println!("cargo:rustc-link-arg-bins=-Wl,-rpath,{lib}");
    }
}
