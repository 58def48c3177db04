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
