//! The config file: `KEY=VALUE` lines, and descriptor lines that carry several.
//!
//! ```text
//! # comment
//! SCR_PREFIX=$WORK/run              # one setting a line, its value goes to the line's end
//! CKPT=0 INTERVAL=1 TYPE=XOR        # GROUPS, STORE and CKPT lines take several
//! ```

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::text::{self, Lookup};
use super::{Environment, Source};
use crate::error::{Error, Result, again};
use crate::files::read_regular;
use crate::system::{name_of_user, user_id};

/// Largest config file that is read, in bytes; GROUPS lines of 100,000 nodes fit.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The three kinds of descriptor lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineKind {
    /// `GROUPS=<host> NAME=VALUE ...`
    Groups,
    /// `STORE=<path> KEY=VALUE ...`
    Store,
    /// `CKPT=<index> KEY=VALUE ...`
    Checkpoint,
}

impl LineKind {
    /// All kinds.
    pub const ALL: [LineKind; 3] = [LineKind::Groups, LineKind::Store, LineKind::Checkpoint];

    /// Returns the key that such a line begins with.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            LineKind::Groups => "GROUPS",
            LineKind::Store => "STORE",
            LineKind::Checkpoint => "CKPT",
        }
    }

    pub(super) fn from_key(key: &str) -> Option<LineKind> {
        LineKind::ALL.into_iter().find(|kind| kind.key() == key)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptorLine {
    pub kind: LineKind,
    /// What the leading key says: a host, a path, an index.
    pub subject: String,
    /// The other `KEY=VALUE` words, in the line's order, no key twice.
    pub fields: Vec<(String, String)>,
    pub source: Source,
    /// `file:line`, for messages.
    pub place: String,
}

/// A `KEY=VALUE` line, not yet compared with the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub key: String,
    /// The value, unquoted and expanded.
    pub value: String,
    pub place: String,
}

#[derive(Debug, Default)]
pub struct Parsed {
    pub assignments: Vec<Assignment>,
    pub lines: Vec<DescriptorLine>,
    pub problems: Vec<Error>,
}

/// How it was decided that a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Somebody named it, and answers for what it says.
    Named,
    /// It was found in a directory, where anyone may have put it.
    Found,
}

pub fn read(
    path: &Path,
    source: Source,
    choice: Choice,
    environment: &Environment,
) -> Result<Option<Parsed>> {
    again(|| read_once(path, source, choice, environment))
}

fn read_once(
    path: &Path,
    source: Source,
    choice: Choice,
    environment: &Environment,
) -> Result<Option<Parsed>> {
    let io = |error| Error::io("cannot read the config file", path, error);
    let name = path.display().to_string();
    let unfit = |what| Error::Config { place: name.clone(), what };
    let mut file = match read_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            return Err(unfit("it is a directory, not a config file".to_string()));
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(unfit("it is no regular file".to_string()));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let data = file.metadata().map_err(io)?;
    let length = data.len();
    let reason = match choice {
        _ if length > FILE_BYTES_MAX => {
            Some(format!("{length} bytes are too many for a config file"))
        }
        Choice::Found => distrust(data.uid(), user_id(), data.mode()),
        Choice::Named => None,
    };
    if let Some(what) = reason {
        return Err(unfit(what));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    Ok(Some(parse(&bytes, &name, source, environment)))
}

/// Why a file that was found is not read: what it says would be done with this user's rights.
fn distrust(owner: u32, user: u32, mode: u32) -> Option<String> {
    let trusted = "if you trust it, name it in SCR_CONF_FILE";
    if owner != user && owner != 0 {
        let owner = name_of_user(owner);
        return Some(format!("it belongs to {owner}, neither to you nor to root; {trusted}"));
    }
    (mode & 0o002 != 0).then(|| {
        let mode = mode & 0o7777;
        format!("anyone may write to it (mode {mode:o}); take that away (chmod o-w) or, {trusted}")
    })
}

pub fn parse(bytes: &[u8], name: &str, source: Source, environment: &Environment) -> Parsed {
    let mut parsed = Parsed::default();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let place = format!("{name}:{}", index + 1);
        if let Err(what) = parse_line(&mut parsed, line, &place, source, environment) {
            parsed.problems.push(Error::Config { place, what });
        }
    }
    parsed
}

fn parse_line(
    parsed: &mut Parsed,
    line: &[u8],
    place: &str,
    source: Source,
    environment: &Environment,
) -> std::result::Result<(), String> {
    let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8 text".to_string())?;
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(());
    }
    if line.contains('\0') {
        return Err("the line contains a NUL character".to_string());
    }
    let variables = |name: &str| {
        // The environment wins over the file everywhere, so also here.
        environment.get(name).cloned().or_else(|| {
            parsed.assignments.iter().rev().find(|a| a.key == name).map(|a| a.value.clone())
        })
    };
    let Some((key, value)) = line.split_once('=') else {
        return Err(format!("KEY=VALUE is needed, found '{}'", shorten(line)));
    };
    let key = key.trim();
    if let Some(kind) = LineKind::from_key(key) {
        let (subject, fields) = parse_words(kind, value, &variables)?;
        let place = place.to_string();
        parsed.lines.push(DescriptorLine { kind, subject, fields, source, place });
        return Ok(());
    }
    if let Some(name) = key.strip_prefix("export ") {
        return Err(format!("this is not a shell script: write {} without export", name.trim()));
    }
    if !text::is_name(key) {
        return Err(format!("'{}' is not the name of a parameter", shorten(key)));
    }
    let value = text::value(value, &variables)?;
    parsed.assignments.push(Assignment { key: key.to_string(), value, place: place.to_string() });
    Ok(())
}

/// The part of a descriptor line behind the first `=`: its subject, then its fields.
fn parse_words(
    kind: LineKind,
    rest: &str,
    variables: Lookup<'_>,
) -> std::result::Result<(String, Vec<(String, String)>), String> {
    let mut words = text::words(rest, variables)?.into_iter();
    let subject = match words.next() {
        Some(subject) if !subject.is_empty() && !rest.starts_with(char::is_whitespace) => subject,
        _ => return Err(format!("{}= needs a value", kind.key())),
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("KEY=VALUE is needed, found '{}'", shorten(&word)));
        };
        if key.is_empty() || value.is_empty() {
            return Err(format!("'{}' lacks a key or a value", shorten(&word)));
        }
        if fields.iter().any(|(other, _)| other == key) {
            return Err(format!("{key} stands twice on this line"));
        }
        fields.push((key.to_string(), value.to_string()));
    }
    Ok((subject, fields))
}

fn shorten(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_text(text: &str) -> Parsed {
        let environment = [("WORK".to_string(), "/scratch".to_string())].into();
        parse(text.as_bytes(), "scr.conf", Source::UserFile, &environment)
    }

    #[test]
    fn settings_and_descriptor_lines_are_told_apart() {
        let parsed = parse_text(
            "\u{feff}# head\r\nSCR_PREFIX = $WORK/run # here\r\n\nSCR_CURRENT=$SCR_PREFIX/a b\n\
             CKPT=1 TYPE=XOR SET_SIZE=4\nGROUPS=node1 POWER='psu 1'\n",
        );
        assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
        let settings: Vec<_> =
            parsed.assignments.iter().map(|a| (&*a.key, &*a.value, &*a.place)).collect();
        assert_eq!(
            settings,
            [
                ("SCR_PREFIX", "/scratch/run", "scr.conf:2"),
                ("SCR_CURRENT", "/scratch/run/a b", "scr.conf:4"),
            ]
        );
        assert_eq!(parsed.lines[0].subject, "1");
        assert_eq!(parsed.lines[0].fields[1], ("SET_SIZE".to_string(), "4".to_string()));
        assert_eq!(parsed.lines[1].kind, LineKind::Groups);
        assert_eq!(parsed.lines[1].fields[0].1, "psu 1");
    }

    #[test]
    fn every_bad_line_is_named_and_the_good_ones_count() {
        let parsed = parse_text(
            "SCR_DEBUG\nexport SCR_FLUSH=1\nCKPT=0 TYPE\nCKPT=0 TYPE=XOR TYPE=RS\nSTORE=\n\
             SCR FLUSH=2\nSCR_GROUP='x\nSCR_PREFIX=$NOWHERE\nSTORE= /tmp\nSCR_FLUSH=3\n",
        );
        let messages: Vec<_> = parsed.problems.iter().map(ToString::to_string).collect();
        let parts = [
            ("scr.conf:1:", "KEY=VALUE"),
            ("scr.conf:2:", "without export"),
            ("scr.conf:3:", "'TYPE'"),
            ("scr.conf:4:", "TYPE stands twice"),
            ("scr.conf:5:", "STORE= needs"),
            ("scr.conf:6:", "'SCR FLUSH'"),
            ("scr.conf:7:", "single quote"),
            ("scr.conf:8:", "$NOWHERE is not set"),
            ("scr.conf:9:", "STORE= needs"),
        ];
        assert_eq!(messages.len(), parts.len(), "{messages:?}");
        for (message, (place, part)) in messages.iter().zip(parts) {
            assert!(message.starts_with(place) && message.contains(part), "{message}");
        }
        assert_eq!(parsed.assignments.len(), 1);
    }

    #[test]
    fn what_cannot_be_a_config_file_is_refused() {
        let environment = Environment::new();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let read = |path: &Path| read(path, Source::UserFile, Choice::Found, &environment);
        assert!(read(directory.path()).is_err());
        assert!(matches!(read(&directory.path().join("none")), Ok(None)));
        let large = directory.path().join("large");
        let file = std::fs::File::create(&large).expect("a file");
        file.set_len(FILE_BYTES_MAX + 1).expect("a sparse file");
        assert!(read(&large).is_err());
    }

    #[test]
    fn a_found_file_is_this_users_or_roots_alone() {
        let (own, root, other) = ((1000, 1000), (0, 1000), (1001, 1000));
        for ((owner, user), mode) in [(own, 0o644), (own, 0o664), (root, 0o644), ((0, 0), 0o600)] {
            assert_eq!(distrust(owner, user, mode), None);
        }
        for ((owner, user), mode, part) in [
            (other, 0o644, "neither to you nor to root"),
            ((1000, 0), 0o600, "neither to you nor to root"),
            (own, 0o666, "anyone may write to it (mode 666)"),
        ] {
            let told = distrust(owner, user, mode).unwrap_or_default();
            assert!(told.contains(part) && told.contains("SCR_CONF_FILE"), "{told}");
        }
    }

    #[test]
    fn a_file_that_anyone_may_write_to_is_read_only_if_it_is_named() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join(".scrconf");
        std::fs::write(&path, "SCR_FLUSH=1\n").expect("a file");
        let anyone = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&path, anyone).expect("a mode");
        let environment = Environment::new();
        let read = |choice| read(&path, Source::UserFile, choice, &environment);
        let told = read(Choice::Found).expect_err("a refusal").to_string();
        assert!(told.starts_with(&path.display().to_string()), "{told}");
        assert!(read(Choice::Named).is_ok_and(|parsed| parsed.is_some()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_bytes_give_settings_or_messages(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "([A-Z_]{0,8}[ =#'$\\n\"\\\\]{0,3}){0,20}".prop_map(String::into_bytes),
                "((CKPT|STORE|GROUPS|SCR_X)=[a-z0-9 =#'$]{0,12}\\n){0,9}"
                    .prop_map(String::into_bytes),
            ]
        ) {
            let _ = parse(&bytes, "x", Source::UserFile, &Environment::new());
        }
    }
}
