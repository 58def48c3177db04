//! Help, manual pages, completions and classic names are those of one list of commands.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code, err, out, scr};

/// The sub-commands, as `scr --help` lists them.
pub fn tools() -> Vec<String> {
    below(&[])
}

/// What the help of a command lists below it.
fn below(words: &[&str]) -> Vec<String> {
    let output = scr(Path::new("/"), &[words, &["--help"]].concat()).output().expect("it runs");
    let text = out(&output);
    let Some(list) = text.split("Commands:\n").nth(1) else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A description that goes on has more spaces before it.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn each_command_has_help_with_an_example_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    let output = scr(dir.path(), &["manual", "share"]).output().unwrap();
    assert_eq!((code(&output), out(&output)), (Some(0), String::new()), "{}", err(&output));
    let tools = tools();
    assert!(tools.len() >= 20, "{tools:?}");
    for tool in &tools {
        let output = scr(dir.path(), &[tool, "--help"]).output().unwrap();
        assert_eq!(code(&output), Some(0), "{tool}");
        let help = out(&output);
        assert!(help.contains("Example") && help.contains("scr "), "{tool}: {help}");
        let page = std::fs::read_to_string(share.join(format!("man/man1/scr-{tool}.1"))).unwrap();
        assert!(page.contains(&format!(".TH scr-{tool} 1")), "{page}");
        assert!(page.contains(".SH NOTES\n"), "{tool}");
    }
    let completions = [
        "bash-completion/completions/scr",
        "zsh/site-functions/_scr",
        "fish/vendor_completions.d/scr.fish",
    ];
    for name in completions {
        let text = std::fs::read_to_string(share.join(name)).unwrap();
        assert!(tools.iter().all(|tool| text.contains(tool.as_str())), "{name}");
    }
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(code(&scr(dir.path(), &["manual", "file"]).output().unwrap()), Some(1));
}

/// A person who has typed `--help` needs no other document: an example, and what a script can ask.
#[test]
fn each_help_has_an_example_and_the_exit_statuses() {
    let mut all: Vec<Vec<String>> = Vec::new();
    for tool in tools() {
        let actions = below(&[&tool]);
        all.extend(actions.into_iter().map(|action| vec![tool.clone(), action]));
        all.push(vec![tool]);
    }
    assert!(all.len() >= 30, "{all:?}");
    let help_of = |words: &[&str]| {
        let output = scr(Path::new("/"), &[words, &["--help"]].concat()).output().unwrap();
        assert_eq!(code(&output), Some(0), "{words:?}");
        // However wide the terminal is.
        out(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for words in &all {
        let help = help_of(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let (before, example) = help.rsplit_once("Example").unwrap_or((&help, ""));
        assert!(example.contains(&format!("scr {}", words[0])), "{words:?}: no example: {help}");
        assert!(before.contains("exit status"), "{words:?}: no exit status: {help}");
    }
    // Whatever a script might want to read.
    let readable = [
        &["check-node"][..],
        &["doctor"],
        &["down-nodes"],
        &["env"],
        &["explain"],
        &["flush-file"],
        &["halt"],
        &["hosts"],
        &["copy"],
        &["index", "list"],
        &["index", "verify"],
        &["log", "show"],
        &["ls"],
        &["nodes"],
        &["print"],
        &["rebuild"],
        &["retries-halt"],
        &["scavenge"],
        &["status"],
        &["test-runtime"],
        &["transfer"],
        &["verify"],
    ];
    for words in readable {
        assert!(help_of(words).contains("--json"), "{words:?}");
    }
}

#[test]
fn the_classic_names_that_are_installed_are_those_that_the_program_knows() {
    let dir = tempfile::tempdir().unwrap();
    scr(dir.path(), &["manual", "."]).output().unwrap();
    let pages = std::fs::read_dir(dir.path().join("man/man1")).unwrap();
    let names = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let known: BTreeSet<String> = names
        .filter_map(|name| Some(name.strip_suffix(".1")?.to_owned()))
        .filter(|name| name.starts_with("scr_"))
        .collect();
    let makefile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Makefile");
    let makefile = std::fs::read_to_string(makefile).unwrap();
    let list = makefile.split("CLASSIC   :=").nth(1).unwrap();
    let mut installed = BTreeSet::new();
    for line in list.lines() {
        let words = line.split_whitespace().filter(|word| *word != "\\");
        installed.extend(words.map(str::to_owned));
        if !line.ends_with('\\') {
            break;
        }
    }
    assert_eq!(installed, known);
    for name in known {
        let link = dir.path().join(&name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scr"), &link).unwrap();
        let output = std::process::Command::new(&link).arg("--help").output().unwrap();
        assert_eq!(code(&output), Some(0), "{name}");
        assert!(out(&output).contains("Example"), "{name}: {}", out(&output));
    }
}
