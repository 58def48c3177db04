//! Open MPI's mpirun gives its environment to the ranks of its own node only. On other nodes it
//! starts
//! `orted` through a remote shell; naming `env LD_PRELOAD=... SCR_LAUNCH_ENV=... orted` as the
//! daemon to start carries the preload there, together with the user's `-x` and env lists.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::carried;

/// The variable that names the daemon to start.
pub(super) const AGENT: &str = "OMPI_MCA_orte_launch_agent";
/// What Open MPI starts if nobody says otherwise.
const DAEMON: &str = "orted";
/// Parameter of the same meaning on the command line, behind `--mca` and its like.
const PARAMETER: &str = "orte_launch_agent";

/// What is to reach the other nodes.
pub(super) struct Cargo {
    /// Value of LD_PRELOAD, ourselves with an absolute path.
    pub preload: OsString,
    /// Ourselves.
    pub library: OsString,
    /// All of our variables.
    pub variables: Vec<(OsString, OsString)>,
}

impl Cargo {
    /// The launch agent that brings the cargo along and then runs `agent`.
    pub(super) fn agent(&self, agent: Option<&OsStr>) -> OsString {
        let mut command = b"env LD_PRELOAD=".to_vec();
        command.extend(shell_escaped(self.preload.as_bytes()));
        command.extend(format!(" {}=", carried::NAME).bytes());
        command.extend(carried::encode(&self.variables).bytes());
        command.push(b' ');
        command.extend(user_agent(agent.unwrap_or(OsStr::new(DAEMON))).as_bytes());
        OsString::from_vec(command)
    }

    /// The command line with our part added to an agent that it names, and to an LD_PRELOAD that it
    /// sets; `None` if it does neither.
    pub(super) fn rewrite(&self, arguments: &[OsString]) -> Option<Vec<OsString>> {
        let mut changed = arguments.to_vec();
        for at in 1..arguments.len() {
            let option = arguments[at].as_bytes();
            let bare = option.strip_prefix(b"-").unwrap_or(option);
            let bare = bare.strip_prefix(b"-").unwrap_or(bare);
            if bare.len() == option.len() {
                continue;
            }
            match bare {
                b"mca" | b"gmca" if at + 2 < arguments.len() && arguments[at + 1] == PARAMETER => {
                    changed[at + 2] = self.agent(Some(&arguments[at + 2]));
                }
                b"launch-agent" if at + 1 < arguments.len() => {
                    changed[at + 1] = self.agent(Some(&arguments[at + 1]));
                }
                b"x" if at + 1 < arguments.len() => {
                    if let Some(value) = arguments[at + 1].as_bytes().strip_prefix(b"LD_PRELOAD=") {
                        changed[at + 1] = joined("LD_PRELOAD=", &self.with_us(value));
                    }
                }
                _ => {}
            }
        }
        (changed != arguments).then_some(changed)
    }

    fn with_us(&self, preload: &[u8]) -> OsString {
        super::preload_with(OsStr::from_bytes(preload), &self.library)
    }
}

fn joined(head: &str, tail: &OsStr) -> OsString {
    let mut whole = OsString::from(head);
    whole.push(tail);
    whole
}

/// The agent without what an mpirun around us has put before it.
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

    fn cargo() -> Cargo {
        Cargo {
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
    fn a_preload_of_the_users_own_comes_after_ours() {
        let want = "mpirun|-x|LD_PRELOAD=/opt/libscr_preload.so:/t.so|./app".to_owned();
        assert_eq!(rewritten("mpirun|-x|LD_PRELOAD=/t.so|./app"), Some(want));
        let bare = "mpirun|-x|LD_PRELOAD=/t.so:libscr_preload.so|./app";
        let want = "mpirun|-x|LD_PRELOAD=/t.so:/opt/libscr_preload.so|./app".to_owned();
        assert_eq!(rewritten(bare), Some(want));
    }

    #[test]
    fn special_characters_of_a_path_survive_splitting_at_spaces() {
        assert_eq!(shell_escaped(b"/a  b'c$"), b"/a\\ \\ b\\'c\\$");
    }
}
