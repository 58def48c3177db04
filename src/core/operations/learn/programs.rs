//! What programs do with their files, and what is proposed for it.

use super::proposal::{Proposal, propose};
use super::watched::{of_texts, tests::rank};

/// Four ranks take so many checkpoints as there are `steps`; `deeds`: what each does at a step:
/// `w <name>` writes a file of 1 MiB, all else is an event as it is.
fn run(steps: &[usize], deeds: &dyn Fn(usize, usize) -> Vec<String>) -> Proposal {
    let text = |of: usize| {
        let mut lines = Vec::new();
        for step in steps {
            let mut all = Vec::new();
            for (at, deed) in deeds(*step, of).into_iter().enumerate() {
                match deed.strip_prefix("w ") {
                    Some(name) => {
                        all.push(format!("open {at}{step} 577 0 /p/{name}"));
                        all.push(format!("close {at}{step} 1048576 9"));
                    }
                    None => all.push(deed),
                }
            }
            all.resize(20, "-".to_owned());
            lines.extend(all);
        }
        rank(of, &lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    propose(&of_texts(&(0..4).map(text).collect::<Vec<_>>()).expect("a run"))
}

#[test]
fn a_file_that_is_kept_under_a_second_name_is_of_the_series_of_the_first() {
    let bak = |step: usize, rank: usize| {
        let name = format!("ckpt/state.{rank}.pkl");
        let kept = (step > 1).then(|| format!("rename /p/{name}\t/p/{name}.bak"));
        kept.into_iter().chain([format!("w {name}")]).collect()
    };
    let want = "SCR_CHECKPOINT_PATTERN=ckpt/state.{rank}.pkl, ckpt/state.{rank}.pkl.bak\n";
    for steps in [2, 3, 6] {
        let found = run(&(1..=steps).collect::<Vec<_>>(), &bak);
        assert_eq!((found.config(), found.skipped), (want.to_owned(), vec![]), "{steps} steps");
        let series = &found.series[0];
        let mib = |files: usize| (files as u64) << 20;
        assert_eq!((series.datasets, series.bytes), (steps, mib(4 * steps)));
        assert_eq!(series.cached_bytes, mib(4 * (steps - 1)));
    }
}

#[test]
fn generations_of_a_file_have_no_number_of_a_checkpoint() {
    let found = run(&[1, 2, 3, 4, 5], &|step, rank| {
        let name = |end: &str| format!("/p/state.{rank}{end}");
        let older = (step > 2).then(|| format!("rename {}\t{}", name(".bak1"), name(".bak2")));
        let old = (step > 1).then(|| format!("rename {}\t{}", name(""), name(".bak1")));
        // The newest has a temporary name, too, and that is no name of it.
        let new = [format!("w new.{rank}"), format!("rename /p/new.{rank}\t{}", name(""))];
        older.into_iter().chain(old).chain(new).collect()
    });
    let want = "SCR_CHECKPOINT_PATTERN=state.{rank}.bak*, state.{rank}\n";
    assert_eq!((found.config().as_str(), found.skipped), (want, vec![]));
    assert_eq!(found.series[0].patterns[1].temporary.as_deref(), Some("new.3"));
}

#[test]
fn a_word_that_is_another_one_each_time_is_anything() {
    // By chance a hash has digits only, or digits where another one has them.
    let hashes = ["9e3779b1", "3c6ef362", "8d1ae472", "17156075", "b54cda26", "deadbee5"];
    for end in ["-r{rank}.bin", ".bin"] {
        let found = run(&[1, 2, 3, 4, 5, 6], &|step, rank| {
            let own = end.replace("{rank}", &rank.to_string());
            let data = format!("w ckpt/chk-{step}-{}{own}", hashes[step - 1]);
            let latest = ["open 9 577 0 /p/ckpt/latest", "close 9 3 9"].map(str::to_owned);
            let writes = rank == 0 || end.contains("rank");
            let latest = latest.into_iter().filter(|_| rank == 0);
            writes.then_some(data).into_iter().chain(latest).collect()
        });
        let want = format!("SCR_CHECKPOINT_PATTERN=ckpt/chk-{{id}}-*{end}, ckpt/latest\n");
        assert_eq!((found.config(), found.skipped), (want, vec![]));
        assert_eq!(found.series[0].datasets, 6);
    }
}

#[test]
fn a_date_is_anything_though_its_day_is_the_same() {
    let found = run(&[1, 2, 3], &|step, rank| {
        vec![format!("w chk-{step}-2026-11-30T23:59:{step}5.{rank}")]
    });
    assert_eq!(found.config(), "SCR_CHECKPOINT_PATTERN=chk-{id}-*-*-*T*:*:*.{rank}\n");
}

#[test]
fn words_with_numbers_are_words_where_they_stay() {
    let found = run(&[1, 2, 3], &|step, rank| {
        vec![format!("w h2.{}{rank}", if step == 3 { "mix" } else { "wfc" })]
    });
    assert_eq!(found.config(), "SCR_CHECKPOINT_PATTERN=h2.wfc{rank}\n");
    assert!(found.skipped.iter().all(|one| one.reason.contains("written once")), "{found:?}");
}

#[test]
fn a_pointer_is_not_proposed_without_its_data() {
    let hashes = ["9e3779b1", "3c6ef362", "8d1ae472", "17156075"];
    let found = run(&[1, 2, 3, 4], &|step, rank| {
        let latest = ["open 9 577 0 /p/ckpt/latest", "close 9 3 9"].map(str::to_owned);
        let data = format!("w ckpt/{}.r{rank}", hashes[step - 1]);
        [data].into_iter().chain(latest.into_iter().filter(|_| rank == 0)).collect()
    });
    let left: Vec<_> =
        found.skipped.iter().map(|one| (one.text.as_str(), one.files, one.reason)).collect();
    let want = [
        ("ckpt/*.r{rank}", 16, "no number in its names tells which checkpoint it is of"),
        ("ckpt/latest", 4, "it seems to name files that are left alone"),
    ];
    assert_eq!((left, found.config().as_str()), (want.to_vec(), ""));
}

#[test]
fn a_small_file_beside_other_output_is_no_pointer() {
    let found = run(&[1, 2], &|step, rank| {
        let state = ["open 9 577 0 /p/state", "close 9 3 9"].map(str::to_owned).to_vec();
        let lock = ["w lock", "unlink /p/lock"].map(str::to_owned);
        let once = (step == 1).then(|| "w mesh".to_owned());
        let all = state.into_iter().chain(lock).chain(once);
        all.filter(|_| rank == 0).collect()
    });
    assert_eq!(found.config(), "SCR_CHECKPOINT_PATTERN=state\n");
}

#[test]
fn what_a_child_takes_away_is_not_proposed() {
    let found = run(&[1, 2, 3], &|step, rank| {
        // A child packs one file, and renames another one; what rank 0 renames is told by it.
        let lost = ["pack.{r}", "s_{i}.{r}.part", "s_{i}.{r}.tmp"]
            .map(|name| name.replace("{r}", &rank.to_string()).replace("{i}", &step.to_string()));
        let told = |rank| format!("rename /p/s_{step}.{rank}.tmp\t/p/s_{step}.{rank}.dat");
        let renames = (0..4).filter(|_| rank == 0).map(told);
        let latest = ["open 9 577 0 /p/latest", "close 9 3 9"].map(str::to_owned);
        let writes = lost.iter().map(|name| format!("w {name}")).chain(renames);
        let wait = (0..6).filter(|_| rank > 0).map(|_| "-".to_owned());
        let lost = lost.iter().map(|name| format!("lost /p/{name}"));
        writes.chain(latest.into_iter().filter(|_| rank == 0)).chain(wait).chain(lost).collect()
    });
    assert_eq!(found.config(), "SCR_CHECKPOINT_PATTERN=s_{id}.{rank}.dat, latest\n");
    let left: Vec<_> = found.skipped.iter().map(|one| (one.text.as_str(), one.files)).collect();
    assert_eq!(left, [("pack.{rank}", 12), ("s_{id}.{rank}.part", 12)]);
    assert!(found.skipped.iter().all(|one| one.reason.contains("a process that the program")));
}
