//! The names that the manuals give the commands, and what their options are called here.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use scr_core::params::{self, escaped};

/// The names that the manuals give the commands, with the tools that they are links to.
pub const NAMES: [(&str, &str); 24] = [
    ("scr_check_node", "check-node"),
    ("scr_cntl_dir", "cntl-dir"),
    ("scr_copy", "copy"),
    ("scr_env", "env"),
    ("scr_flush", "scavenge"),
    ("scr_flush_file", "flush-file"),
    ("scr_halt", "halt"),
    ("scr_glob_hosts", "hosts"),
    ("scr_log_event", "log add"),
    ("scr_prerun", "prerun"),
    ("scr_print", "print"),
    ("scr_print_hash_file", "print"),
    ("scr_index", "index"),
    ("scr_list_dir", "cntl-dir"),
    ("scr_list_down_nodes", "down-nodes"),
    ("scr_postrun", "scavenge"),
    ("scr_rebuild_xor", "rebuild"),
    ("scr_retries_halt", "retries-halt"),
    ("scr_run", "run"),
    ("scr_scavenge", "scavenge"),
    ("scr_should_exit", "retries-halt --allocation"),
    ("scr_srun", "run"),
    ("scr_test_runtime", "test-runtime"),
    ("scr_transfer", "transfer"),
];

/// What scr_index takes as options are actions here.
const INDEX_ACTIONS: [(&str, &str); 9] = [
    ("--add", "add"),
    ("--build", "build"),
    ("--current", "current"),
    ("--drop", "drop"),
    ("--drop-after", "drop-after"),
    ("--list", "list"),
    ("--remove", "drop"),
    ("-a", "add"),
    ("-l", "list"),
];

/// Returns the command line as if `scr` had been called: with the tool that a classic name stands
/// for, and its options as they are called here.
pub fn with_tool(mut words: Vec<OsString>) -> Vec<OsString> {
    let called = words.first().and_then(|word| Path::new(word).file_name());
    let known = NAMES.iter().find(|(name, _)| called == Some(OsStr::new(name)));
    let Some((name, tool)) = known else { return words };
    let tool = tool.split(' ').map(OsString::from);
    words.splice(..1, std::iter::once("scr".into()).chain(tool));
    match *name {
        "scr_halt" => halt_words(words),
        "scr_index" => index_words(words),
        "scr_list_dir" => directory_words(words),
        "scr_run" => run_words(words, None),
        "scr_srun" => run_words(words, Some("srun")),
        _ => words,
    }
}

/// `--unset-before` becomes `--unset before`.
fn halt_words(words: Vec<OsString>) -> Vec<OsString> {
    let each = |word: OsString| match word.to_str().and_then(|word| word.strip_prefix("--unset-")) {
        Some(condition) => format!("--unset={condition}").into(),
        None => word,
    };
    words.into_iter().map(each).collect()
}

/// `control` is what is printed without an option.
fn directory_words(words: Vec<OsString>) -> Vec<OsString> {
    let each = |word: OsString| match word.to_str() {
        Some("control") => None,
        Some("cache") => Some("--cache".into()),
        _ => Some(word),
    };
    words.into_iter().filter_map(each).collect()
}

/// What the classic commands are given is for the launcher: `-n 4 ./app` of scr_srun becomes
/// `-- srun -n 4 ./app`. A line that names it itself is as it is called here, with options of `scr
/// run` before it. `-rc=COMMAND` ends the launcher's line, `-rs=COMMAND` that of launches that have
/// a checkpoint to go on from.
fn run_words(mut words: Vec<OsString>, launcher: Option<&str>) -> Vec<OsString> {
    let mut commands = [("-rc", "--run-cmd", None), ("-rs", "--restart-cmd", None)];
    for (short, long, value) in &mut commands {
        *value = take_option(&mut words, short, long);
    }
    let asks = words.get(2).is_none_or(|word| word == "--help" || word == "-h");
    let is_named = |word: &OsString| Path::new(word).file_name() == launcher.map(OsStr::new);
    let [(_, _, run), (_, _, restart)] = commands;
    let given = run.is_some() || restart.is_some();
    if let Some(launcher) = launcher.filter(|_| !words[2..].iter().any(is_named))
        && (given || !asks)
    {
        words.splice(2..2, ["--".into(), launcher.into()]);
    } else if given {
        words.insert(2, "--".into());
    }
    if let Some(restart) = restart {
        let line =
            words[3..].iter().map(|word| format!("\"{}\" ", escaped(&word.to_string_lossy())));
        let restart = restart.replace("SCR_CKPT_NAME", "{latest}");
        let restart = format!("{}{restart}", line.collect::<String>());
        words.splice(2..2, ["--restart-command".into(), restart.into()]);
    }
    let plain = |run: String| {
        let own = |name: &str| std::env::var(name).ok();
        params::words(&run, &own).unwrap_or_else(|_| vec![run.clone()])
    };
    words.extend(run.map(plain).unwrap_or_default().into_iter().map(OsString::from));
    words
}

/// Takes an option out, `-rc=VALUE` or `-rc VALUE`.
fn take_option(words: &mut Vec<OsString>, short: &str, long: &str) -> Option<String> {
    let named = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*word, None),
        };
        (name == short || name == long).then(|| value.map(str::to_owned))
    };
    let (at, value) = words.iter().enumerate().find_map(|(at, word)| Some((at, named(word)?)))?;
    words.remove(at);
    match value {
        None if at < words.len() => Some(words.remove(at).to_string_lossy().into_owned()),
        value => Some(value.unwrap_or_default()),
    }
}

/// `--add NAME` and `--add=NAME` become `add NAME`, wherever they stand; `--build NAME` is an
/// `add`, too. With nothing of the kind the list is meant.
fn index_words(mut words: Vec<OsString>) -> Vec<OsString> {
    for at in 2..words.len() {
        let text = words[at].to_string_lossy().into_owned();
        if ["help", "--help", "-h", "verify"].contains(&&*text) || action(&text).is_some() {
            // As it is called here.
            return words;
        }
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None => (&*text, None),
        };
        let known = INDEX_ACTIONS.iter().find(|(classic, _)| *classic == option);
        let Some((_, name)) = known else { continue };
        words.remove(at);
        let mut given = value.is_some();
        let mut moved: Vec<OsString> = value.into_iter().collect();
        let is_value = |word: &OsString| !word.to_string_lossy().starts_with('-');
        if !given && *name != "list" && words.get(at).is_some_and(is_value) {
            moved.push(words.remove(at));
            given = true;
        }
        let name = if *name == "build" && given { "add" } else { name };
        moved.insert(0, name.into());
        words.splice(2..2, moved);
        return words;
    }
    words.insert(2, "list".into());
    words
}

fn action(word: &str) -> Option<&'static str> {
    INDEX_ACTIONS.iter().map(|(_, action)| *action).find(|action| *action == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = with_tool(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_of_the_manuals_become_actions() {
        for (classic, ours) in [
            ("/usr/bin/scr_halt -c 3", "scr halt -c 3"),
            ("scr hosts --count a", "scr hosts --count a"),
            ("scr_index --list", "scr index list"),
            ("scr_index -l --prefix /p", "scr index list --prefix /p"),
            ("scr_index --prefix /p --add ckpt.6", "scr index add ckpt.6 --prefix /p"),
            ("scr_index --add=ckpt.6 --prefix=/p", "scr index add ckpt.6 --prefix=/p"),
            ("scr_index --drop-after 5", "scr index drop-after 5"),
            ("scr_index --prefix /p", "scr index list --prefix /p"),
            ("scr_index list --prefix /p", "scr index list --prefix /p"),
            ("scr_index add --current 5", "scr index add --current 5"),
            ("scr_index --build ckpt.6 -p /p", "scr index add ckpt.6 -p /p"),
            ("scr_index --build", "scr index build"),
            ("scr_index --help", "scr index --help"),
            ("scr_index", "scr index list"),
            ("scr_log_event -T X", "scr log add -T X"),
            ("scr_srun -n 4 ./app", "scr run -- srun -n 4 ./app"),
            ("scr_srun -n 4 ./app -- x", "scr run -- srun -n 4 ./app -- x"),
            ("scr_srun --runs 3 -- /usr/bin/srun -n4 a", "scr run --runs 3 -- /usr/bin/srun -n4 a"),
            ("scr_srun --help", "scr run --help"),
            ("scr_srun", "scr run"),
            ("scr_run srun -n 4 ./app", "scr run srun -n 4 ./app"),
            ("scr_run srun -rc=./app -n 4", "scr run -- srun -n 4 ./app"),
            (
                "scr_srun -n4 --run-cmd=./app -rs=./app=SCR_CKPT_NAME",
                "scr run --restart-command \"srun\" \"-n4\" ./app={latest} -- srun -n4 ./app",
            ),
            ("scr_halt --unset-before --list", "scr halt --unset=before --list"),
            ("scr_index --remove ckpt.6", "scr index drop ckpt.6"),
            ("scr_index --build 50", "scr index add 50"),
            ("scr_list_dir control", "scr cntl-dir"),
            ("scr_list_dir cache", "scr cntl-dir --cache"),
            ("scr_should_exit", "scr retries-halt --allocation"),
        ] {
            assert_eq!(translated(classic), ours);
        }
    }
}
