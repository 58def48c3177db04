//! The commands, with files that the ranks of several nodes have written together.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use scr_core::cache;
use scr_core::records::{FilePart, RecordKey};

use super::exec::with_own_part;
use super::{Nodes, json};
use crate::cluster::{Cluster, key, record_open};
use crate::together::{WHOLE, extents, seal, whole};
use crate::{code, err, out};

/// Six ranks on three nodes: each set is across them.
const HOSTS: &str = "abcabc";

/// `live` tells whose bytes lie in the file that the ranks of a node write.
fn nodes(scheme: &str, live: impl Fn(usize) -> bool + Sync) -> Nodes {
    let cluster = Cluster::with_real_names();
    let prefix = cluster.prefix().canonicalize().unwrap();
    let identity = format!("{} | 6 | ckpt=a/{{id}}", prefix.display());
    let outcome = cluster.launch(HOSTS).run(|ctx| {
        cache::rebuild(ctx, &identity).unwrap();
        seal(ctx, scheme, &live).unwrap();
    });
    assert!(outcome.results.iter().all(Option::is_some));
    fs::create_dir(cluster.base()).unwrap();
    Nodes { cluster, datasets: Vec::new() }
}

impl Nodes {
    /// The file that has a rank's part.
    fn part(&self, rank: usize, live: bool) -> PathBuf {
        let dir = self.cluster.layout(&HOSTS[rank..=rank]);
        let dir = dir.dataset_dir(&self.cluster.store(), 1);
        dir.join(if live { WHOLE.to_owned() } else { FilePart::file_name(rank, WHOLE) })
    }

    fn whole_is_right(&self) {
        let read = self.run(&["cat", WHOLE]);
        assert_eq!(code(&read), Some(0), "{}", err(&read));
        assert!(read.stdout == whole(6), "another content");
        self.assert_clean();
    }
}

fn flip(path: &PathBuf, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn it_is_one_file_and_comes_as_a_whole() {
    for live in [|_| true, |_| false, |rank| rank % 3 == 0] {
        let nodes = nodes("XOR", live);
        let names = out(&nodes.run(&["ls"]));
        let own = (0..6).map(|rank| format!("ckpt/10/rank_{rank}\n"));
        assert_eq!(names, format!("{WHOLE}\n{}", own.collect::<String>()));
        let told = json(&nodes.run(&["ls", "--json", WHOLE]));
        let (all, one) = (whole(6), &told[0]);
        assert_eq!((&one["bytes"], &one["rank"]), (&all.len().into(), &0.into()), "{told}");
        // Nobody has read it as a whole before it goes to the prefix.
        assert!(one["crc32"].is_null(), "{told}");
        assert_eq!(one["where"], "a,b,c");
        nodes.whole_is_right();
        let copies = tempfile::tempdir().unwrap();
        let to = copies.path().to_str().unwrap();
        let copied = nodes.run(&["cp", "-r", "ckpt.10", to]);
        assert_eq!(code(&copied), Some(0), "{}", err(&copied));
        let copy = copies.path().join(WHOLE);
        assert!(fs::read(&copy).unwrap() == all);
        let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions();
        assert_eq!(mode(&copy), mode(&nodes.part(0, live(0))));
        assert_eq!(fs::read(copies.path().join("ckpt/10/rank_4")).unwrap(), b"own 4");
        let verified = nodes.run(&["verify"]);
        assert_eq!(code(&verified), Some(0), "{}{}", out(&verified), err(&verified));
        assert!(out(&verified).contains("(13 files"), "with redundancy: {}", out(&verified));
        nodes.assert_clean();
    }
}

#[test]
fn a_command_sees_the_whole_file() {
    for live in [true, false] {
        let nodes = nodes("XOR", |_| live);
        let list = format!("{},b,c", with_own_part(&nodes));
        let seen = nodes.exec(&list, &["--", "sh", "-c", "cat ckpt/10/all ckpt/10/rank_1"]);
        assert_eq!(code(&seen), Some(0), "{}", err(&seen));
        assert!(seen.stdout == [whole(6), b"own 1".to_vec()].concat());
        // This node has a part of it only.
        let here = nodes.exec(&list, &["--here", "--", "sh", "-c", "ls ckpt/10"]);
        assert_eq!(out(&here), "rank_0\nrank_3\n", "{}", err(&here));
        nodes.assert_clean();
    }
}

#[test]
fn what_is_missing_is_named_and_comes_back() {
    for (scheme, live) in [("XOR", true), ("XOR", false), ("PARTNER", true), ("RS2", true)] {
        let nodes = nodes(scheme, |_| live);
        nodes.cluster.lose("b");
        let told = json(&nodes.run(&["ls", "--json", WHOLE]));
        assert_eq!((&told[0]["where"], told.as_array().unwrap().len()), (&"a,c,nowhere".into(), 1));
        for words in [&["cat", WHOLE][..], &["cp", WHOLE, "/dev/shm"]] {
            let refused = nodes.run(words);
            assert_eq!((code(&refused), out(&refused)), (Some(1), String::new()));
            let named = ["ckpt/10/all", "the part of ranks 1, 4", "not asked: b"];
            let told = err(&refused);
            assert!(named.iter().all(|part| told.contains(part)), "{told}");
        }
        let seen = nodes.exec("a,b,c", &["--", "sh", "-c", "ls ckpt/10"]);
        assert_eq!(out(&seen), "rank_0\nrank_2\nrank_3\nrank_5\n", "{}", err(&seen));
        let scavenged = nodes.run(&["scavenge"]);
        assert_eq!(code(&scavenged), Some(0), "{}{}", out(&scavenged), err(&scavenged));
        assert!(fs::read(nodes.cluster.prefix().join(WHOLE)).unwrap() == whole(6));
        let told = json(&nodes.run(&["ls", "--json", WHOLE]));
        assert_eq!((&told[0]["where"], told.as_array().unwrap().len()), (&"prefix".into(), 1));
        nodes.whole_is_right();
    }
}

#[test]
fn a_damaged_part_is_named_and_repaired() {
    for (scheme, live) in [("XOR", true), ("XOR", false), ("PARTNER", true), ("RS2", false)] {
        let nodes = nodes(scheme, |_| live);
        let place = extents(1, 6).iter().next().unwrap().begin + 33;
        let path = nodes.part(1, live);
        flip(&path, if live { place } else { 33 });
        let read = nodes.run(&["cat", WHOLE]);
        assert_eq!(code(&read), Some(1));
        let told = err(&read);
        assert!(told.contains("the part of rank 1: b") && told.contains("scr verify"), "{told}");
        let line = format!("b, rank 1: its part of {WHOLE} has another checksum");
        let found = nodes.run(&["verify"]);
        assert!(code(&found) == Some(1) && out(&found).contains(&line), "{}", out(&found));
        let damage = &json(&nodes.run(&["verify", "--json"]))["caches"]["datasets"][0]["damage"][0];
        assert_eq!((&damage["file"], &damage["part"]), (&WHOLE.into(), &true.into()));
        let repaired = nodes.run(&["verify", "--repair"]);
        let line = format!("b, rank 1: {WHOLE}; wrong were the bytes {place}-{place}\n");
        assert!(out(&repaired).contains(&line), "{}", out(&repaired));
        nodes.whole_is_right();

        // All that the ranks of a node have written together.
        match live {
            true => fs::remove_file(&path).unwrap(),
            false => [1, 4].iter().for_each(|rank| {
                File::options()
                    .write(true)
                    .open(nodes.part(*rank, live))
                    .unwrap()
                    .set_len(7)
                    .unwrap();
            }),
        }
        let found = nodes.run(&["verify", "--sizes"]);
        assert_eq!(code(&found), Some(1), "{}", out(&found));
        assert_eq!(out(&found).matches("its part of").count(), 2, "{}", out(&found));
        let repaired = nodes.run(&["verify", "--repair"]);
        assert_eq!(code(&repaired), Some(0), "{}{}", out(&repaired), err(&repaired));
        nodes.whole_is_right();
    }
}

#[test]
fn what_nodes_are_writing_is_shown_once_and_not_read() {
    let nodes = nodes("XOR", |_| true);
    let identity =
        format!("{} | 6 | ckpt=a/{{id}}", nodes.cluster.prefix().canonicalize().unwrap().display());
    nodes.cluster.launch(HOSTS).run(|ctx| {
        cache::rebuild(ctx, &identity).unwrap();
        let key = RecordKey { id: "50".into(), ..key(10) };
        let store = nodes.cluster.store();
        record_open(ctx, &key, &store).unwrap();
        let dir = ctx.layout.open_dir(&store, &key).join("ckpt/5");
        fs::create_dir_all(&dir).unwrap();
        let bytes = usize::from(ctx.host.as_bytes()[0]);
        fs::write(dir.join("all"), vec![b'x'; bytes]).unwrap();
    });
    let listed = nodes.run(&["ls", "--all", "--unsealed", "-l", "ckpt/5"]);
    assert_eq!(out(&listed).matches("ckpt/5/all").count(), 1, "{}", out(&listed));
    assert!(out(&listed).contains("a,b,c"), "{}", out(&listed));
    let read = nodes.run(&["cat", "--unsealed", "ckpt/5/all"]);
    assert_eq!((code(&read), out(&read)), (Some(1), String::new()));
    assert!(err(&read).contains("a, b, c are writing it together"), "{}", err(&read));
}

/// What a person has copied of nodes a and c: whole nodes, or the datasets alone, or those into one
/// directory, where one node's file takes the place of another's.
fn copied(nodes: &Nodes, how: &str) -> Vec<PathBuf> {
    let dataset = |host: &str| nodes.cluster.layout(host).dataset_dir(&nodes.cluster.store(), 1);
    let merged = nodes.cluster.prefix().with_file_name("merged");
    for host in ["a", "c"].into_iter().filter(|_| how == "merged") {
        fs::create_dir_all(&merged).unwrap();
        let mut copy = Command::new("cp");
        let status = copy.arg("-a").arg(dataset(host).join(".")).arg(&merged).status();
        assert!(status.unwrap().success());
    }
    match how {
        "merged" => vec![merged],
        "nodes" => ["a", "c"].map(|host| nodes.cluster.node(host)).into(),
        _ => ["a", "c"].map(dataset).into(),
    }
}

#[test]
fn copies_of_the_nodes_give_the_whole_file() {
    for (scheme, live, how) in [
        ("XOR", true, "nodes"),
        ("XOR", true, "datasets"),
        ("XOR", false, "nodes"),
        ("XOR", false, "datasets"),
        ("XOR", false, "merged"),
        ("PARTNER", true, "nodes"),
        ("PARTNER", true, "datasets"),
        ("PARTNER", false, "merged"),
        ("RS2", true, "merged"),
    ] {
        let nodes = nodes(scheme, |_| live);
        let dirs = copied(&nodes, how);
        let mut rebuild = nodes.command(&["rebuild"]);
        let rebuilt = rebuild.args(dirs).output().unwrap();
        let told = format!("{scheme} {live} {how}: {}{}", out(&rebuilt), err(&rebuilt));
        assert_eq!(code(&rebuilt), Some(0), "{told}");
        assert!(fs::read(nodes.cluster.prefix().join(WHOLE)).unwrap() == whole(6), "{told}");
        assert_eq!(code(&nodes.run(&["verify", "--only", "prefix"])), Some(0));
    }
    // Of two parts that are lost XOR brings none back, and no file comes that is not whole.
    let nodes = nodes("XOR", |_| true);
    let mut rebuild = nodes.command(&["rebuild"]);
    let rebuilt = rebuild.args(copied(&nodes, "merged")).output().unwrap();
    assert_eq!(code(&rebuilt), Some(1), "{}", out(&rebuilt));
    assert!(!nodes.cluster.prefix().join(WHOLE).exists());
}
