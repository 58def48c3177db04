//! The examples of the manual of version 1.1, by the names that it gives the commands.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use scr_core::kvtree::KvTree;

use super::{code, err, out};

/// Runs `name`, a link to the program, in `dir`.
fn classic(dir: &Path, name: &str, words: &[&str]) -> (Option<i32>, String) {
    let link = dir.join(name);
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_scr"), &link).expect("a link");
    }
    let output = Command::new(link)
        .args(words)
        .current_dir(dir)
        .env_remove("SCR_PREFIX")
        .output()
        .expect("it runs");
    assert_eq!(err(&output), "", "{name} {words:?}");
    (code(&output), out(&output))
}

#[test]
fn lists_of_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = "atlas[3,5-7,9-11]";
    let two = "atlas[3,5-7,9-11]:atlas[5,7,20]";
    for (words, want) in [
        (&["--count", atlas][..], "7\n"),
        (&["--nth", "3", atlas], "atlas6\n"),
        (&["--minus", two], "atlas[3,6,9-11]\n"),
        (&["--intersection", two], "atlas[5,7]\n"),
        (&["--expand", "atlas[3,5-6]"], "atlas3\natlas5\natlas6\n"),
        (&["--compress", "atlas6,atlas3,atlas5"], "atlas[3,5-6]\n"),
    ] {
        let got = classic(dir.path(), "scr_glob_hosts", words);
        assert_eq!(got, (Some(0), want.to_owned()), "{words:?}");
    }
}

#[test]
fn the_flush_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".scr")).unwrap();
    // That of section 9.4: 18 is in both places, 17 in caches only.
    let mut tree = KvTree::new();
    for (id, place) in [("18", "PFS"), ("18", "CACHE"), ("17", "CACHE")] {
        tree.set_kv("CKPT", id).set_kv("LOCATION", place);
    }
    let ask = |words: &[&str]| {
        let prefix = dir.path().to_str().unwrap();
        classic(dir.path(), "scr_flush_file", &[&["--dir", prefix], words].concat())
    };
    assert_eq!(ask(&["--latest"]).0, Some(1));
    tree.write_file(dir.path().join(".scr/flush.scr")).unwrap();
    assert_eq!(ask(&["--latest"]), (Some(0), "18\n".to_owned()));
    for (option, id, status) in [
        ("--id", "18", 1),
        ("--id", "17", 0),
        ("--needflush", "17", 0),
        ("--needflush", "18", 1),
        ("--id", "6", 1),
    ] {
        assert_eq!(ask(&[option, id]).0, Some(status), "{option} {id}");
    }
}

#[test]
fn the_halt_file_and_the_nodes_file() {
    let dir = tempfile::tempdir().unwrap();
    let (status, text) = classic(dir.path(), "scr_halt", &["--checkpoints", "7"]);
    assert_eq!(status, Some(0));
    assert!(text.contains("halt after 7 more checkpoints"), "{text}");
    let mut tree = KvTree::new();
    tree.set_value("NODES", 4);
    tree.write_file(dir.path().join("nodes.scr")).unwrap();
    let print = |words: &[&str]| classic(dir.path(), "scr_print_hash_file", words);
    assert_eq!(print(&["--indented", "nodes.scr"]), (Some(0), "NODES\n  4\n".to_owned()));
    assert_eq!(print(&["nodes.scr"]), (Some(0), "+- NODES = 4\n".to_owned()));
}

/// Those of figure 8 in section 10.
#[test]
fn control_and_cache_directory() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("scr_cntl_dir");
    symlink(env!("CARGO_BIN_EXE_scr"), &link).unwrap();
    for (words, want) in
        [(&[][..], "/tmp/user1/scr.1145655\n"), (&["--cache"], "/ssd/user1/scr.1145655\n")]
    {
        let output = Command::new(&link)
            .args(words)
            .current_dir(dir.path())
            .env_remove("SCR_PREFIX")
            .envs([("SCR_USER_NAME", "user1"), ("SCR_JOB_ID", "1145655")])
            .envs([("SCR_CNTL_BASE", "/tmp"), ("SCR_CACHE_BASE", "/ssd")])
            .output()
            .unwrap();
        assert_eq!((code(&output), &*out(&output)), (Some(0), want), "{}", err(&output));
    }
}

/// That of sections 5.2, 7.3.2, 8.1 and 10: four ranks, checkpoint 6, of which scr_copy has brought
/// all but what rank 2 had.
#[test]
fn the_checkpoint_directory() {
    let dir = tempfile::tempdir().unwrap();
    let name = "scr.2011-02-28_12:36:50.1145655.6";
    let checkpoint = dir.path().join(name);
    older_directory(&checkpoint);
    // Section 9.6's command on the XOR file's header.
    let xor = format!("{name}/1_of_4_in_0.xor");
    let (status, text) = classic(dir.path(), "scr_print_hash_file", &["--indented", &xor]);
    assert_eq!(status, Some(0));
    assert!(text.contains("CKPT\n  6\n") && text.contains("GROUP\n  RANK\n    0\n"), "{text}");

    let prefix = dir.path().to_str().unwrap();
    let add = ["--prefix", prefix, "--add", name];
    let got = classic(dir.path(), "scr_index", &add);
    let unchecked = "6 of the files that they were rebuilt from have no checksum in their .scr \
                     files: nobody can tell whether those are as they were written";
    let want =
        format!("rebuilt: the files of rank 2\n{unchecked}\nthe index has {name} (dataset 6)\n");
    assert_eq!(got, (Some(0), want));
    assert_eq!(std::fs::read(checkpoint.join("rank_2.ckpt")).unwrap(), b"rank 2");
    for sidecar in ["rank_2.ckpt.scr", "3_of_4_in_0.xor.scr", "2.scrfilemap"] {
        let file = format!("{name}/{sidecar}");
        assert_eq!(classic(dir.path(), "scr_print_hash_file", &[&file]).0, Some(0), "{sidecar}");
    }
    // In place of the symbolic link scr.current of section 10.
    let current = ["current", name, "--prefix", prefix];
    assert_eq!(classic(dir.path(), "scr_index", &current).0, Some(0));
    // Section 11.10.5: one that is indexed already is a success.
    assert_eq!(classic(dir.path(), "scr_index", &add).0, Some(0));
    let (status, text) = classic(dir.path(), "scr_index", &["--list", "--prefix", prefix]);
    assert_eq!(status, Some(0));
    assert!(text.lines().any(|line| line.contains(name) && line.contains("complete")), "{text}");
    let verify = ["verify", "--prefix", prefix];
    assert_eq!(classic(dir.path(), "scr_index", &verify).0, Some(0));
}

/// Rank r wrote `rank_<r>.ckpt`, six bytes of text; two make a chunk.
fn older_directory(dir: &Path) {
    std::fs::create_dir(dir).expect("a directory");
    let data = |rank: usize| format!("rank {rank}").into_bytes();
    let meta = |name: &str, kind: &str, size: usize, rank: usize| {
        let mut tree = KvTree::new();
        let fields = [("FILE", name), ("TYPE", kind), ("COMPLETE", "1"), ("CKPT", "6")];
        fields.iter().for_each(|(key, value)| tree.set_value(key, value));
        let numbers = [("SIZE", size), ("RANKS", 4), ("RANK", rank)];
        numbers.iter().for_each(|(key, value)| tree.set_value(key, value));
        tree
    };
    let list = |rank: usize| {
        let mut tree = KvTree::new();
        tree.set_value("RANK", rank);
        tree.set_value("FILES", 1);
        tree.child_mut("FILE").set(0, meta(&format!("rank_{rank}.ckpt"), "FULL", 6, rank));
        tree
    };
    for rank in [0, 1, 3] {
        let mut header = KvTree::new();
        [("CKPT", 6), ("RANKS", 4), ("CHUNK", 2)].iter().for_each(|(k, v)| header.set_value(k, v));
        let group = header.child_mut("GROUP");
        group.set_value("RANKS", 4);
        (0..4).for_each(|member| group.child_mut("RANK").set_value(member, member));
        header.set("CURRENT", list(rank));
        header.set("PARTNER", list((rank + 3) % 4));
        let (name, xor) = (format!("rank_{rank}.ckpt"), format!("{}_of_4_in_0.xor", rank + 1));
        header.write_file(dir.join(&xor)).expect("a header");
        let mut bytes = std::fs::read(dir.join(&xor)).expect("a header");
        let of = |other: usize, at: usize| {
            let piece = if rank < other { rank } else { rank - 1 };
            data(other)[piece * 2 + at]
        };
        let others = || (0..4).filter(|other| *other != rank);
        bytes.extend((0..2).map(|at| others().fold(0, |sum, other| sum ^ of(other, at))));
        std::fs::write(dir.join(&xor), &bytes).expect("a parity file");
        std::fs::write(dir.join(&name), data(rank)).expect("a file");
        let mut filemap = KvTree::new();
        let fields = filemap.set_kv("RANK", rank).set_kv("CKPT", 6);
        fields.set_value("EXPECT", 2);
        for (name, kind, size) in [(&name, "FULL", 6), (&xor, "XOR", bytes.len())] {
            fields.child_mut("FILE").child_mut(name);
            let sidecar = meta(name, kind, size, rank);
            sidecar.write_file(dir.join(format!("{name}.scr"))).expect("a sidecar");
        }
        filemap.write_file(dir.join(format!("{rank}.scrfilemap"))).expect("a filemap");
    }
}
