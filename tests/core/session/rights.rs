//! Rights of files on the PFS, and what other users may have put in the way.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::scene::place;
use super::sim::steady;

const ALL: &str = "SCR_FLUSH=1";

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Gives a directory the default ACL u::rwx, g::r-x, o::---.
fn close_to_others(dir: &Path) {
    let entries = "b''.join(struct.pack('<HHI', tag, bits, 0xffffffff) \
                   for tag, bits in ((1, 7), (4, 5), (0x20, 0)))";
    let code = format!(
        "import os, struct, sys; os.setxattr(sys.argv[1], 'system.posix_acl_default', \
         struct.pack('<I', 2) + {entries})"
    );
    let done = Command::new("python3").args(["-c", &code]).arg(dir).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_file_has_the_rights_that_the_default_acl_of_its_directory_gives() {
    for settings in [&[ALL][..], &[ALL, "SCR_FLUSH_ASYNC=1"], &[ALL, "SCR_LEARN=0"]] {
        let mut cluster = place(&[]);
        let ckpt = cluster.prefix().join("ckpt");
        fs::create_dir(&ckpt).unwrap();
        close_to_others(&ckpt);
        fs::write(ckpt.join("as it is without us"), "").unwrap();
        assert_eq!(mode(&ckpt.join("as it is without us")), 0o640);
        cluster.run_with(settings, "aa", |rank| steady(20, 5).run(rank)).all();
        for step in [5, 10, 15, 20] {
            for rank in 0..2 {
                let path = ckpt.join(format!("step_{step}/rank_{rank}.dat"));
                assert_eq!(mode(&path), 0o640, "{settings:?}: {}", path.display());
            }
        }
    }
}

#[test]
fn what_a_planted_link_leads_to_is_left_as_it_is() {
    let mut cluster = place(&[]);
    let state = cluster.prefix().join(".scr");
    let victim = cluster.prefix().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&state).unwrap();
    for name in ["lease", "index.scr", "index.scr.lock", "flush.scr", "run.scr", "learned.scr"] {
        symlink(&victim, state.join(name)).unwrap();
    }
    let got = cluster.run_with(&[ALL], "aa", |rank| steady(20, 5).run(rank));
    let plain = place(&[]).run_plain("aa", |rank| steady(20, 5).run(rank));
    assert_eq!(got.first().checksum, plain.first().checksum);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(got.told.iter().any(|line| line.contains("lease")), "{:?}", got.told);
}

#[test]
fn a_link_in_the_place_of_our_folder_is_not_followed() {
    let mut cluster = place(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), cluster.prefix().join(".scr")).unwrap();
    let got = cluster.run_with(&[ALL], "aa", |rank| steady(20, 5).run(rank));
    assert_eq!(got.first().restart, 0);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert!(got.told.iter().any(|line| line.contains("a link")), "{:?}", got.told);
}
