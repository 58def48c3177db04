//! Programs that call SCR under the shim, in one process: what one door has written, as the other
//! one sees it, and caches that outlive a change of the patterns.

use std::fs;

use scr_core::session::Flags;

use super::calls::{CHECKPOINT, launch, same, write};
use super::cluster::{Cluster, Rank};

const OUTPUT: Flags = Flags { checkpoint: false, output: true };

fn text(rank: &Rank, name: &str) -> Option<String> {
    rank.files.read_file(name).ok().map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn what_the_cache_has_by_calls_is_read_by_its_name() {
    // After a crash, on the same nodes or with a new one; no call says that a restart begins.
    for (hosts, lost) in [("abc", None), ("abd", Some('c'))] {
        let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2", "SCR_FLUSH=0"]);
        let prefix = cluster.prefix();
        launch(&cluster, "abc", |session, _| {
            write(session, &prefix, "old", CHECKPOINT, true);
            write(session, &prefix, "new", CHECKPOINT, true);
        });
        lost.inspect(|host| cluster.lose(*host));
        let seen = cluster.launch(hosts, None, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            let names = ["old", "new"].map(|dir| format!("{dir}/f{}", rank.rank));
            let listed = rank.files.list("new").contains(&format!("f{}", rank.rank));
            (names.map(|name| text(rank, &name)), listed)
        });
        for (rank, seen) in seen.results.into_iter().enumerate() {
            let expected = ["old", "new"].map(|name| Some(format!("{name} of {rank}")));
            assert_eq!(seen, Some((expected, true)), "{lost:?}");
        }
    }
}

#[test]
fn what_the_program_does_by_itself_to_such_a_file_holds() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_CACHE_SIZE=2", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    for name in ["cut", "kept", "gone", "moved"] {
        fs::create_dir(prefix.join(name)).unwrap();
    }
    launch(&cluster, "aa", |session, rank| {
        session.program.start_dataset(Some("all"), CHECKPOINT).unwrap();
        for name in ["cut", "kept", "gone", "moved"] {
            let place =
                session.program.route_output(&prefix.join(format!("{name}/f{rank}"))).unwrap();
            fs::write(place, name).unwrap();
        }
        assert!(session.program.complete_dataset(true).unwrap());
    });
    let seen = cluster.launch("aa", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        let at = |dir: &str| format!("{dir}/f{}", rank.rank);
        let append = libc::O_WRONLY | libc::O_APPEND;
        rank.files.write_file(&at("cut"), b"anew").unwrap();
        let file = rank.files.open(&at("kept"), append).unwrap();
        file.write(b", and more").unwrap();
        file.close().unwrap();
        rank.files.unlink(&at("gone")).unwrap();
        rank.files.rename(&at("moved"), &at("cut").replace('f', "g")).unwrap();
        let listed = ["gone", "moved", "cut"].map(|dir| rank.files.list(dir).len());
        let texts = ["cut", "kept", "gone", "moved"].map(|dir| text(rank, &at(dir)));
        rank.all_max(0).unwrap();
        // The dataset is as it was.
        let name = rank.session().program.have_restart().unwrap();
        rank.session().program.start_restart().unwrap();
        let place = rank.session().program.route_input(&prefix.join(at("kept"))).unwrap();
        (texts, listed[0] + listed[1], name, fs::read_to_string(place).unwrap())
    });
    let some = |text: &str| Some(text.to_string());
    let texts = [some("anew"), some("kept, and more"), None, None];
    for seen in seen.results {
        let seen = seen.unwrap();
        assert_eq!((&seen.0, &seen.2, &*seen.3), (&texts, &some("all"), "kept"));
    }
    for rank in 0..2 {
        assert_eq!(fs::read(prefix.join(format!("cut/g{rank}"))).unwrap(), b"moved");
        assert_eq!(fs::read(prefix.join(format!("kept/f{rank}"))).unwrap(), b"kept, and more");
    }
}

/// What the program does by itself to the file of a rank, and what it then finds there.
const CHANGES: [(&str, Option<&str>); 5] = [
    ("kept", Some("kept")),
    ("cut", Some("anew")),
    ("longer", Some("longer, and more")),
    ("over", Some("another")),
    ("gone", None),
];

fn change(rank: &Rank, what: &str, of: usize) {
    let name = format!("{what}/f{of}");
    match what {
        "kept" => {}
        "cut" => rank.files.write_file(&name, b"anew").unwrap(),
        "longer" => {
            let file = rank.files.open(&name, libc::O_WRONLY | libc::O_APPEND).unwrap();
            file.write(b", and more").unwrap();
            file.close().unwrap();
        }
        "over" => {
            rank.files.write_file(&format!("{what}/new{of}"), b"another").unwrap();
            rank.files.rename(&format!("{what}/new{of}"), &name).unwrap();
        }
        _ => rank.files.unlink(&name).unwrap(),
    }
}

/// A run that writes a checkpoint by calls and then changes its files.
struct Changed<'a> {
    hosts: &'a str,
    scheme: &'a str,
    /// Rank 0 changes the files of all, else each rank its own.
    by_rank_0: bool,
    ends: bool,
}

impl Changed<'_> {
    fn run(&self) -> Cluster {
        let scheme = format!("SCR_COPY_TYPE={}", self.scheme);
        let cluster = Cluster::new(&[&scheme, "SCR_FLUSH=10"]).helped();
        let prefix = cluster.prefix();
        CHANGES.iter().for_each(|(dir, _)| fs::create_dir(prefix.join(dir)).unwrap());
        let outcome = cluster.launch(self.hosts, None, |rank: &Rank| {
            let session = rank.session();
            session.program.use_by_program(None);
            session.program.start_dataset(Some("all"), CHECKPOINT).unwrap();
            for (dir, _) in CHANGES {
                let place =
                    session.program.route_output(&prefix.join(format!("{dir}/f{}", rank.rank)));
                fs::write(place.unwrap(), dir).unwrap();
            }
            assert!(session.program.complete_dataset(true).unwrap());
            let by = |of: usize| if self.by_rank_0 { 0 } else { of };
            for (dir, _) in CHANGES {
                rank.calm(); // other nodes hear of the one before
                let own = (0..rank.size).filter(|of| by(*of) == rank.rank);
                own.for_each(|of| change(rank, dir, of));
            }
            if self.ends { rank.finish() } else { rank.calm() }
        });
        outcome.all();
        cluster
    }

    fn assert_kept(&self, cluster: &Cluster, when: &str) {
        for (dir, text) in CHANGES {
            for rank in 0..self.hosts.len() {
                let path = cluster.prefix().join(format!("{dir}/f{rank}"));
                let found = fs::read_to_string(path).ok();
                assert_eq!(found.as_deref(), text, "{dir}/f{rank} {when}: {}", self.case());
            }
        }
    }

    fn case(&self) -> String {
        let Changed { hosts, by_rank_0, ends, .. } = self;
        format!("on {hosts}, all by rank 0: {by_rank_0}, ends: {ends}")
    }
}

#[test]
fn what_the_program_has_done_to_such_a_file_is_not_undone_by_a_flush_or_a_restart() {
    for (hosts, by_rank_0, ends) in [
        ("aa", false, true),
        ("aa", false, false),
        ("aa", true, true),
        ("aa", true, false),
        ("ab", true, true),
        ("ab", true, false),
    ] {
        let run = Changed { hosts, scheme: "SINGLE", by_rank_0, ends };
        let cluster = run.run();
        if ends {
            run.assert_kept(&cluster, "at the end");
        }
        let seen = cluster.launch(hosts, None, |rank: &Rank| {
            let session = rank.session();
            session.program.use_by_program(None);
            rank.calm();
            let of = |of: usize| CHANGES.map(|(dir, _)| text(rank, &format!("{dir}/f{of}")));
            let (own, others) = (of(rank.rank), of(1 - rank.rank));
            let read = session.program.have_restart().unwrap().map(|name| {
                session.program.start_restart().unwrap();
                let path = cluster.prefix().join(format!("cut/f{}", rank.rank));
                let place = session.program.route_input(&path).unwrap();
                let read = fs::read_to_string(place).unwrap();
                session.program.complete_restart(true).unwrap();
                (name, read)
            });
            rank.finish();
            (own, others, read)
        });
        // In the cache the checkpoint is as it was; on the prefix it is what the program has made
        // of it.
        let read = Some(("all".to_string(), if ends { "anew" } else { "cut" }.to_string()));
        let texts = CHANGES.map(|(_, text)| text.map(str::to_string));
        for seen in seen.all() {
            assert_eq!(*seen, (texts.clone(), texts.clone(), read.clone()), "{}", run.case());
        }
        run.assert_kept(&cluster, "after the next run");
    }
}

#[test]
fn a_directory_of_such_files_moves_with_them() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=10"]);
    let prefix = cluster.prefix();
    fs::create_dir(prefix.join("new")).unwrap();
    let seen = cluster.launch("aa", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        write(rank.session(), &prefix, "new", CHECKPOINT, true);
        if rank.rank == 0 {
            rank.files.rename("new", "last").unwrap();
        }
        rank.calm();
        let seen = ["new", "last"].map(|dir| text(rank, &format!("{dir}/f{}", rank.rank)));
        rank.finish();
        seen
    });
    for (rank, seen) in seen.all().into_iter().enumerate() {
        let expected = format!("new of {rank}");
        assert_eq!(*seen, [None, Some(expected.clone())]);
        assert_eq!(fs::read_to_string(prefix.join(format!("last/f{rank}"))).unwrap(), expected);
    }
    assert!(!prefix.join("new").exists());
}

#[test]
fn what_the_program_has_done_to_such_a_file_is_not_undone_by_a_scavenge() {
    for (scheme, hosts, nodes, by_rank_0) in
        [("SINGLE", "aa", "a", false), ("SINGLE", "aa", "a", true), ("XOR", "ab", "ab", false)]
    {
        let run = Changed { hosts, scheme, by_rank_0, ends: false };
        let cluster = run.run();
        assert_eq!(cluster.scavenge(nodes), ["all"], "{}", run.case());
        run.assert_kept(&cluster, "after a scavenge");
    }
}

#[test]
fn a_cache_of_calls_is_taken_over_whatever_the_patterns_are() {
    let mut cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    launch(&cluster, "ab", |session, _| write(session, &prefix, "called", CHECKPOINT, true));
    cluster.set("SCR_CHECKPOINT_PATTERN=other/{id}/*");
    let have = |cluster: &Cluster| {
        same(launch(cluster, "ab", |session, _| session.program.have_restart().unwrap()))
    };
    assert_eq!(have(&cluster), Some("called".to_string()));
    // And back again, with a series more.
    cluster.set("SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat");
    cluster.set("SCR_OUTPUT_PATTERN=plots/**");
    assert_eq!(have(&cluster), Some("called".to_string()));
    let both = cluster.launch("ab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        fs::create_dir_all(prefix.join("ckpt/step_1")).unwrap();
        rank.all_max(0).unwrap();
        rank.files.write_file(&format!("ckpt/step_1/rank_{}.dat", rank.rank), b"x").unwrap();
        rank.all_max(0).unwrap();
        rank.all_max(0).unwrap();
        assert!(write(rank.session(), &prefix, "plot", OUTPUT, true));
    });
    assert_eq!(both.results, [Some(()), Some(())], "{:?}", both.told);
    // What a pattern has matched is not for others, and stays where it is.
    cluster.set("SCR_CHECKPOINT_PATTERN=other/{id}/*");
    let refused = cluster.launch("ab", None, |_: &Rank| ());
    assert_eq!(refused.results, [None, None]);
    let told: Vec<_> = refused.told.iter().filter(|line| line.contains("other patterns")).collect();
    assert!(told.len() == 1 && told[0].contains("left untouched"), "{:?}", refused.told);
    cluster.set("SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat");
    assert_eq!(have(&cluster), Some("called".to_string()));
}
