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
            rank.session().use_by_program(None);
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
        session.start_dataset(Some("all"), CHECKPOINT).unwrap();
        for name in ["cut", "kept", "gone", "moved"] {
            let place = session.route_output(&prefix.join(format!("{name}/f{rank}"))).unwrap();
            fs::write(place, name).unwrap();
        }
        assert!(session.complete_dataset(true).unwrap());
    });
    let seen = cluster.launch("aa", None, |rank: &Rank| {
        rank.session().use_by_program(None);
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
        let name = rank.session().have_restart().unwrap();
        rank.session().start_restart().unwrap();
        let place = rank.session().route_input(&prefix.join(at("kept"))).unwrap();
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

#[test]
fn a_cache_of_calls_is_taken_over_whatever_the_patterns_are() {
    let mut cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    launch(&cluster, "ab", |session, _| write(session, &prefix, "called", CHECKPOINT, true));
    cluster.set("SCR_CHECKPOINT_PATTERN=other/{id}/*");
    let have = |cluster: &Cluster| {
        same(launch(cluster, "ab", |session, _| session.have_restart().unwrap()))
    };
    assert_eq!(have(&cluster), Some("called".to_string()));
    // And back again, with a series more.
    cluster.set("SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat");
    cluster.set("SCR_OUTPUT_PATTERN=plots/**");
    assert_eq!(have(&cluster), Some("called".to_string()));
    let both = cluster.launch("ab", None, |rank: &Rank| {
        rank.session().use_by_program(None);
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
