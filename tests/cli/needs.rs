//! What `make` asks for on a machine that lacks it: by the programs that are there, whatever system
//! it is.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// A machine that has a few of the usual programs, no dpkg and no apt-get, and the scripts given.
fn asks(scripts: &[(&str, &str)], wanted: &[&str]) -> (bool, String) {
    let bin = tempfile::tempdir().expect("a directory");
    for name in ["mktemp", "rm", "cut", "grep", "sort", "id"] {
        let place = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name));
        let found = place.iter().find(|path| path.exists()).expect(name);
        symlink(found, bin.path().join(name)).expect("a link");
    }
    for (name, text) in scripts {
        let path = bin.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/needs.sh");
    let told = Command::new("/bin/sh")
        .args([script, "1.89"])
        .args(wanted)
        .env_clear()
        .env("PATH", bin.path())
        .output()
        .expect("a shell");
    let text = [told.stdout, told.stderr].concat();
    (told.status.success(), String::from_utf8(text).expect("text"))
}

const CC: (&str, &str) = ("cc", "exit 0");
const CARGO: (&str, &str) = ("cargo", "echo cargo 1.95.0");

fn names(text: &str, package: &str) -> bool {
    ["apt-get", "dnf", "zypper"]
        .iter()
        .all(|with| text.contains(&format!("{with} install {package}")))
}

#[test]
fn a_compiler_and_rust_are_all_that_a_build_needs() {
    assert_eq!(asks(&[CC, CARGO], &["some"]), (true, String::new()));
    let (done, told) = asks(&[CARGO], &["some"]);
    assert!(!done && names(&told, "gcc"), "{told}");
    for (cargo, version) in [(&[CC][..], "0"), (&[CC, ("cargo", "echo cargo 1.75.0")], "1.75.0")] {
        let (done, told) = asks(cargo, &["some"]);
        let wanted = format!("Rust 1.89 or newer is needed (cargo here: {version})");
        assert!(!done && told.contains(&wanted) && told.contains("rustup-init.sh"), "{told}");
    }
}

#[test]
fn what_a_target_needs_beside_is_named_by_package() {
    let wanted = ["some", "python3-pip", "binutils"];
    let (done, told) = asks(&[CC, CARGO], &wanted);
    assert!(!done && names(&told, "python3-pip binutils"), "{told}");
    let there = ["objcopy", "objdump", "strip", "python3"].map(|name| (name, "exit 0"));
    assert_eq!(asks(&[&there[..], &[CC, CARGO]].concat(), &wanted), (true, String::new()));
    let (done, told) = asks(&[CC, CARGO], &["all", "cmake"]);
    assert!(!done && told.contains("the tests need Debian"), "{told}");
}
