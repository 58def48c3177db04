//! Messages and their explanations.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use scr_core::log::messages;

use super::{code, err, on_terminal, out, scr};

const LOG: &str = "step 1\n\
    SCR: node7: /dev/shm has no room for all of checkpoint 10; the rest (SCR-2001)\n\
    SCR: node8: /dev/shm has no room for all of checkpoint 10; the rest (SCR-2001)\n\
    [1,0]<stderr>:SCR: checkpoint 20 cannot be had again (SCR-3102)\n";

#[test]
fn each_message_is_explained_and_all_are_listed() {
    let terminal = on_terminal(&scr(Path::new("/"), &["explain"]));
    for mut command in [terminal, scr(Path::new("/"), &["explain"])] {
        let list = out(&command.stdin(Stdio::null()).output().unwrap());
        for one in messages::all() {
            assert!(list.contains(&format!("{}  {}", one.id, one.title)), "{}: {list}", one.id);
        }
    }
    for word in ["SCR-2001", "scr-2001", "2001", "(SCR-2001)"] {
        let output = scr(Path::new("/"), &["explain", word]).output().unwrap();
        let text = out(&output);
        assert_eq!((code(&output), err(&output)), (Some(0), String::new()), "{word}");
        assert!(text.starts_with("SCR-2001: The cache has no room\n"), "{text}");
        for part in ["  why: ", "  SCR: ", "  you: ", "SCR_CACHE_SIZE"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn an_unknown_id_has_the_nearest_one_and_a_file_has_to_be_there() {
    let all = ["explain", "SCR-2050", "4001", "/no/such/file", "99999999999"];
    let output = scr(Path::new("/"), &all).output().unwrap();
    let (told, text) = (err(&output), out(&output));
    assert_eq!(code(&output), Some(1), "{told}");
    assert!(text.starts_with("SCR-4001: "), "{text}");
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(told.contains("no message SCR-2050; the nearest is SCR-20"), "{told}");
    assert!(told.contains("cannot read /no/such/file: "), "{told}");
    assert!(told.lines().all(|line| line.ends_with(')') && line.contains("(SCR-7")), "{told}");
}

#[test]
fn the_output_of_a_job_is_explained_once_a_message() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.out"), LOG).unwrap();
    std::fs::write(dir.path().join("quiet.out"), b"\xff nothing SCR-1 \n").unwrap();
    let given = scr(dir.path(), &["explain", "job.out"]).output().unwrap();
    let mut fed = Vec::new();
    for words in [&["explain"][..], &["explain", "-"]] {
        let mut command = scr(dir.path(), words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(LOG.as_bytes()).unwrap();
        fed.push(child.wait_with_output().unwrap());
    }
    for output in [&given, &fed[0], &fed[1]] {
        let text = out(output);
        assert_eq!(code(output), Some(0), "{}", err(output));
        let titles = text.lines().filter(|line| line.starts_with("SCR-"));
        let titles: Vec<_> = titles.map(|line| &line[..8]).collect();
        assert_eq!(titles, ["SCR-2001", "SCR-3102"], "{text}");
        assert!(text.contains("line 2, 2 lines: SCR: node7: "), "{text}");
    }
    let quiet = scr(dir.path(), &["explain", "quiet.out"]).output().unwrap();
    assert_eq!((code(&quiet), out(&quiet)), (Some(0), "no message of SCR is in it\n".to_owned()));
    let json = scr(dir.path(), &["explain", "--json", "job.out", "5001"]).output().unwrap();
    let told: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(told.as_array().unwrap().len(), 3, "{told}");
    assert_eq!(told[0]["found"]["lines"], 2, "{told}");
    assert_eq!((&told[2]["id"], &told[2]["found"]), (&"SCR-5001".into(), &().into()), "{told}");
}

/// `scr explain --markdown > docs/guide/messages.md` makes it anew.
#[test]
fn the_page_of_the_guide_is_what_the_code_says() {
    let made = out(&scr(Path::new("/"), &["explain", "--markdown"]).output().unwrap());
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let page = std::fs::read_to_string(guide.join("messages.md")).unwrap();
    assert!(made == page, "docs/guide/messages.md is not what scr explain --markdown prints");
    // The ids that people have written into the other pages.
    let known: BTreeSet<String> = messages::all().map(|one| one.id.to_string()).collect();
    let text = std::fs::read_to_string(guide.join("failures.md")).unwrap();
    let named = text.match_indices("SCR-").map(|(at, _)| text[at..].chars().take(8).collect());
    let named: BTreeSet<String> = named.collect();
    assert!(named.len() > 5 && named.is_subset(&known), "{named:?}");
}

/// Names that the texts have beside those of parameters.
const OTHER_NAMES: [&str; 4] = ["SCR_CONFIG", "SCR_VIEW", "SCR_INIT", "SCR_FINALIZE"];

#[test]
fn the_texts_name_parameters_and_commands_that_there_are() {
    let ask = |words: &[&str]| out(&scr(Path::new("/"), words).output().unwrap());
    let parameters = ask(&["config"]);
    let tools = super::manual::tools();
    for one in messages::all() {
        for text in [one.title, one.cause, one.done, one.cure] {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
            let words: Vec<&str> = words.collect();
            for word in words.iter().filter(|word| word.starts_with("SCR_") && word.len() > 4) {
                let is_upper = !word.contains(|c: char| c.is_ascii_lowercase());
                let name = word.trim_end_matches("_2");
                let is_known =
                    !is_upper || parameters.contains(name) || OTHER_NAMES.contains(&name);
                assert!(is_known, "{}: {word} is no parameter", one.id);
            }
            // A command with an option is meant to be typed.
            for typed in words.windows(3).filter(|three| three[0] == "scr") {
                if typed[2].starts_with("--") && typed[1] != "COMMAND" {
                    assert!(tools.iter().any(|tool| tool == typed[1]), "{}: {typed:?}", one.id);
                    let help = ask(&[typed[1], "--help"]);
                    assert!(help.contains(typed[2]), "{}: {typed:?}", one.id);
                }
            }
        }
    }
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let coloured = |text: String| text.contains("\x1b[");
    for words in [&["--help"][..], &["explain"], &["config", "FLUSH"], &["nonsense"]] {
        let mut on = on_terminal(&scr(Path::new("/"), words));
        let off = out(&on.stdin(Stdio::null()).env("NO_COLOR", "1").output().unwrap());
        assert!(!off.contains("\x1b[3") && !off.contains("\x1b[1m"), "{words:?}: {off:?}");
        let piped = scr(Path::new("/"), words).output().unwrap();
        assert!(!coloured(out(&piped)) && !coloured(err(&piped)), "{words:?}");
    }
}
