//! What of the library Rust cannot say: a function with a variable number of arguments, and its
//! name for the loader, which programs that were linked with another build of it ask for, too.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/api/configf.c");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libscr.so");
    cc::Build::new().file("src/api/configf.c").warnings(true).debug(false).compile("scr_configf");
}
