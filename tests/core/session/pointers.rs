//! A pointer file names the checkpoint that the run begins with, whichever that is.

use std::fs;

use super::cluster::{Cluster, Outcome, Rank};
use super::scene::{check_message, place};
use super::settings::plain;
use super::sim::Sim;

const PATTERN: &str = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat, ckpt/latest";
const EVERY: u64 = 5;
const LAST: u64 = 20;
/// In the cache, where a start brings it; on the prefix.
const READ: [&str; 2] = ["SCR_FETCH_BYPASS=0", "SCR_FETCH_BYPASS=1"];
const LATEST: &str = "ckpt/latest";

/// A program whose restart believes the pointer `ckpt/latest`.
#[derive(Clone, Copy)]
struct Pointer {
    steps: u64,
    /// It dies without a word right after the pointer was rewritten.
    dies_at: u64,
    is_link: bool,
}

impl Pointer {
    /// The step that it has begun with, and what it came to if it ended.
    fn run(self, rank: &Rank) -> (u64, Option<u64>) {
        let mut sim = Sim::new(rank);
        let own = if rank.rank == 0 { read_pointer(rank) } else { 0 };
        let begin = rank.all_max(own as i64).unwrap() as u64;
        if begin > 0 {
            let found = Sim::read(rank, begin);
            sim = found.unwrap_or_else(|| panic!("the pointer names {begin}, which is not there"));
        }
        while sim.step < self.steps {
            sim.step(rank);
            rank.calm();
            if sim.step.is_multiple_of(EVERY) {
                sim.checkpoint(rank);
                rank.barrier();
                if rank.rank == 0 {
                    point(rank, sim.step, self.is_link);
                }
                if sim.step == self.dies_at {
                    rank.barrier();
                    return (begin, None);
                }
            }
        }
        let checksum = sim.checksum(rank);
        rank.finish();
        (begin, Some(checksum))
    }
}

fn read_pointer(rank: &Rank) -> u64 {
    let to = rank.files.readlink(LATEST).ok().or_else(|| rank.files.text(LATEST));
    let step = to.as_deref().and_then(|to| to.trim().strip_prefix("step_")?.parse().ok());
    step.unwrap_or(0)
}

fn point(rank: &Rank, step: u64, is_link: bool) {
    let (to, temporary) = (format!("step_{step}"), "ckpt/latest.tmp");
    match is_link {
        true => rank.files.symlink(&to, temporary).unwrap(),
        false => rank.files.write_file(temporary, format!("{to}\n").as_bytes()).unwrap(),
    }
    rank.files.rename(temporary, LATEST).unwrap();
}

fn until(steps: u64) -> Pointer {
    Pointer { steps, dies_at: 0, is_link: false }
}

fn here() -> Cluster {
    place(&[PATTERN, "SCR_FLUSH=1"])
}

fn whole_run(cluster: &Cluster, is_link: bool) {
    let pointer = Pointer { is_link, ..until(LAST) };
    assert_eq!(cluster.run("aa", |rank| pointer.run(rank)).first().0, 0);
}

/// A launch that is at its end begins with `step`; what it was told.
fn begins(cluster: &mut Cluster, step: u64, is_link: bool, settings: &[&str]) -> Vec<String> {
    let pointer = Pointer { is_link, ..until(step) };
    let got: Outcome<_> = cluster.run_with(settings, "aa", |rank| pointer.run(rank));
    assert_eq!(got.first().0, step, "{settings:?}: {:?}", got.told);
    got.told
}

#[test]
fn a_pointer_after_a_roll_back() {
    // It was rewritten, then a rank died: the restart gets a pointer to what is there.
    let cluster = place(&[PATTERN]);
    for dies_at in [15, 25] {
        cluster.run("aa", |rank| Pointer { dies_at, ..until(40) }.run(rank)).all();
    }
    let got = cluster.run("aa", |rank| until(40).run(rank));
    let (begin, checksum) = *got.first();
    assert!(begin >= 20, "began with {begin}: {:?}", got.told);
    assert_eq!(checksum, plain(40, 5), "{:?}", got.told);
}

#[test]
fn a_pointer_that_somebody_edits_after_a_crash() {
    // It names an older one, or one that the crash has taken: no word of anybody's, then.
    for (names, begins) in [("step_10", 10), ("step_30", 25)] {
        let cluster = here();
        cluster.run("aa", |rank| Pointer { dies_at: 25, ..until(40) }.run(rank)).all();
        fs::write(cluster.prefix().join(LATEST), format!("{names}\n")).unwrap();
        let got = cluster.run("aa", |rank| until(40).run(rank));
        let (begin, checksum) = *got.first();
        let is_right = begin == begins || (begins == 25 && begin == 20);
        assert!(is_right, "{names}: {begin}: {:?}", got.told);
        assert_eq!(checksum, plain(40, 5), "{:?}", got.told);
        assert!(got.told.len() <= 1, "{:?}", got.told);
    }
}

#[test]
fn a_pointer_that_the_program_has_moved_without_us() {
    for is_link in [false, true] {
        let mut cluster = here();
        let dies = Pointer { dies_at: 10, ..until(LAST) };
        cluster.run("aa", |rank| Pointer { is_link, ..dies }.run(rank));
        let dies = Pointer { dies_at: 15, ..until(LAST) };
        cluster.run_plain("aa", |rank| Pointer { is_link, ..dies }.run(rank));
        begins(&mut cluster, 15, is_link, &[]);
    }
}

#[test]
fn a_pointer_goes_back_with_the_run() {
    // To the one that the user chooses, from the cache and in place, and forward again.
    for read in READ {
        let mut cluster = here();
        whole_run(&cluster, false);
        begins(&mut cluster, 10, false, &["SCR_CURRENT=10", read]);
        begins(&mut cluster, 10, false, &[read]);
        begins(&mut cluster, 20, false, &["SCR_CURRENT=checkpoint.20", read]);
        begins(&mut cluster, 5, false, &["SCR_CURRENT=5", "SCR_DROP_AFTER_CURRENT=1", read]);
    }
}

#[test]
fn a_pointer_goes_back_before_a_damaged_checkpoint() {
    for read in READ {
        let mut cluster = here();
        whole_run(&cluster, false);
        fs::write(cluster.prefix().join("ckpt/step_20/rank_1.dat"), "short").unwrap();
        let told = begins(&mut cluster, 15, false, &[read]).join("\n");
        assert!(told.contains("step_20/rank_1.dat has 5 bytes, and had"), "{told}");
    }
}

#[test]
fn the_run_follows_a_pointer_that_somebody_has_changed() {
    for read in READ {
        let mut cluster = here();
        whole_run(&cluster, false);
        fs::write(cluster.prefix().join(LATEST), "step_10\n").unwrap();
        assert_eq!(begins(&mut cluster, 10, false, &[read]), [""; 0]);
    }
}

#[test]
fn a_link_leads_to_what_is_left() {
    // The caches are lost after rank 0 has made it lead to what only they had; and with the user's
    // choice, back and forth.
    for read in READ {
        let mut cluster = here();
        let seldom = ["SCR_FLUSH=2", "SCR_FLUSH_ASYNC=0", read];
        let dies = Pointer { dies_at: 15, is_link: true, ..until(40) };
        cluster.run_with(&seldom, "aa", |rank| dies.run(rank)).all();
        let link = cluster.prefix().join(LATEST);
        assert_eq!(fs::read_link(link).unwrap().to_str(), Some("step_15"));
        cluster.lose('a');
        let told = begins(&mut cluster, 10, true, &seldom).join("\n");
        assert!(told.contains("ckpt/latest led to step_15, and leads to step_10 now"), "{told}");
        assert_eq!(begins(&mut cluster, 10, true, &seldom), [""; 0]);
        let goes_on = Pointer { is_link: true, ..until(LAST) };
        cluster.run("aa", |rank| goes_on.run(rank)).all();
        begins(&mut cluster, 10, true, &["SCR_CURRENT=10", read]);
        begins(&mut cluster, 20, true, &["SCR_CURRENT=checkpoint.20", read]);
    }
}

#[test]
fn a_link_to_a_file_leads_to_what_is_left() {
    // The id is in the file's own name; the run dies before the last checkpoint is complete.
    let cluster = place(&["SCR_CHECKPOINT_PATTERN=ckpt/s{id}.dat, ckpt/latest", "SCR_FLUSH=0"]);
    cluster.run("aa", |rank| {
        let files = &rank.files;
        for number in 1..=5 {
            if rank.rank == 0 {
                files.make_dir("ckpt").unwrap();
                let name = format!("s{number}.dat");
                files
                    .write_file(&format!("ckpt/{name}"), format!("{number}\n").as_bytes())
                    .unwrap();
                files.symlink(&name, "ckpt/.latest").unwrap();
                files.rename("ckpt/.latest", LATEST).unwrap();
            }
            if number < 5 {
                rank.calm();
            }
        }
    });
    let link = cluster.prefix().join(LATEST);
    assert_eq!(fs::read_link(link).unwrap().to_str(), Some("s5.dat"));
    let got = cluster.run("aa", |rank| {
        let text = rank.files.text(LATEST);
        rank.finish();
        text
    });
    assert_eq!(got.first().as_deref(), Some("4\n"), "{:?}", got.told);
    let told = got.told.join("\n");
    assert!(told.contains("ckpt/latest led to s5.dat, and leads to s4.dat now"), "{told}");
}

#[test]
fn a_pointer_beside_the_wrong_pattern_is_told_of() {
    // Its series has no checkpoint that it could be kept with.
    let wrong = [
        "SCR_CHECKPOINT_PATTERN=ckpt/other_{id}.dat, ckpt/latest",
        "SCR_CHECKPOINT_PATTERN_2=ckpt/step_{id}/rank_{rank}.dat",
    ];
    for (settings, is_told) in [(&wrong[..], true), (&[PATTERN][..], false)] {
        let cluster = place(&[&["SCR_FLUSH=10"], settings].concat());
        let got = cluster.run("aa", |rank| until(40).run(rank));
        match is_told {
            true => check_message(&got.told, &["ckpt/latest matches SCR_CHECKPOINT_PATTERN, of"]),
            false => assert_eq!(got.told, [""; 0]),
        }
        let text = fs::read_to_string(cluster.prefix().join(LATEST)).unwrap();
        assert_eq!(text, "step_40\n");
    }
}

/// The directory of what rank 0 has under temporary names is gone from the cache of its node, and
/// cannot be made again.
fn break_temporaries(cluster: &Cluster) {
    let is_theirs = |path: &&std::path::PathBuf| path.ends_with("scr.shadow");
    let cached = cluster.cached("a");
    let folder = cached.iter().find(is_theirs).expect("no temporary file").join("0/ckpt");
    fs::remove_file(folder.join("latest.tmp")).unwrap();
    fs::remove_dir(&folder).unwrap();
    fs::write(folder, "").unwrap();
}

#[test]
fn a_pointer_whose_temporary_name_the_cache_can_have_no_more() {
    // What the cache had under that name is not what the program renames.
    for renames in [true, false] {
        let cluster = here();
        let got = cluster.run("aa", |rank| {
            let mut sim = Sim::new(rank);
            for step in 1..=3 {
                sim.step(rank);
                rank.files.make_dir("ckpt").unwrap();
                rank.files.make_dir(&format!("ckpt/step_{step}")).unwrap();
                sim.checkpoint(rank);
                if rank.rank == 0 && step < 3 {
                    point(rank, step, false);
                }
                rank.calm();
            }
            if rank.rank == 0 {
                rank.files.write_file("ckpt/latest.tmp", b"step_2.5\n").unwrap();
                break_temporaries(&cluster);
                rank.files.write_file("ckpt/latest.tmp", b"step_3\n").unwrap();
                if renames {
                    rank.files.rename("ckpt/latest.tmp", LATEST).unwrap();
                }
            }
            rank.barrier();
            let found = read_pointer(rank);
            rank.finish();
            found
        });
        assert_eq!(got.first(), &if renames { 3 } else { 2 }, "{:?}", got.told);
        let name = if renames { LATEST } else { "ckpt/latest.tmp" };
        assert_eq!(fs::read_to_string(cluster.prefix().join(name)).unwrap(), "step_3\n");
        assert!(got.told.iter().any(|line| line.contains("SCR-2019")), "{:?}", got.told);
    }
}
