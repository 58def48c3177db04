//! Parameters of Open MPI that stand in files: the user's, the system's, or those of `--tune`.
//!
//! A variable of the same meaning comes before them, so whoever sets one has to know what they say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::words::option;

pub(super) struct ParameterFiles {
    variable: &'static str,
    /// Parameters with lists of files, separated by commas, which take the place of the usual ones.
    /// The second, an old name, counts if nobody uses the first.
    lists: &'static [&'static str],
    /// A list of files that come first, also by an option of its own.
    tune: Option<&'static str>,
    users: &'static [&'static str],
    systems: &'static [&'static str],
    /// Nobody can change parameters of this one.
    fixed: Option<&'static str>,
    place: &'static str,
}

/// These are of Open MPI itself, and of its launchers up to version 4.
pub(super) const OPEN_MPI: ParameterFiles = ParameterFiles {
    variable: "OMPI_MCA_",
    lists: &["mca_base_param_files", "mca_param_files"],
    tune: Some("mca_base_envar_file_prefix"),
    users: &[".openmpi/mca-params.conf"],
    systems: &["openmpi-mca-params.conf"],
    fixed: Some("openmpi-mca-params-override.conf"),
    place: "/etc/openmpi",
};
/// The launchers of version 5 take the parameters of their PMIx for theirs.
pub(super) const PRRTE: ParameterFiles = ParameterFiles {
    variable: "PMIX_MCA_",
    lists: &["mca_base_param_files"],
    tune: None,
    users: &[".prte/mca-params.conf", ".pmix/mca-params.conf"],
    systems: &["prte-mca-params.conf", "pmix-mca-params.conf"],
    fixed: None,
    place: "/etc/prte",
};

/// Given in the place of the parameter files, it means that no file at all is read.
const NO_FILES: &str = "none";

pub(super) enum FileSetting {
    Nothing,
    /// A variable or the command line may say otherwise.
    Default(OsString),
    Fixed,
}

pub(super) fn value(parameter: &str, arguments: &[OsString], kind: &ParameterFiles) -> FileSetting {
    let listed = kind.lists.iter().find_map(|list| named(list, arguments, kind));
    if listed.as_ref().is_some_and(|names| names == NO_FILES) {
        return FileSetting::Nothing;
    }
    let find = |file: &PathBuf| parse(&std::fs::read(file).ok()?, parameter);
    let fixed = kind.fixed.and_then(|name| in_system_places(name, kind));
    if fixed.as_ref().and_then(find).is_some() {
        return FileSetting::Fixed;
    }
    let tune = kind.tune.and_then(|list| named(list, arguments, kind));
    let mut files = tune.map_or_else(Vec::new, |names| split(&names));
    files.extend(listed.map_or_else(|| usual(kind), |names| split(&names)));
    files.iter().find_map(find).map_or(FileSetting::Nothing, FileSetting::Default)
}

fn named(list: &str, arguments: &[OsString], kind: &ParameterFiles) -> Option<OsString> {
    let given = kind.tune.and_then(|tune| on_command_line(list, tune, arguments));
    given.or_else(|| std::env::var_os(format!("{}{list}", kind.variable)))
}

fn split(names: &OsStr) -> Vec<PathBuf> {
    let names = names.as_bytes().split(|&byte| byte == b',');
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

fn on_command_line(list: &str, tune: &str, arguments: &[OsString]) -> Option<OsString> {
    let given = (1..arguments.len()).rev().find_map(|at| match option(&arguments[at]) {
        Some(b"tune") if list == tune => arguments.get(at + 1),
        Some(b"mca" | b"gmca") if arguments.get(at + 1)? == list => arguments.get(at + 2),
        _ => None,
    });
    given.cloned()
}

fn usual(kind: &ParameterFiles) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let users = kind.users.iter().filter_map(|name| Some(home.as_ref()?.join(name)));
    users.chain(kind.systems.iter().filter_map(|name| in_system_places(name, kind))).collect()
}

fn in_system_places(name: &str, kind: &ParameterFiles) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let places = match (variable("OPAL_SYSCONFDIR"), variable("OPAL_PREFIX")) {
        (Some(place), _) => vec![place],
        (None, Some(prefix)) => vec![prefix.join("etc")],
        (None, None) => system_places(kind),
    };
    places.iter().map(|place| place.join(name)).find(|file| file.exists())
}

/// The places are beside the program's `bin`, and where a distribution puts them.
fn system_places(kind: &ParameterFiles) -> Vec<PathBuf> {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let of_this_machine = format!("{}-{}", kind.place, std::env::consts::ARCH);
    vec![prefix.join("etc"), kind.place.into(), of_this_machine.into()]
}

/// Reads `parameter = value` or `-mca parameter value` as Open MPI does, the last one: the first
/// form goes to the end of its line, the second is one word, perhaps in quotes.
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
        let found = |list, words| on_command_line(list, OPEN_MPI.tune.unwrap(), words);
        assert_eq!(found(OPEN_MPI.tune.unwrap(), &words), Some("d".into()));
        assert_eq!(found(OPEN_MPI.lists[0], &words), Some("b,c".into()));
        assert_eq!(found(OPEN_MPI.lists[0], &words[..3]), None);
        assert_eq!(found(OPEN_MPI.lists[1], &words), None);
    }
}
