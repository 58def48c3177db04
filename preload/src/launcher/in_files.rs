//! Parameters of Open MPI that stand in files: the user's, the system's, or those of `--tune`.
//!
//! A variable of the same meaning comes before them, so whoever sets one has to know what they say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::option;

/// Lists of files, separated by commas: those of `--tune`, then the parameter files.
const LISTS: [&str; 2] = ["mca_base_envar_file_prefix", "mca_base_param_files"];
const SYSTEM_FILE: &str = "openmpi-mca-params.conf";

/// What the files that this mpirun will read say of `parameter`; the first that names it counts.
pub(super) fn value(parameter: &str, arguments: &[OsString]) -> Option<OsString> {
    let mut files = Vec::new();
    for list in LISTS {
        let variable = || std::env::var_os(format!("OMPI_MCA_{list}"));
        match on_command_line(list, arguments).or_else(variable) {
            Some(names) => files.extend(
                names
                    .as_bytes()
                    .split(|&byte| byte == b',')
                    .map(|name| PathBuf::from(OsStr::from_bytes(name))),
            ),
            None if list == LISTS[1] => files.extend(usual()),
            None => {}
        }
    }
    files.iter().find_map(|file| parse(&std::fs::read(file).ok()?, parameter))
}

/// The last word of the command line on one of the lists.
fn on_command_line(list: &str, arguments: &[OsString]) -> Option<OsString> {
    let given = (1..arguments.len()).rev().find_map(|at| match option(&arguments[at]) {
        Some(b"tune") if list == LISTS[0] => arguments.get(at + 1),
        Some(b"mca" | b"gmca") if arguments.get(at + 1)? == list => arguments.get(at + 2),
        _ => None,
    });
    given.cloned()
}

/// The user's file and the system's.
fn usual() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let home = variable("HOME").map(|home| home.join(".openmpi/mca-params.conf"));
    let places = match (variable("OPAL_SYSCONFDIR"), variable("OPAL_PREFIX")) {
        (Some(place), _) => vec![place],
        (None, Some(prefix)) => vec![prefix.join("etc")],
        (None, None) => system_places(),
    };
    let system = places.iter().map(|place| place.join(SYSTEM_FILE)).find(|file| file.exists());
    home.into_iter().chain(system).collect()
}

/// Where an installation keeps its files: beside its `bin`, or where a distribution puts them.
fn system_places() -> Vec<PathBuf> {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let of_this_machine = format!("/etc/openmpi-{}", std::env::consts::ARCH);
    vec![prefix.join("etc"), "/etc/openmpi".into(), of_this_machine.into()]
}

/// The last `parameter = value` or `-mca parameter value` of a file, as Open MPI reads it: the
/// first goes to the end of its line, the second is one word, perhaps in quotes.
fn parse(text: &[u8], parameter: &str) -> Option<OsString> {
    let mut found = None;
    for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.starts_with(b"-") {
            let words: Vec<&[u8]> =
                line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            for three in words.windows(3) {
                if matches!(three[0], b"-mca" | b"--mca") && three[1] == parameter.as_bytes() {
                    found = Some(unquoted(three[2]));
                }
            }
        } else if let Some(equals) = line.iter().position(|&byte| byte == b'=')
            && line[..equals].trim_ascii() == parameter.as_bytes()
        {
            found = Some(line[equals + 1..].trim_ascii());
        }
    }
    found.filter(|value| !value.is_empty()).map(|value| OsString::from_vec(value.to_vec()))
}

fn unquoted(word: &[u8]) -> &[u8] {
    match word {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_open_mpi_reads_it() {
        let agent =
            |text: &str| parse(text.as_bytes(), "agent").map(|value| value.into_string().unwrap());
        let want = |text: &str| Some(text.to_owned());
        assert_eq!(agent("# agent = x\nbtl = self\nagents = y\n"), None);
        assert_eq!(agent("agent =\n"), None);
        assert_eq!(agent(" agent = /my/orted --a=b  \r\nbtl=self"), want("/my/orted --a=b"));
        assert_eq!(agent("agent=one\nagent=two"), want("two"));
        assert_eq!(agent("-x FOO=1 --mca agent \"/my/orted\" -mca btl self\n"), want("/my/orted"));
        assert_eq!(agent("-mca agent one two"), want("one"));
        assert_eq!(agent("-mca agent"), None);
    }

    #[test]
    fn the_last_list_on_the_command_line_counts() {
        let words: Vec<OsString> = "mpirun --tune a -mca mca_base_param_files b,c -tune d --mca"
            .split(' ')
            .map(OsString::from)
            .collect();
        assert_eq!(on_command_line(LISTS[0], &words), Some("d".into()));
        assert_eq!(on_command_line(LISTS[1], &words), Some("b,c".into()));
        assert_eq!(on_command_line(LISTS[1], &words[..3]), None);
    }
}
