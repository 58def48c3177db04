//! A checkpoint without an id: each flush takes the names of the one before, which the prefix keeps
//! beside as long as the window (SCR_PREFIX_SIZE) has room for it.

use std::fs;

use super::cluster::{Cluster, Rank};
use super::logged::events;
use super::scene::place;

/// By all ranks together, by threads; in the cache, where a start brings it, and on the prefix.
/// However slow the threads are, the cache has room.
const WAYS: [&[&str]; 2] = [&[], &["SCR_FLUSH_ASYNC=1", "SCR_FETCH_BYPASS=1", "SCR_CACHE_SIZE=9"]];

fn here() -> Cluster {
    let pattern = "SCR_CHECKPOINT_PATTERN=s.{rank}, late.{rank}";
    place(&[pattern, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=3"]).helped()
}

/// Each rank has one checkpoint, `s.R`, which it writes anew, and from the third step on `late.R`.
/// Which it finds; it goes on from there for so many steps.
fn rewrites(rank: &Rank, steps: u64) -> (u64, u64) {
    let found = |stem: &str| {
        let text = rank.files.text(&format!("{stem}.{}", rank.rank)).unwrap_or_default();
        let step = text.strip_prefix("step ").and_then(|rest| rest.split(',').next()?.parse().ok());
        step.unwrap_or(0)
    };
    let put = |stem: &str, step: u64| {
        let text = format!("step {step}, and so on\n");
        rank.files.write_file(&format!("{stem}.{}", rank.rank), text.as_bytes()).unwrap();
    };
    let begin = (found("s"), found("late"));
    for step in begin.0 + 1..=begin.0 + steps {
        put("s", step);
        if step > 2 {
            put("late", step);
        }
        rank.calm();
    }
    rank.finish();
    begin
}

/// A launch, whose nodes are new, finds that step everywhere; `steps` more are done. What is told.
fn begins(cluster: &mut Cluster, step: u64, steps: u64, settings: &[&str]) -> String {
    cluster.lose_all("a");
    let got = cluster.run_with(settings, "aa", |rank| rewrites(rank, steps));
    let late = if step > 2 { step } else { 0 };
    assert_eq!(got.all(), [&(step, late); 2], "{settings:?}: {:?}", got.told);
    got.told.join("\n")
}

/// Cuts a file of the newest checkpoint short.
fn damage(cluster: &Cluster) {
    let file = fs::File::options().write(true).open(cluster.prefix().join("s.1")).unwrap();
    file.set_len(3).unwrap();
}

#[test]
fn the_one_before_comes_back_when_the_newest_is_damaged() {
    for way in WAYS {
        let mut cluster = here();
        assert_eq!(begins(&mut cluster, 0, 4, way), "");
        damage(&cluster);
        for step in [3, 2] {
            let told = begins(&mut cluster, step, 0, way);
            assert!(told.contains("s.1 has 3 bytes, and had"), "{told}");
            assert!(told.contains(&format!("(dataset {step}) are in place again")), "{told}");
            assert_eq!(begins(&mut cluster, step, 0, way), "");
            damage(&cluster);
        }
        // The window had room for no more.
        let told = begins(&mut cluster, 0, 3, way);
        assert!(told.contains("hidden from the program"), "{told}");
        assert_eq!(begins(&mut cluster, 3, 0, way), "");
    }
}

#[test]
fn each_is_written_to_the_prefix_once() {
    let mut cluster = here();
    begins(&mut cluster, 0, 6, &[WAYS[1], &["SCR_LOG_ENABLE=1"]].concat());
    let at_end = fs::read_to_string(cluster.prefix().join("s.0")).unwrap();
    assert_eq!(at_end, "step 6, and so on\n");
    let found = events(&cluster, &[]);
    let of = |event: &str| -> Vec<&str> {
        let those = found.iter().filter(|one| one.get("event") == event);
        those.map(|one| one.get("dset")).collect()
    };
    let (begun, ended) = (of("FLUSH_BEGIN"), of("FLUSH_END"));
    assert!(begun.is_sorted_by(|one, next| one < next), "{found:?}");
    assert_eq!((begun.last(), &ended), (Some(&"6"), &begun), "{found:?}");
}

#[test]
fn a_run_goes_back_to_one_that_was_written_over() {
    // And forward again; what comes next follows the one that was chosen.
    for way in WAYS {
        let mut cluster = here();
        begins(&mut cluster, 0, 4, way);
        let chosen = |step: u64| format!("SCR_CURRENT=scr.dataset.{step}");
        for step in [2, 4, 3, 2] {
            let told = begins(&mut cluster, step, 0, &[way, &[&chosen(step)]].concat());
            assert!(told.contains(&format!("(dataset {step}) are in place again")), "{told}");
        }
        assert_eq!(begins(&mut cluster, 2, 0, way), "");
        begins(&mut cluster, 2, 1, way);
        damage(&cluster);
        begins(&mut cluster, 2, 0, way);
        let second = chosen(2);
        let dropped = [way, &[&*second, "SCR_DROP_AFTER_CURRENT=1"]].concat();
        begins(&mut cluster, 2, 0, &dropped);
        let kept = cluster.prefix().join(".scr/scr.dataset.4/files/s.0");
        assert_eq!(fs::read_to_string(kept).unwrap(), "step 4, and so on\n");
    }
}

#[test]
fn what_the_user_has_done_to_it_stays() {
    // He has deleted it, to begin anew, or has brought one from elsewhere.
    let mut cluster = here();
    begins(&mut cluster, 0, 4, &[]);
    let names = ["s.0", "s.1", "late.0", "late.1"].map(|name| cluster.prefix().join(name));
    names.iter().for_each(|name| fs::remove_file(name).unwrap());
    begins(&mut cluster, 0, 0, &[]);
    let text = "step 9, which is of another run\n";
    names.iter().for_each(|name| fs::write(name, text).unwrap());
    begins(&mut cluster, 9, 0, &[]);
    let told = begins(&mut cluster, 9, 0, &["SCR_CURRENT=scr.dataset.3"]);
    assert!(told.contains("written anew since"), "{told}");
}
