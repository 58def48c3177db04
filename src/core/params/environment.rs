//! A process's variables as text. Programs may have any bytes in theirs; ours are UTF-8.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::error::Error;

/// Takes in what `std::env::vars_os` gives. A variable that is not UTF-8 text is left out; one of
/// ours (`SCR_...`) is a mistake as well.
pub fn read_environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Environment, Vec<Error>) {
    let (mut environment, mut problems) = (Environment::new(), Vec::new());
    for (name, value) in variables {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(environment.insert(name, value)),
            (name, value) => {
                let shown = |text: Result<String, OsString>| match text {
                    Ok(text) => text,
                    Err(bytes) => format!("{bytes:?}").trim_matches('"').to_string(),
                };
                let (name, value) = (shown(name), shown(value));
                if name.starts_with("SCR_") && !is_internal(&name) {
                    problems.push(Error::Config {
                        place: format!("environment variable {name}"),
                        what: format!("{name}={value} is not UTF-8 text"),
                    });
                }
            }
        }
    }
    (environment, problems)
}

/// A process's environment.
pub type Environment = BTreeMap<String, String>;

/// Variables that our own parts hand to one another; not parameters.
pub(super) fn is_internal(name: &str) -> bool {
    ["SCR_LAUNCH", "SCR_LATEST_", "SCR_SHIM", "SCR_SIM", "SCR_TEST_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn what_is_not_text_is_left_out_and_told_if_it_is_ours() {
        let word = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let (environment, problems) = read_environment([
            (word(b"TITLE"), word(b"caf\xe9")),
            (word(b"N\xe9"), word(b"1")),
            (word(b"SCR_FLUSH"), word(b"1")),
            (word(b"SCR_PREFIX"), word(b"/p/caf\xe9")),
            (word(b"SCR_FL\xdcSH"), word(b"2")),
            (word(b"SCR_SHIM_RANK"), word(b"\xff")),
        ]);
        assert_eq!(environment, Environment::from([("SCR_FLUSH".into(), "1".into())]));
        let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        let place = "environment variable SCR_PREFIX: SCR_PREFIX=/p/caf\\xE9 is not UTF-8 text";
        assert_eq!(told[0], place);
        assert!(told[1].contains("SCR_FL\\xDCSH"), "{told:?}");
    }
}
