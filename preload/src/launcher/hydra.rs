//! MPICH's mpiexec (hydra) gives its whole environment to all ranks, unless the user limits it: by
//! an option, in a configuration file, or by HYDRA_ENV. What `-genv` names passes all the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::words::{option, preload_entry, preload_with};

pub(super) const LIMIT: &str = "HYDRA_ENV";
/// A `configfile` may hide such an option.
const LIMITS: [&[u8]; 5] = [b"genvnone", b"envnone", b"genvlist", b"envlist", b"configfile"];

/// Gives `variables` one by one if options or `limit` (the value of [`LIMIT`]) hold them back, and
/// adds us to an LD_PRELOAD that is set; `None`: neither is needed.
pub(super) fn rewrite(
    arguments: &[OsString],
    variables: &[(OsString, OsString)],
    library: &OsStr,
    limit: Option<&OsStr>,
) -> Option<Vec<OsString>> {
    let mut changed = arguments.to_vec();
    for at in 1..arguments.len() {
        if !matches!(option(&arguments[at]), Some(b"genv" | b"env")) {
            continue;
        }
        let word = |at: usize| arguments.get(at).map_or(&b""[..], |word| word.as_bytes());
        if let Some(value) = word(at + 1).strip_prefix(b"LD_PRELOAD=") {
            changed[at + 1] = preload_entry(value, library);
        } else if word(at + 1) == b"LD_PRELOAD" && at + 2 < arguments.len() {
            changed[at + 2] = preload_with(&arguments[at + 2], library);
        }
    }
    let is_limit = |argument| {
        option(argument).is_some_and(|name| {
            LIMITS.contains(&name.split(|&byte| byte == b'=').next().unwrap_or(name))
        })
    };
    // Of its values only `all` lets anything pass.
    if limit.is_some_and(|value| value != "all") || arguments.iter().any(|word| is_limit(word)) {
        let given = variables
            .iter()
            .flat_map(|(name, value)| [OsString::from("-genv"), name.clone(), value.clone()]);
        changed.splice(1..1, given);
    }
    (changed != arguments).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str, limit: Option<&str>) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let variables = [("LD_PRELOAD", "/l/libscr_preload.so"), ("SCR_A", "x")]
            .map(|(name, value)| (name.into(), value.into()));
        let library = OsStr::new("/l/libscr_preload.so");
        let changed = rewrite(&words, &variables, library, limit.map(OsStr::new))?;
        Some(changed.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_limited_environment_lets_us_through() {
        const GIVEN: &str = "mpiexec -genv LD_PRELOAD /l/libscr_preload.so -genv SCR_A x ";
        assert_eq!(rewritten("mpiexec -n 2 ./app -x", None), None);
        assert_eq!(rewritten("mpiexec -n 2 ./app -x", Some("all")), None);
        assert_eq!(rewritten("mpiexec -genv FOO 1 ./app", None), None);
        for limited in [
            "-genvnone -n 2 ./app",
            "-envlist HOME,SCR_A ./app",
            "--genvlist=HOME ./app",
            "-configfile file",
        ] {
            let want = Some(format!("{GIVEN}{limited}"));
            assert_eq!(rewritten(&format!("mpiexec {limited}"), None), want);
        }
        assert_eq!(rewritten("mpiexec ./app", Some("none")), Some(format!("{GIVEN}./app")));
    }

    #[test]
    fn a_preload_of_the_users_own_comes_after_ours() {
        let want = |text: &str| Some(text.to_owned());
        let own = rewritten("mpiexec -genv LD_PRELOAD /t.so ./app", None);
        assert_eq!(own, want("mpiexec -genv LD_PRELOAD /l/libscr_preload.so:/t.so ./app"));
        let own = rewritten("mpiexec -n 2 -env LD_PRELOAD=/t.so ./app", None);
        assert_eq!(own, want("mpiexec -n 2 -env LD_PRELOAD=/l/libscr_preload.so:/t.so ./app"));
    }
}
