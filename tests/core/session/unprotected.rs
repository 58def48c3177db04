//! A launch whose files no pattern matches, or that has no pattern, is told so in one line; names
//! may hold any bytes.

use std::fs;

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, check_message, place, same};
use super::sim::steady;

/// How the program writes its files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Plain,
    /// It asks for each name, and opens it for reading, before it is written.
    Looks,
    /// It writes `<name>.part` and renames it.
    Renames,
    /// It writes into the directory `part`, which then gets the name's first part.
    Moves,
}

/// Writes files of these names at three steps; `@` in a name stands for the step, `&` for the rank,
/// and a name without `&` is rank 0's.
fn write(rank: &Rank, manner: Manner, names: &[&str]) {
    for step in [5, 10, 15] {
        let fill = |name: &str| name.replace('@', &step.to_string());
        for name in names.iter().filter(|name| name.contains('&') || rank.rank == 0) {
            let path = fill(name).replace('&', &rank.rank.to_string());
            if manner == Manner::Looks && !rank.files.exists(&path) {
                assert!(rank.files.open(&path, libc::O_RDONLY).is_err());
            }
            let other = match manner {
                Manner::Renames => format!("{path}.part"),
                Manner::Moves => format!("part/{}", path.split_once('/').unwrap().1),
                _ => path.clone(),
            };
            for (end, _) in other.match_indices('/') {
                rank.files.make_dir(&other[..end]).unwrap();
            }
            rank.files.write_file(&other, format!("step {step}\n").as_bytes()).unwrap();
            if manner == Manner::Renames {
                rank.files.rename(&other, &path).unwrap();
            }
        }
        if manner == Manner::Moves {
            rank.barrier();
            let to = fill(names[0].split_once('/').unwrap().0);
            if rank.rank == 0 {
                rank.files.rename("part", &to).unwrap();
            }
            rank.barrier();
        }
        rank.calm();
    }
    rank.barrier();
    rank.finish();
}

/// The program writes these names: exactly one message, with these words, and no difference.
fn told(settings: &[&str], manner: Manner, names: &[&str], words: &[&str]) {
    let got = same("aa", settings, |rank| write(rank, manner, names));
    check_message(&got.told, words);
}

fn without_pattern(settings: &[&str]) -> Cluster {
    let mut cluster = place(settings);
    cluster.unset("SCR_CHECKPOINT_PATTERN");
    cluster
}

#[test]
fn no_configuration() {
    // All is as without us, and nothing of ours is made, on the prefix or below the bases.
    let plain = place(&[]);
    let want = plain.run_plain("aaa", |rank| steady(20, 5).run(rank));
    let cluster = without_pattern(&["SCR_FLUSH=1"]);
    let got = cluster.run("aaa", |rank| steady(20, 5).run(rank));
    assert_eq!(want.results, got.results);
    assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    let made = fs::read_dir(cluster.node('a').join("store")).unwrap().count();
    assert!(made == 0 && !cluster.prefix().join(".scr").exists(), "{made}");
    let sought = format!("no config file {}/.scrconf", cluster.prefix().display());
    check_message(&got.told, &["no checkpoint is protected: no pattern is set", &sought]);
}

#[test]
fn no_pattern_and_a_misspelt_variable() {
    // Which variable, what was meant, where the file was sought.
    let told = |cluster: &Cluster| cluster.run("aa", |rank| steady(20, 5).run(rank)).told;
    let mut cluster = without_pattern(&["SCR_CHECKPOINT_PATERN=ckpt/*"]);
    let sought = format!("there is no config file {}/.scrconf", cluster.prefix().display());
    let meant = "did you mean SCR_CHECKPOINT_PATTERN?";
    check_message(&told(&cluster), &["no pattern is set", meant, &sought, "SCR_CONF_FILE"]);
    cluster.unset("SCR_CHECKPOINT_PATERN");
    let elsewhere = cluster.node('a').join("elsewhere.conf");
    fs::write(&elsewhere, "SCR_FLUSH=1\n").unwrap();
    cluster.set(&format!("SCR_CONF_FILE={}", elsewhere.display()));
    let is = format!("the config file is {}", elsewhere.display());
    check_message(&told(&cluster), &["no pattern is set", &is]);
    assert_eq!(told(&without_pattern(&["SCR_ENABLE=0"])), [""; 0]);
}

#[test]
fn the_name_that_came_nearest_is_told() {
    // Whichever rank wrote it, and whatever else was written before.
    let names = ["log.txt", "out/fields_@.vtk", "ckpt/step_@_&.dat"];
    for (pattern, words) in [
        (
            "ckpt/step_{id}/*.dat",
            &["pattern ckpt/step_{id}/*.dat has a directory step_{id} there"][..],
        ),
        ("ckpt/step_%d_%d.dat", &["pattern ckpt/step_%d_%d.dat has %d", "write {id}"]),
        ("step_{id}_*.dat", &["**/step_{id}_*.dat would match"]),
        ("re:ckpt/step_(?<id>[0-9]+)/.*", &["no file that the program wrote", "expression"]),
    ] {
        let setting = format!("SCR_CHECKPOINT_PATTERN={pattern}");
        told(&[&setting], Manner::Plain, &names, &[words, &["ckpt/step_5_", &setting]].concat());
    }
    let cluster = without_pattern(&[]);
    let config = cluster.prefix().join(".scrconf");
    fs::write(&config, "SCR_CHECKPOINT_PATTERN=save/{id}\n").unwrap();
    let got = cluster.run("aa", |rank| write(rank, Manner::Plain, &["ckpt/@"]));
    let where_it_is = config.display();
    let place = format!("({where_it_is}:1)");
    check_message(&got.told, &["ckpt/", &place, &format!("the config file is {where_it_is}")]);
}

#[test]
fn names_that_were_asked_for_before_they_are_written() {
    let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
    told(&[pattern], Manner::Looks, &["ckpt/step_@.dat"], &["ckpt/step_5.dat was written"]);
}

#[test]
fn nothing_is_said_where_something_matches() {
    // One rank's files do, or what a file or a directory is renamed to.
    for (manner, names) in [
        (Manner::Plain, &["log_&", "ckpt_@/only"][..]),
        (Manner::Renames, &["ckpt_@/only"]),
        (Manner::Moves, &["ckpt_@/rank_&"]),
        (Manner::Looks, &["ckpt_@/rank_&"]),
    ] {
        for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
            let settings = [learn, "SCR_CHECKPOINT_PATTERN=ckpt_{id}/*"];
            let got = same("aa", &settings, |rank| write(rank, manner, names));
            assert_eq!(got.told, [""; 0], "{learn} {names:?}");
        }
    }
}

#[test]
fn files_of_each_rank_without_rank_in_the_pattern() {
    // Nothing is wrong with it.
    for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
        let settings = [learn, "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
        let got = same("aa", &settings, |rank| steady(20, 5).run(rank));
        assert_eq!(got.told, [""; 0], "{learn}");
    }
}

#[test]
fn one_pattern_of_several_has_a_placeholder() {
    let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_%d, ckpt/latest";
    let words = ["pattern ckpt/step_%d has %d", "write {id}"];
    told(&[pattern], Manner::Plain, &["ckpt/latest"], &words);
}

#[test]
fn the_program_wrote_nothing_below_the_prefix() {
    let mut cluster = place(&[]);
    let top = cluster.node('a').join("top");
    fs::create_dir_all(&top).unwrap();
    cluster.set(&format!("SCR_PREFIX={}", top.display()));
    let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
    let words = format!("the program wrote no file below {} (SCR_PREFIX)", top.display());
    check_message(&got.told, &[&words]);
}

#[test]
fn names_with_control_characters() {
    // They end no line and command no terminal.
    let names = ["ckpt/a\n\u{1b}[31m_@"];
    let words = ["ckpt/a\\n\\u{1b}[31m_5 was written"];
    told(&["SCR_CHECKPOINT_PATTERN=ckpt/b_{id}"], Manner::Plain, &names, &words);
}

/// Writes checkpoints of one rank whose names differ in more than the step.
fn write_new_names(rank: &Rank, steps: u32, new: impl Fn(u32) -> String) {
    for step in 1..=steps {
        if rank.rank == 0 {
            let text = format!("step {step}\n");
            rank.files.write_file(&format!("{step}.{}", new(step)), text.as_bytes()).unwrap();
        }
        rank.calm();
    }
    rank.finish();
}

#[test]
fn checkpoints_that_were_all_watched_are_told_at_the_end() {
    let pattern = "SCR_CHECKPOINT_PATTERN={id}.*";
    let word = |step: u32| "x".repeat(step as usize);
    let got = same("aa", &[pattern, "SCR_LEARN=1"], |rank| write_new_names(rank, 5, word));
    let words = ["all 5 checkpoints went straight to", "SCR watches", "SCR-1016"];
    check_message(&got.told, &words);
    for (learn, steps) in [("SCR_LEARN=1", 4), ("SCR_LEARN=0", 5)] {
        let got = same("aa", &[pattern, learn], |rank| write_new_names(rank, steps, word));
        assert_eq!(got.told, [""; 0], "{learn}");
    }
    // Those that look like hashes are of one kind.
    let hash = |step: u32| format!("{:08x}", step.wrapping_mul(0x9e37_79b1));
    let got = same("aa", &[pattern, "SCR_LEARN=1"], |rank| write_new_names(rank, 6, hash));
    assert_eq!(got.told, [""; 0]);
}

/// With {id} a name is judged by itself, which no other message tells.
#[test]
fn a_file_that_is_not_cached_any_more_is_told_at_the_end() {
    let settings = ["SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*", "SCR_LEARN=1"];
    let got = place(&settings).helped().run("ab", |rank| {
        for step in 1..=9 {
            let name = format!("ckpt/step_{step}/all");
            let _ = rank.files.make_dir("ckpt");
            let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
            let file = rank.files.open(&name, libc::O_RDWR | libc::O_CREAT).unwrap();
            file.write_at(&[rank.rank as u8 + 1; 5000], rank.rank as u64 * 5000).unwrap();
            rank.barrier();
            if step > 3 {
                file.read_at(5000, 0).unwrap();
            }
            file.close().unwrap();
            rank.calm();
        }
        rank.finish();
    });
    check_message(&got.told, &["the last 6 of 9 went straight to", "ranks of other nodes read it"]);
}
