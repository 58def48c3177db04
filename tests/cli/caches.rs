//! `scr verify`, `ls`, `cat`, `cp`, `exec` on nodes that are directories: a remote shell makes a
//! mount namespace in which the node's directories are where the settings say.

mod exec;
mod parts;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use scr_core::cache;
use scr_core::files::lease;
use scr_core::records::{Record as _, RunRecord};
use serde_json::Value;

use super::cluster::{Cluster, JOB, record_open};
use super::written::Dataset;
use super::{code, err, out, scr};

/// Four ranks on three nodes, sealed under each scheme.
struct Nodes {
    cluster: Cluster,
    datasets: Vec<Dataset>,
}

const PLACEMENT: &str = "abcc";

fn identity(cluster: &Cluster) -> String {
    format!("{} | 4 | ckpt=a/{{id}}", cluster.prefix().canonicalize().unwrap().display())
}

fn dataset(cluster: &Cluster, id: u64, scheme: &'static str) -> Dataset {
    // Rank 1 has an empty file, too.
    let sizes = vec![vec![3000, 10], vec![0, 5000], vec![4097], vec![70_000]];
    let store = Box::leak(cluster.store().into_boxed_str());
    Dataset { id, scheme: (scheme, 1), set_size: 2, group: "NODE", store, sizes }
}

impl Nodes {
    fn new(schemes: &[&'static str]) -> Nodes {
        let cluster = Cluster::with_real_names();
        let number = 1..;
        let datasets: Vec<Dataset> =
            number.zip(schemes).map(|(id, scheme)| dataset(&cluster, id, scheme)).collect();
        cluster.launch(PLACEMENT).run(|ctx| {
            cache::rebuild(ctx, &identity(&cluster)).unwrap();
            datasets.iter().for_each(|dataset| dataset.write(ctx).unwrap());
        });
        fs::create_dir(cluster.base()).unwrap();
        Nodes { cluster, datasets }
    }

    fn command(&self, words: &[&str]) -> Command {
        let shell = self.cluster.prefix().with_file_name("shell");
        let users = if scr_core::system::user_id() == 0 { "-m" } else { "-rm" };
        let (nodes, base) = (self.cluster.node(""), self.cluster.base());
        let (nodes, base) = (nodes.display(), base.display());
        // The command comes as one word, as it does with ssh.
        let text = format!(
            "#!/bin/sh\n[ -d {nodes}/$1{base} ] || {{ echo no route >&2; exit 255; }}\nexec \
             unshare {users} sh -c 'mount --bind {nodes}/$0{base} {base} && exec sh -c \"$1\"' \
             \"$1\" \"$2\"\n"
        );
        fs::write(&shell, text).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = scr(&self.cluster.prefix(), words);
        command.env("SCR_REMOTE_SHELL", shell).env("SCR_NODELIST", "a,b,c");
        command.env("SCR_USER_NAME", JOB.0).env("SCR_JOB_ID", JOB.1);
        command.env("SCR_CNTL_BASE", self.cluster.base().join("control"));
        command.env("SCR_CACHE_BASE", self.cluster.store());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    /// A rank's file as its node has it.
    fn file(&self, id: u64, rank: usize, part: usize) -> PathBuf {
        let host = &PLACEMENT[rank..=rank];
        let dir = self.cluster.layout(host).dataset_dir(&self.cluster.store(), id);
        dir.join(format!("ckpt/{id}/part_{part}/rank_{rank}"))
    }

    fn content(&self, id: u64, rank: usize) -> BTreeMap<String, Vec<u8>> {
        self.datasets[id as usize - 1].content(rank)
    }

    fn flip(&self, id: u64, rank: usize, part: usize, at: usize) {
        let path = self.file(id, rank, part);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    }

    /// Nothing is left of what came from the nodes.
    fn assert_clean(&self) {
        assert!(!self.cluster.prefix().join(".scr/outside").exists());
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&out(output)).unwrap_or_else(|e| panic!("{e}: {}", err(output)))
}

#[test]
fn a_damaged_file_is_named_and_rebuilt() {
    for scheme in ["XOR", "PARTNER", "RS"] {
        let nodes = Nodes::new(&[scheme]);
        let right = nodes.run(&["verify"]);
        assert_eq!(code(&right), Some(0), "{}{}", out(&right), err(&right));
        assert!(out(&right).contains(&format!("ckpt.10 (dataset 1, {scheme}): right")));
        let quiet = nodes.run(&["verify", "--quiet"]);
        assert_eq!((code(&quiet), out(&quiet)), (Some(0), String::new()));

        nodes.flip(1, 1, 1, 1234);
        nodes.flip(1, 1, 1, 1237);
        assert_eq!(code(&nodes.run(&["scrub", "--sizes"])), Some(0));
        let found = nodes.run(&["verify", "ckpt.10"]);
        assert_eq!(code(&found), Some(1), "{}{}", out(&found), err(&found));
        let line = "b, rank 1: ckpt/1/part_1/rank_1 has another checksum";
        assert!(out(&found).contains(line), "{}", out(&found));
        let told = json(&nodes.run(&["verify", "--json", "1"]));
        assert_eq!(told["status"], "damaged");
        let damage = &told["caches"]["datasets"][0]["damage"][0];
        assert_eq!((&damage["rank"], &damage["repairable"]), (&1.into(), &true.into()));
        assert_eq!((&damage["losses_in_set"], &damage["set_survives"]), (&1.into(), &1.into()));

        let repaired = nodes.run(&["verify", "--repair", "--quiet"]);
        assert_eq!(code(&repaired), Some(0), "{}{}", out(&repaired), err(&repaired));
        let line = "repaired: dataset 1, b, rank 1: ckpt/1/part_1/rank_1; wrong were the bytes";
        assert!(out(&repaired).contains(line), "{scheme}: {}", out(&repaired));
        assert!(out(&repaired).contains("bytes 1234-1237\n"), "{}", out(&repaired));
        let back = fs::read(nodes.file(1, 1, 1)).unwrap();
        assert_eq!(Some(&back), nodes.content(1, 1).get("ckpt/1/part_1/rank_1"));
        assert_eq!(code(&nodes.run(&["verify"])), Some(0));

        // Whatever has come in the place of a file.
        let path = nodes.file(1, 0, 0);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let found = nodes.run(&["verify", "--sizes"]);
        assert!(out(&found).contains("rank_0 is missing"), "{}", out(&found));
        assert_eq!(code(&nodes.run(&["verify", "--repair"])), Some(0));
        assert_eq!(Some(&fs::read(&path).unwrap()), nodes.content(1, 0).values().next());
        nodes.assert_clean();
    }
}

#[test]
fn what_cannot_be_repaired_is_told_by_the_status() {
    let nodes = Nodes::new(&["SINGLE", "XOR"]);
    nodes.flip(1, 2, 0, 0);
    let lost = nodes.run(&["verify", "--repair"]);
    assert_eq!(code(&lost), Some(3), "{}{}", out(&lost), err(&lost));
    assert!(out(&lost).contains("lost: SINGLE keeps no copy"), "{}", out(&lost));
    assert!(out(&lost).contains("rank_2 has another checksum"), "{}", out(&lost));
    // The other one is right.
    let other = nodes.run(&["verify", "2", "--only", "caches"]);
    assert_eq!(code(&other), Some(0), "{}{}", out(&other), err(&other));

    // While a run uses a node, or the prefix, nothing is changed there.
    nodes.flip(2, 3, 0, 7);
    let control = nodes.cluster.layout("c").control_dir.join("lease");
    fs::create_dir_all(nodes.cluster.prefix().join(".scr")).unwrap();
    for path in [control, nodes.cluster.prefix().join(".scr/lease")] {
        let held = lease::take(&path, "host a, process 1, 1700000000", Duration::ZERO, || {});
        let refused = nodes.run(&["verify", "--repair", "2"]);
        assert_eq!(code(&refused), Some(1), "{}{}", out(&refused), err(&refused));
        assert!(out(&refused).contains("a live run uses"), "{}", out(&refused));
        drop(held);
    }

    // A node that does not answer: what it has is not known.
    nodes.cluster.lose("b");
    let silent = nodes.run(&["verify", "--json", "2"]);
    assert_eq!(json(&silent)["caches"]["silent"][0]["node"], "b");
    assert_eq!(code(&silent), Some(3), "one loss more than XOR survives: {}", out(&silent));
    fs::write(nodes.file(2, 3, 0), &nodes.content(2, 3)["ckpt/2/part_0/rank_3"]).unwrap();
    let silent = nodes.run(&["verify", "2"]);
    assert_eq!(code(&silent), Some(2), "{}", out(&silent));
    assert!(out(&silent).contains("b cannot be asked"), "{}", out(&silent));
    let without = nodes.run(&["verify", "2", "--exclude", "b"]);
    assert_eq!(code(&without), Some(1), "{}", out(&without));
}

#[test]
fn records_that_are_damaged_are_told() {
    let nodes = Nodes::new(&["XOR"]);
    let catalog = nodes.cluster.layout("a").dataset_dir(&nodes.cluster.store(), 1);
    let catalog = catalog.join(".scr/catalog.scr");
    let good = fs::read(&catalog).unwrap();
    for bytes in [&b""[..], b"text", &good[..good.len() / 2]] {
        fs::write(&catalog, bytes).unwrap();
        let found = nodes.run(&["verify"]);
        assert_eq!(code(&found), Some(1), "{}{}", out(&found), err(&found));
        assert!(out(&found).contains("catalog.scr is damaged"), "{}", out(&found));
        // Another node knows the names as well.
        let listed = nodes.run(&["ls"]);
        assert_eq!(out(&listed).lines().count(), 6, "{}{}", out(&listed), err(&listed));
    }
    fs::write(&catalog, good).unwrap();
    let filemap = nodes.cluster.layout("b").control_dir.join("filemap_0.scrinfo");
    fs::write(&filemap, [0xff; 40]).unwrap();
    let found = nodes.run(&["verify"]);
    assert_eq!(code(&found), Some(1), "{}{}", out(&found), err(&found));
    assert!(out(&found).contains("filemap_0.scrinfo is damaged"), "{}", out(&found));
    assert!(out(&found).contains("has files of rank 1"), "{}", out(&found));
}

#[test]
fn a_damaged_prefix_is_lost_and_nothing_at_all_is_no_good_news() {
    let nodes = Nodes::new(&["XOR"]);
    let scavenged = nodes.run(&["scavenge"]);
    assert_eq!(code(&scavenged), Some(0), "{}{}", out(&scavenged), err(&scavenged));
    let path = nodes.cluster.prefix().join(".scr/scr.dataset.1/summary.scr");
    fs::write(&path, "short").unwrap();
    let found = nodes.run(&["verify", "ckpt.10"]);
    assert_eq!(code(&found), Some(1), "the caches have it: {}{}", out(&found), err(&found));
    assert!(out(&found).contains("prefix: ckpt.10 (dataset 1): wrong"), "{}", out(&found));
    assert!(out(&found).contains("cache: ckpt.10 (dataset 1, XOR): right"), "{}", out(&found));
    assert_eq!(code(&nodes.run(&["verify", "--only", "caches"])), Some(0));
    assert_eq!(code(&nodes.run(&["verify", "--only", "prefix"])), Some(3));
    // The other way round the prefix has what the caches have not.
    let nodes = Nodes::new(&["SINGLE"]);
    assert_eq!(code(&nodes.run(&["scavenge"])), Some(0));
    nodes.flip(1, 2, 0, 5);
    let found = nodes.run(&["verify"]);
    assert_eq!(code(&found), Some(1), "{}{}", out(&found), err(&found));
    assert!(out(&found).contains("; the prefix has it"), "{}", out(&found));

    let empty = tempfile::tempdir().unwrap();
    let nothing = scr(empty.path(), &["verify"]).output().unwrap();
    assert_eq!(code(&nothing), Some(2), "{}", out(&nothing));
    assert!(out(&nothing).contains("no node has a cache"), "{}", out(&nothing));
    for (words, part) in [
        (&["verify", "99"][..], "dataset \"99\""),
        (&["verify", "--prefix", "/no/such/place"], "/no/such/place"),
        (&["verify", "--nodes", "a["], "no list of hosts"),
        (&["verify", "--repair", "--sizes"], "--sizes"),
        (&["verify", "--only", "tape"], "tape"),
        (&["verify", "--timeout", "soon"], "soon"),
    ] {
        let refused = scr(empty.path(), words).output().unwrap();
        assert_eq!(code(&refused), Some(2), "{words:?}: {}", err(&refused));
        assert!(err(&refused).contains(part), "{words:?}: {}", err(&refused));
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn where_no_node_can_be_asked_nothing_is_known() {
    let nodes = Nodes::new(&["SINGLE"]);
    assert_eq!(code(&nodes.run(&["scavenge"])), Some(0));
    // The prefix has it all, but what the caches have nobody can tell.
    for (list, status) in [("a,b,c,x", 2), ("x,y", 2)] {
        let found = nodes.command(&["verify"]).env("SCR_NODELIST", list).output().unwrap();
        assert_eq!(code(&found), Some(status), "{list}: {}{}", out(&found), err(&found));
        assert!(out(&found).contains("x cannot be asked"), "{list}: {}", out(&found));
    }
    let found = nodes.command(&["verify", "--only", "prefix"]).env("SCR_NODELIST", "x").output();
    assert_eq!(code(&found.unwrap()), Some(0));
}

#[test]
fn what_the_program_has_set_is_known_to_the_commands() {
    let nodes = Nodes::new(&["SINGLE"]);
    let places = [
        ("SCR_CNTL_BASE", nodes.cluster.base().join("control").display().to_string()),
        ("SCR_CACHE_BASE", nodes.cluster.store()),
    ];
    let listed = |nodes: &Nodes| {
        let mut command = nodes.command(&["ls", "--json"]);
        for (name, _) in &places {
            command.env_remove(name);
        }
        out(&command.output().unwrap()).contains("rank_0")
    };
    assert!(!listed(&nodes));
    let told =
        |(name, value): &(&str, String)| (name.to_string(), (value.clone(), "SCR_Config".into()));
    let run = RunRecord { settings: places.iter().map(told).collect(), ..RunRecord::default() };
    fs::create_dir_all(nodes.cluster.prefix().join(".scr")).unwrap();
    run.write(&nodes.cluster.prefix().join(".scr").join(RunRecord::NAME)).unwrap();
    assert!(listed(&nodes));
}

#[test]
fn files_are_listed_by_their_names_with_their_places() {
    let nodes = Nodes::new(&["XOR", "SINGLE"]);
    let names = |words: &[&str]| {
        let output = nodes.run(&[&["ls"], words].concat());
        assert_eq!(code(&output), Some(0), "{words:?}: {}", err(&output));
        out(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]).len(), 12);
    let of_two = ["part_0/rank_0", "part_0/rank_1", "part_0/rank_2", "part_0/rank_3"];
    let of_two = of_two.map(|name| format!("ckpt/2/{name}"));
    assert_eq!(names(&["ckpt/2/part_0"]), of_two);
    assert_eq!(names(&["ckpt/2/part_0/rank_?"]), of_two);
    assert_eq!(names(&["ckpt.20"]).len(), 6);
    assert_eq!(names(&["ckpt 20"]).len(), 6, "as messages have it");
    assert_eq!(names(&["1", "2"]).len(), 12);
    let absolute = nodes.cluster.prefix().join("ckpt/1/part_0/rank_2");
    assert_eq!(names(&[absolute.to_str().unwrap()]), ["ckpt/1/part_0/rank_2"]);
    let long = nodes.run(&["ls", "-l", "ckpt/1/part_0/rank_2"]);
    let line = out(&long).lines().nth(1).unwrap_or_default().to_owned();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[0], words[words.len() - 1]), ("4097", "ckpt/1/part_0/rank_2"), "{line}");
    assert_eq!(words[words.len() - 4..words.len() - 1], ["ckpt.10", "2", "c"], "{line}");
    for word in ["ckpt/3", "*.dat", "/etc/passwd", "ckpt.30"] {
        let missing = nodes.run(&["ls", word]);
        assert_eq!(code(&missing), Some(1), "{word}");
        assert!(err(&missing).contains(word), "{}", err(&missing));
    }

    // On the prefix it is read there; the cache of a lost node is nowhere.
    assert_eq!(code(&nodes.run(&["scavenge", "--id", "1"])), Some(0));
    nodes.cluster.lose("b");
    let told = nodes.run(&["ls", "--json"]);
    assert!(err(&told).contains("b cannot be asked"), "{}", err(&told));
    let told = json(&told);
    let place = |name: &str| {
        let file = told.as_array().unwrap().iter().find(|one| one["file"] == name).unwrap();
        file["where"].as_str().unwrap().to_owned()
    };
    assert_eq!(place("ckpt/1/part_0/rank_1"), "prefix");
    assert_eq!(place("ckpt/2/part_0/rank_1"), "nowhere");
    assert_eq!(place("ckpt/2/part_0/rank_3"), "c");
    let lost = nodes.run(&["cat", "ckpt/2/part_1/rank_1"]);
    assert_eq!(code(&lost), Some(1));
    assert!(err(&lost).contains("not asked: b"), "{}", err(&lost));
}

#[test]
fn what_is_not_complete_is_shown_to_those_who_ask_for_it() {
    let nodes = Nodes::new(&["XOR"]);
    nodes.cluster.launch(PLACEMENT).run(|ctx| {
        cache::rebuild(ctx, &identity(&nodes.cluster)).unwrap();
        let key = scr_core::records::RecordKey { id: "50".into(), ..nodes.datasets[0].key() };
        let store = nodes.cluster.store();
        record_open(ctx, &key, &store).unwrap();
        let dir = ctx.layout.open_dir(&store, &key).join("ckpt/5");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("rank_{}", ctx.world.rank())), "half").unwrap();
    });
    assert_eq!(code(&nodes.run(&["ls", "ckpt/5"])), Some(1));
    assert_eq!(code(&nodes.run(&["cat", "ckpt/5/rank_3"])), Some(1));
    let listed = nodes.run(&["ls", "--unsealed", "-l", "ckpt/5"]);
    assert_eq!(out(&listed).matches("(not complete)").count(), 4, "{}", out(&listed));
    let read = nodes.run(&["cat", "--unsealed", "ckpt/5/rank_3"]);
    assert_eq!((code(&read), &*out(&read)), (Some(0), "half"), "{}", err(&read));
    nodes.assert_clean();
}

#[test]
fn nothing_is_seen_of_the_cache_of_another_prefix() {
    let nodes = Nodes::new(&["XOR"]);
    let other = tempfile::tempdir().unwrap();
    for words in [&["ls"][..], &["verify"], &["scavenge"], &["cat", "ckpt/1/part_0/rank_3"]] {
        for adopts in ["0", "1"] {
            let mut command = nodes.command(words);
            command.current_dir(other.path()).env("SCR_PREFIX", other.path());
            let got = command.env("SCR_CACHE_ADOPT", adopts).output().expect("it runs");
            let told = format!("{}{}", out(&got), err(&got));
            let silent = words == ["ls"] && told.is_empty();
            assert!(silent || code(&got) != Some(0), "{words:?}: {told}");
            assert!(
                !told.contains("ckpt.") && !told.contains("part_0/rank_0"),
                "{words:?}: {told}"
            );
        }
    }
    assert!(!other.path().join("ckpt").exists());
    let got = nodes.run(&["ls"]);
    assert!(out(&got).contains("ckpt/1/part_0/rank_3"), "{}{}", out(&got), err(&got));
}

#[test]
fn files_of_other_nodes_are_printed_and_copied() {
    let nodes = Nodes::new(&["XOR"]);
    let content = |rank: usize, part: usize| {
        nodes.content(1, rank)[&format!("ckpt/1/part_{part}/rank_{rank}")].clone()
    };
    let read = nodes.run(&["cat", "ckpt/1/part_0/rank_3", "ckpt/1/part_0/rank_0"]);
    assert_eq!(code(&read), Some(0), "{}", err(&read));
    assert!(read.stdout == [content(3, 0), content(0, 0)].concat());
    let empty = nodes.run(&["cat", "ckpt/1/part_0/rank_1"]);
    assert_eq!((code(&empty), out(&empty)), (Some(0), String::new()), "{}", err(&empty));
    // What no dataset has is the prefix's own.
    fs::write(nodes.cluster.prefix().join("notes.txt"), "mine").unwrap();
    assert_eq!(out(&nodes.run(&["cat", "notes.txt"])), "mine");

    let dest = tempfile::tempdir().unwrap();
    let to = dest.path().to_str().unwrap();
    let both = nodes.run(&["cp", "ckpt/1/part_*/rank_0", to]);
    assert_eq!(code(&both), Some(1));
    assert!(err(&both).contains("two files"), "{}", err(&both));
    let copied = nodes.run(&["cp", "ckpt/1/part_0/rank_3", "notes.txt", to]);
    assert_eq!(code(&copied), Some(0), "{}", err(&copied));
    assert!(fs::read(dest.path().join("rank_3")).unwrap() == content(3, 0));
    assert_eq!(fs::read(dest.path().join("notes.txt")).unwrap(), b"mine");
    let refused = nodes.run(&["cp", "ckpt.10", to]);
    assert!(code(&refused) == Some(1) && err(&refused).contains("--recursive"));
    assert_eq!(code(&nodes.run(&["cp", "-r", "ckpt.10", "ckpt/1/part_1", to])), Some(0));
    assert!(fs::read(dest.path().join("ckpt/1/part_1/rank_1")).unwrap() == content(1, 1));
    assert!(fs::read(dest.path().join("part_1/rank_0")).unwrap() == content(0, 1));
    let name = dest.path().join("one");
    assert_eq!(code(&nodes.run(&["cp", "ckpt/1/part_0/rank_2", name.to_str().unwrap()])), Some(0));
    assert!(fs::read(&name).unwrap() == content(2, 0));

    // A damaged file is nobody's copy; the others come all the same.
    nodes.flip(1, 3, 0, 9999);
    fs::remove_file(nodes.file(1, 2, 0)).unwrap();
    let words = ["cp", "ckpt/1/part_0/rank_3", "ckpt/1/part_0/rank_0", "missing", to];
    fs::remove_file(dest.path().join("rank_3")).unwrap();
    let copied = nodes.run(&words);
    assert_eq!(code(&copied), Some(1));
    assert!(err(&copied).contains("scr verify") && err(&copied).contains("missing"));
    assert!(!dest.path().join("rank_3").exists() && dest.path().join("rank_0").exists());
    for file in ["ckpt/1/part_0/rank_3", "ckpt/1/part_0/rank_2"] {
        let read = nodes.run(&["cat", file]);
        assert!(code(&read) == Some(1) && err(&read).contains("rank_"), "{}", err(&read));
    }
    assert_eq!(code(&nodes.run(&["cp", "one"])), Some(2));
    assert_eq!(code(&nodes.run(&["cat"])), Some(2));
    nodes.assert_clean();
}
