//! Which file belongs to which series, dataset and rank.

use std::path::{Path, PathBuf};

use scr_core::params::{Inputs, load};
use scr_core::patterns::{Match, PatternConfig, PatternText, SeriesSet};

fn texts(name: &str, lists: &[&str]) -> Vec<PatternText> {
    let name = |index| if index == 0 { name.to_string() } else { format!("{name}_{}", index + 1) };
    let text = |(index, text): (usize, &&str)| PatternText {
        name: name(index),
        place: format!("scr.conf:{index}"),
        text: text.to_string(),
    };
    lists.iter().enumerate().map(text).collect()
}

fn config(checkpoint: &[&str], output: &[&str], ignore: &[&str]) -> PatternConfig {
    PatternConfig {
        prefix: PathBuf::from("/pfs/run"),
        prefix_as_written: Some(PathBuf::from("/home/me/run")),
        checkpoint: texts("SCR_CHECKPOINT_PATTERN", checkpoint),
        output: texts("SCR_OUTPUT_PATTERN", output),
        ignore: texts("SCR_IGNORE_PATTERN", ignore),
        token: ",".to_string(),
        rank: 2,
    }
}

fn set(checkpoint: &[&str]) -> SeriesSet {
    SeriesSet::new(&config(checkpoint, &[], &[])).expect("valid patterns")
}

fn matched(set: &SeriesSet, path: &str) -> Match {
    set.match_path(path).unwrap_or_else(|| panic!("{path} should match"))
}

#[test]
fn one_series_holds_everything_of_a_checkpoint() {
    let set = set(&["ckpt/step_{id}/rank_{rank}.dat, ckpt/step_{id}/header, ckpt/latest"]);
    let data = matched(&set, "ckpt/step_0010/rank_7.dat");
    assert_eq!((data.id.as_deref(), data.rank, data.own), (Some("0010"), Some(7), false));
    assert_eq!(data.masked, "ckpt/step_{id}/rank_7.dat");
    assert!(!data.is_companion());
    assert_eq!(matched(&set, "ckpt/step_20/header").masked, "ckpt/step_{id}/header");
    let pointer = matched(&set, "ckpt/latest");
    assert_eq!((pointer.id.as_deref(), pointer.has_id_in_series), (None, true));
    assert!(pointer.is_companion());
    for other in ["ckpt/step_10", "ckpt/step_x/header", "ckpt/step_10/header.tmp", "latest", ""] {
        assert_eq!(set.match_path(other), None, "{other}");
    }
}

#[test]
fn a_series_without_ids_has_generations() {
    let set = set(&["ckpt_{id}", "state.cpt:own, state_prev.cpt:own"]);
    let state = matched(&set, "state_prev.cpt");
    assert_eq!((state.series, state.own, state.has_id_in_series), (1, true, false));
    assert!(!state.is_companion());
    let names: Vec<_> = set.series().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["checkpoint", "checkpoint_2"]);
    assert_eq!(set.series_index("checkpoint_2"), Some(1));
}

#[test]
fn an_id_that_stands_twice_has_to_agree() {
    let set = set(&["step_{id}/ckpt_{id}_{rank}.dat"]);
    let both = matched(&set, "step_0010/ckpt_10_3.dat");
    assert_eq!(both.id.as_deref(), Some("0010"));
    assert_eq!(both.masked, "step_{id}/ckpt_{id}_3.dat");
    assert_eq!(set.match_path("step_10/ckpt_20_3.dat"), None);
}

#[test]
fn output_is_told_from_checkpoints_and_may_be_both() {
    let checkpoint = ["a_{id}", "b_{id}, b_head"];
    let set = SeriesSet::new(&config(&checkpoint, &["viz/{id}/**", "b_{id},b_head"], &[]))
        .expect("valid patterns");
    let flags: Vec<_> = set.series().iter().map(|s| (s.checkpoint, s.output)).collect();
    assert_eq!(flags, [(true, false), (true, true), (false, true)]);
    assert_eq!(matched(&set, "viz/3/a/b.vtk").series, 2);
}

#[test]
fn what_is_ignored_never_matches() {
    let ignore = ["*.lock, *.locktest.*, ckpt/scratch", "re:ckpt/.*_\\d{8,}"];
    let set = SeriesSet::new(&config(&["ckpt/**"], &[], &ignore)).expect("valid patterns");
    for ignored in ["ckpt/a.lock", "ckpt/d/x.locktest.3", "ckpt/scratch/a/b", "ckpt/x_12345678"] {
        assert_eq!(set.match_path(ignored), None, "{ignored}");
        assert!(set.ignores(ignored));
    }
    assert!(set.match_path("ckpt/d/a.locked").is_some());
    assert!(set.match_path("ckpt/d/scratch/a").is_some());
}

#[test]
fn what_scr_itself_writes_never_matches() {
    let set = set(&["**"]);
    for own in [".scr", ".scr/index.scr", ".scrconf", "a/.b.dat.scr-00fe12"] {
        assert_eq!(set.match_path(own), None, "{own}");
    }
    for other in [".scratch", "a/.b.scr-xyz", "a/b.scr-00fe12", "a/.scr/x"] {
        assert!(set.match_path(other).is_some(), "{other}");
    }
}

#[test]
fn regular_expressions_match_the_whole_path() {
    let set = set(&["re:r\\.(?<id>\\d+)\\.(base|(?<rank>\\d+))", "re:/pfs/run/w(?P<id>\\d{1,2})"]);
    assert_eq!(matched(&set, "r.10.base").rank, None);
    assert_eq!(matched(&set, "r.10.3").rank, Some(3));
    assert_eq!(set.match_path("r.10.3.tmp"), None);
    let absolute = matched(&set, "w12");
    assert_eq!((absolute.series, absolute.id.as_deref()), (1, Some("12")));
    assert_eq!(absolute.masked, "w{id}");
    assert_eq!(set.match_path("w123"), None);
}

#[test]
fn the_classic_form_is_for_its_ranks_and_matches_anywhere() {
    let set = set(&["0-N:ckpt\\.[0-9]+,0-1:header"]);
    assert!(set.match_path("dir/ckpt.12.x").is_some());
    // This process is rank 2.
    assert_eq!(set.match_path("header"), None);
    // A series is the same on all ranks, whoever its patterns are for.
    let list = "0:head_(?<id>[0-9]+),1-N:data";
    for rank in [0, 2] {
        let set = SeriesSet::new(&PatternConfig { rank, ..config(&[list], &[], &[]) });
        assert!(set.expect("valid patterns").series()[0].has_id);
    }
}

#[test]
fn absolute_patterns_lie_below_the_prefix() {
    for pattern in ["/pfs/run/a_{id}", "/home/me/run//./a_{id}", "b/../a_{id}"] {
        assert_eq!(matched(&set(&[pattern]), "a_3").masked, "a_{id}");
    }
    for (pattern, part) in [
        ("/pfs/other/a_{id}", "SCR_PREFIX"),
        ("/pfs/run", "SCR_PREFIX"),
        ("../a", "not below"),
        (".", "names the prefix"),
        ("a_{ID}", "did you mean id?"),
        ("re:a(b", "unclosed group"),
        ("re:a)|(b", "unopened group"),
    ] {
        let error = SeriesSet::new(&config(&[pattern], &[], &[])).expect_err(pattern).to_string();
        assert!(error.starts_with("scr.conf:0: SCR_CHECKPOINT_PATTERN:"), "{error}");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn directories_without_hope_are_known() {
    let set = set(&["ckpt/step_{id}/sub/*", "deep/**/x", "re:other/d_.*/f"]);
    for (directory, expected) in [
        ("", true),
        ("ckpt", true),
        ("ckpt/step_10", true),
        ("ckpt/step_10/sub", true),
        ("ckpt/step_10/sub/below", false),
        ("ckpt/step_x", false),
        ("deep/a/b/c", true),
        ("other", true),
        ("other/d_3", true),
        ("other/x", false),
        ("elsewhere", false),
    ] {
        assert_eq!(set.could_match_below(directory), expected, "{directory}");
    }
}

#[test]
fn settings_become_series() {
    let environment = [
        ("SCR_CHECKPOINT_PATTERN_2", "b_{id}"),
        ("SCR_CHECKPOINT_PATTERN", "re:^a_(?<id>\\d+)$"),
        ("SCR_IGNORE_PATTERN", "*.tmp"),
        ("SCR_PREFIX", "/pfs/run"),
    ]
    .map(|(name, value)| (name.to_string(), value.to_string()))
    .into();
    let inputs = Inputs {
        environment: &environment,
        working_directory: Path::new("/"),
        system_file: Path::new("/nonexistent/scr.conf"),
        program: &[],
    };
    let settings = load(&inputs).expect("valid settings");
    let config = PatternConfig::from_settings(&settings, Path::new("/pfs/run"), 0);
    let set = SeriesSet::new(&config).expect("valid patterns");
    assert_eq!(matched(&set, "a_12").series, 0);
    assert_eq!(matched(&set, "b_12").series, 1);
    assert_eq!(config.checkpoint[1].place, "environment variable SCR_CHECKPOINT_PATTERN_2");
}

mod any {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn list_and_path_give_a_match_or_not(
            list in "[ab/*?{}\\[\\],:1N(\\\\-]{0,14}|(re:)?\\PC{0,12}|0-N:\\PC{0,8}",
            path in "[ab/1]{0,8}|\\PC{0,8}",
        ) {
            if let Ok(set) = SeriesSet::new(&config(&[&list], &[], &[])) {
                let found = set.match_path(&path);
                // What matches may never be ruled out beforehand.
                if let Some((directory, _)) = path.rsplit_once('/') && found.is_some() {
                    prop_assert!(set.could_match_below(directory), "{} {}", list, path);
                }
            }
        }
    }
}

#[test]
fn a_pattern_that_an_earlier_series_takes_everything_from_is_told() {
    let warned = |checkpoint: &[&str], output: &[&str]| {
        let set = SeriesSet::new(&config(checkpoint, output, &[])).expect("valid patterns");
        set.warnings().to_vec()
    };
    let wide_first = warned(&["ckpt/**", "ckpt/step_{id}/rank_{rank}.dat"], &[]);
    assert_eq!(wide_first.len(), 1, "{wide_first:?}");
    for part in [
        "scr.conf:1: SCR_CHECKPOINT_PATTERN_2: files such as ckpt/step_",
        "rank_1.dat match SCR_CHECKPOINT_PATTERN, too",
        "the narrower pattern to the earlier series",
    ] {
        assert!(wide_first[0].contains(part), "{wide_first:?}");
    }
    let twice = warned(&["a_{id}", "re:a_(?<id>[0-9]+)"], &["a_*"]);
    assert_eq!(twice.len(), 1, "the output pattern takes more: {twice:?}");
    assert!(warned(&["x"], &["0-3:/pfs/run/[x]"])[0].contains("SCR_OUTPUT_PATTERN: files such"));
    // Narrow before wide; the same list twice is one series that is both.
    assert!(warned(&["ckpt/step_{id}/rank_{rank}.dat", "ckpt/**"], &[]).is_empty());
    assert!(warned(&["a_{id}"], &["a_{id}"]).is_empty());
    assert!(warned(&["a_{id}", "b_{id}"], &["[c-d]_{id}", "re:(?s:e|f).+"]).is_empty());
}
