//! MPICH's mpiexec (hydra) gives its whole environment to all ranks, unless the user limits it.
//! Then LD_PRELOAD and our variables are added to what may pass.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The command line with `names` (of variables that are set) among those that pass; `None` if
/// nothing is to be changed.
pub(super) fn rewrite(
    arguments: &[OsString],
    names: &[OsString],
    library: &OsStr,
) -> Option<Vec<OsString>> {
    let list = names.join(OsStr::new(","));
    let mut changed = Vec::with_capacity(arguments.len() + 2);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let bytes = argument.as_bytes();
        let bare = bytes.strip_prefix(b"-").unwrap_or(bytes);
        let bare = bare.strip_prefix(b"-").unwrap_or(bare);
        let option = if bare.len() == bytes.len() { b"" } else { bare };
        match option {
            b"genvnone" => changed.extend(["-genvlist".into(), list.clone()]),
            b"envnone" => changed.extend(["-envlist".into(), list.clone()]),
            b"genvlist" | b"envlist" => {
                changed.push(argument.clone());
                if let Some(given) = rest.next() {
                    changed.push(with_names(given, names));
                }
            }
            b"genv" | b"env" => {
                changed.push(argument.clone());
                let name = rest.next();
                changed.extend(name.cloned());
                if let Some(value) = rest.next() {
                    let is_preload = name.is_some_and(|name| name == "LD_PRELOAD");
                    changed.push(if is_preload {
                        super::preload_with(value, library)
                    } else {
                        value.clone()
                    });
                }
            }
            _ => changed.push(argument.clone()),
        }
    }
    (changed != arguments).then_some(changed)
}

fn with_names(given: &OsStr, names: &[OsString]) -> OsString {
    let mut list: Vec<&[u8]> =
        given.as_bytes().split(|&byte| byte == b',').filter(|name| !name.is_empty()).collect();
    for name in names {
        if !list.contains(&name.as_bytes()) {
            list.push(name.as_bytes());
        }
    }
    OsString::from_vec(list.join(&b','))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let names = ["LD_PRELOAD".into(), "SCR_PREFIX".into()];
        rewrite(&words, &names, OsStr::new("/l/libscr_preload.so")).map(|words| {
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn a_limited_environment_lets_us_through() {
        let want = |text: &str| Some(text.to_owned());
        assert_eq!(rewritten("mpiexec -n 2 ./app -x"), None);
        let none = rewritten("mpiexec -genvnone -n 2 ./app");
        assert_eq!(none, want("mpiexec -genvlist LD_PRELOAD,SCR_PREFIX -n 2 ./app"));
        let list = rewritten("mpiexec -envlist HOME,SCR_PREFIX ./app");
        assert_eq!(list, want("mpiexec -envlist HOME,SCR_PREFIX,LD_PRELOAD ./app"));
        assert_eq!(rewritten("mpiexec -genv FOO -genvnone ./app"), None);
        let own = rewritten("mpiexec -genv LD_PRELOAD /t.so ./app");
        assert_eq!(own, want("mpiexec -genv LD_PRELOAD /l/libscr_preload.so:/t.so ./app"));
    }
}
