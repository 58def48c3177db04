//! Open MPI's mpirun gives its environment to the ranks of its own node only. On other nodes it
//! starts a daemon through a remote shell; naming `env LD_PRELOAD=... SCR_LAUNCH_ENV=... DAEMON` as
//! the one to start carries the preload there, together with the user's `-x` and env lists.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use scr_abi::objects;

use super::carried;
use super::in_files::{self, FileSetting, ParameterFiles};
use super::words::{option, preload_entry, set};

pub(super) struct ParameterNames {
    /// The launcher is linked with it.
    library: &'static [u8],
    daemon: &'static str,
    /// This name stands behind `--mca` and its like, and in files.
    parameter: &'static str,
    variable: &'static str,
    setting: &'static [&'static [u8]],
    files: ParameterFiles,
}

/// These are the names of Open MPI 3 and 4.
const ORTE: ParameterNames = ParameterNames {
    library: b"libopen-rte",
    daemon: "orted",
    parameter: "orte_launch_agent",
    variable: "OMPI_MCA_orte_launch_agent",
    setting: &[b"mca", b"gmca"],
    files: in_files::OPEN_MPI,
};
/// Open MPI 5's mpirun becomes PRRTE's prterun.
const PRRTE: ParameterNames = ParameterNames {
    library: b"libprrte",
    daemon: "prted",
    parameter: "prte_launch_agent",
    variable: "PRTE_MCA_prte_launch_agent",
    setting: &[b"mca", b"gmca", b"prtemca", b"gprtemca"],
    files: in_files::PRRTE,
};

/// All versions give the ranks the variables on this list.
const LIST: &str = "OMPI_MCA_mca_base_env_list";
const LIST_PARAMETER: &str = "mca_base_env_list";

impl ParameterNames {
    pub(super) fn of_this_launcher() -> Option<&'static ParameterNames> {
        let objects = objects::loaded_objects();
        let linked = |part: &[u8]| {
            let has_it = |name: &[u8]| name.windows(part.len()).any(|found| found == part);
            objects.iter().any(|name| has_it(name.to_bytes()))
        };
        [&ORTE, &PRRTE].into_iter().find(|names| linked(names.library))
    }
}

pub(super) struct RankEnvironment {
    pub names: &'static ParameterNames,
    pub preload: OsString,
    pub library: OsString,
    pub variables: Vec<(OsString, OsString)>,
}

impl RankEnvironment {
    pub(super) fn carry(&self, arguments: &[OsString]) -> Option<Vec<OsString>> {
        let said = |variable: &str, parameter: &str, files: &ParameterFiles| match in_files::value(
            parameter, arguments, files,
        ) {
            FileSetting::Fixed => FileSetting::Fixed,
            other => std::env::var_os(variable).map_or(other, FileSetting::Default),
        };
        match said(self.names.variable, self.names.parameter, &self.names.files) {
            FileSetting::Default(agent) => set(self.names.variable, &self.agent(Some(&agent))),
            FileSetting::Nothing => set(self.names.variable, &self.agent(None)),
            // mpirun would not heed it, and would complain.
            FileSetting::Fixed => {}
        }
        if let FileSetting::Default(list) = said(LIST, LIST_PARAMETER, &in_files::OPEN_MPI) {
            set(LIST, &self.list(&list));
        }
        self.rewrite(arguments)
    }

    /// Brings the cargo along and then runs `agent`.
    fn agent(&self, agent: Option<&OsStr>) -> OsString {
        let mut command = b"env LD_PRELOAD=".to_vec();
        command.extend(shell_escaped(self.preload.as_bytes()));
        command.extend(format!(" {}=", carried::NAME).bytes());
        command.extend(carried::encode(&self.variables).bytes());
        command.push(b' ');
        command.extend(user_agent(agent.unwrap_or(OsStr::new(self.names.daemon))).as_bytes());
        OsString::from_vec(command)
    }

    fn list(&self, list: &OsStr) -> OsString {
        let entries = list.as_bytes().split(|&byte| byte == b';');
        let changed: Vec<OsString> = entries
            .map(|entry| match entry.strip_prefix(b"LD_PRELOAD=") {
                Some(value) => preload_entry(value, &self.library),
                None => OsStr::from_bytes(entry).to_owned(),
            })
            .collect();
        changed.join(OsStr::new(";"))
    }

    /// Adds our part to an agent, and to an LD_PRELOAD; `None`: there is neither.
    fn rewrite(&self, arguments: &[OsString]) -> Option<Vec<OsString>> {
        let mut changed = arguments.to_vec();
        for at in 1..arguments.len() {
            match option(&arguments[at]) {
                Some(name) if at + 2 < arguments.len() && self.names.setting.contains(&name) => {
                    if arguments[at + 1] == self.names.parameter {
                        changed[at + 2] = self.agent(Some(&arguments[at + 2]));
                    } else if arguments[at + 1] == LIST_PARAMETER {
                        changed[at + 2] = self.list(&arguments[at + 2]);
                    }
                }
                Some(b"launch-agent") if at + 1 < arguments.len() => {
                    changed[at + 1] = self.agent(Some(&arguments[at + 1]));
                }
                Some(b"x") if at + 1 < arguments.len() => {
                    if let Some(value) = arguments[at + 1].as_bytes().strip_prefix(b"LD_PRELOAD=") {
                        changed[at + 1] = preload_entry(value, &self.library);
                    }
                }
                _ => {}
            }
        }
        (changed != arguments).then_some(changed)
    }
}

/// An mpirun around us may have put something before it.
fn user_agent(agent: &OsStr) -> &OsStr {
    let words: Vec<&[u8]> = agent.as_bytes().split(|&byte| byte == b' ').collect();
    let marker = format!("{}=", carried::NAME);
    match words.iter().position(|word| word.starts_with(marker.as_bytes())) {
        Some(at) if agent.as_bytes().starts_with(b"env LD_PRELOAD=") => {
            let skip: usize = words[..=at].iter().map(|word| word.len() + 1).sum();
            OsStr::from_bytes(&agent.as_bytes()[skip.min(agent.len())..])
        }
        _ => agent,
    }
}

/// Open MPI splits the command at spaces, drops empty words, and joins it for the remote shell:
/// with a backslash before each special character every piece is a word, and comes out as it was.
fn shell_escaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        if !byte.is_ascii_alphanumeric() && !b"_./:=+@,-".contains(&byte) && byte < 0x80 {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cargo() -> RankEnvironment {
        RankEnvironment {
            names: &ORTE,
            preload: "/opt/libscr_preload.so".into(),
            library: "/opt/libscr_preload.so".into(),
            variables: vec![("SCR_PREFIX".into(), "/a b".into())],
        }
    }

    const OURS: &str = "env LD_PRELOAD=/opt/libscr_preload.so SCR_LAUNCH_ENV=SCR_PREFIX=/a%20b%00 ";

    fn rewritten(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split('|').map(OsString::from).collect();
        let text = |words: Vec<OsString>| {
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join("|")
        };
        cargo().rewrite(&words).map(text)
    }

    #[test]
    fn the_agent_is_extended_once() {
        let first = cargo().agent(None);
        assert_eq!(first.to_str().unwrap(), format!("{OURS}orted"));
        assert_eq!(cargo().agent(Some(&first)), first);
        let own = cargo().agent(Some(OsStr::new("valgrind -q orted")));
        assert_eq!(own.to_str().unwrap(), format!("{OURS}valgrind -q orted"));
    }

    #[test]
    fn agents_on_the_command_line_are_extended() {
        let want = format!("mpirun|--mca|orte_launch_agent|{OURS}/my/orted|./app");
        assert_eq!(rewritten("mpirun|--mca|orte_launch_agent|/my/orted|./app"), Some(want));
        let want = format!("mpirun|-launch-agent|{OURS}x|./app");
        assert_eq!(rewritten("mpirun|-launch-agent|x|./app"), Some(want));
        assert_eq!(rewritten("mpirun|-n|4|--mca|btl|self|-x|FOO=1|./app"), None);
    }

    #[test]
    fn the_daemon_of_open_mpi_5_has_names_of_its_own() {
        let five = RankEnvironment { names: &PRRTE, ..cargo() };
        assert_eq!(five.agent(None).to_str().unwrap(), format!("{OURS}prted"));
        let words = ["mpirun", "--prtemca", "prte_launch_agent", "/my/prted", "./app"];
        let changed = five.rewrite(&words.map(OsString::from)).unwrap();
        assert_eq!(changed[3].to_str().unwrap(), format!("{OURS}/my/prted"));
        let words = ["mpirun", "--mca", "orte_launch_agent", "/my/orted", "./app"];
        assert_eq!(five.rewrite(&words.map(OsString::from)), None);
    }

    #[test]
    fn a_preload_of_the_users_own_comes_after_ours() {
        let want = "mpirun|-x|LD_PRELOAD=/opt/libscr_preload.so:/t.so|./app".to_owned();
        assert_eq!(rewritten("mpirun|-x|LD_PRELOAD=/t.so|./app"), Some(want));
        let listed = "mpirun|--mca|mca_base_env_list|A=1;LD_PRELOAD=/t.so;B|./app";
        let want =
            "mpirun|--mca|mca_base_env_list|A=1;LD_PRELOAD=/opt/libscr_preload.so:/t.so;B|./app";
        assert_eq!(rewritten(listed).as_deref(), Some(want));
        assert_eq!(rewritten("mpirun|--mca|mca_base_env_list|A=1;LD_PRELOAD|./app"), None);
        let bare = "mpirun|-x|LD_PRELOAD=/t.so:libscr_preload.so|./app";
        let want = "mpirun|-x|LD_PRELOAD=/t.so:/opt/libscr_preload.so|./app".to_owned();
        assert_eq!(rewritten(bare), Some(want));
    }

    #[test]
    fn special_characters_of_a_path_survive_splitting_at_spaces() {
        assert_eq!(shell_escaped(b"/a  b'c$"), b"/a\\ \\ b\\'c\\$");
    }
}
