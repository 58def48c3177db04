//! srun gives its whole environment to the ranks, unless `--export` or the variable behind it names
//! what passes: `sbatch --export=NONE` sets that for all sruns of a job.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::words::preload_entry;

pub(super) const LIMIT: &str = "SLURM_EXPORT_ENV";
const OPTION: &[u8] = b"--export";

/// Adds `names`, and us to an LD_PRELOAD that the list sets. `None`: the list can stay as it is.
pub(super) fn extended(list: &OsStr, names: &[OsString], library: &OsStr) -> Option<OsString> {
    let given: Vec<&[u8]> = list.as_bytes().split(|&byte| byte == b',').collect();
    let mut items: Vec<OsString> = Vec::new();
    for item in given.iter().filter(|item| !is_any(item, &["", "NONE", "NIL"])) {
        items.push(match item.strip_prefix(b"LD_PRELOAD=") {
            Some(value) => preload_entry(value, library),
            None => OsString::from_vec(item.to_vec()),
        });
    }
    if !given.iter().any(|item| is_any(item, &["ALL"])) {
        let named = |item: &OsString, name: &OsString| {
            item.as_bytes().split(|&byte| byte == b'=').next() == Some(name.as_bytes())
        };
        for name in names {
            if !items.iter().any(|item| named(item, name)) {
                items.push(name.clone());
            }
        }
    }
    let changed = items.join(OsStr::new(","));
    (changed != list).then_some(changed)
}

fn is_any(item: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| item.eq_ignore_ascii_case(word.as_bytes()))
}

/// Extends the lists of a command line whose program has the index `program`. `None`: it can stay
/// as it is.
pub(super) fn rewrite(
    arguments: &[OsString],
    program: usize,
    names: &[OsString],
    library: &OsStr,
) -> Option<Vec<OsString>> {
    let mut changed = arguments.to_vec();
    for at in 1..program.min(arguments.len()) {
        let Some(rest) = arguments[at].as_bytes().strip_prefix(OPTION) else { continue };
        match rest.strip_prefix(b"=") {
            Some(list) => {
                if let Some(list) = extended(OsStr::from_bytes(list), names, library) {
                    let mut word = OsString::from("--export=");
                    word.push(list);
                    changed[at] = word;
                }
            }
            None if rest.is_empty() && at + 1 < arguments.len() => {
                if let Some(list) = extended(&arguments[at + 1], names, library) {
                    changed[at + 1] = list;
                }
            }
            None => {}
        }
    }
    (changed != arguments).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "/l/libscr_preload.so";

    fn names() -> Vec<OsString> {
        ["LD_PRELOAD", "SCR_A"].map(OsString::from).to_vec()
    }

    #[test]
    fn a_limited_environment_lets_us_through() {
        let list = |text: &str| {
            let changed = extended(OsStr::new(text), &names(), OsStr::new(LIBRARY));
            changed.map(|list| list.into_string().unwrap())
        };
        for all in ["ALL", "all,FOO=1", "FOO,ALL"] {
            assert_eq!(list(all), None, "{all}");
        }
        for (text, want) in [
            ("NONE", "LD_PRELOAD,SCR_A".to_owned()),
            ("", "LD_PRELOAD,SCR_A".to_owned()),
            ("PATH,SCR_A=2", "PATH,SCR_A=2,LD_PRELOAD".to_owned()),
            ("ALL,LD_PRELOAD=/t.so", format!("ALL,LD_PRELOAD={LIBRARY}:/t.so")),
            ("LD_PRELOAD=/t.so", format!("LD_PRELOAD={LIBRARY}:/t.so,SCR_A")),
        ] {
            assert_eq!(list(text), Some(want), "{text}");
        }
        assert_eq!(list(&format!("ALL,LD_PRELOAD={LIBRARY}")), None);
    }

    #[test]
    fn only_the_options_of_srun_itself_are_changed() {
        let line = |text: &str, program| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            let changed = rewrite(&words, program, &names(), OsStr::new(LIBRARY))?;
            Some(changed.join(OsStr::new(" ")).into_string().unwrap())
        };
        assert_eq!(line("srun -n 2 ./app --export=NONE", 3), None);
        assert_eq!(line("srun --export=ALL ./app", 2), None);
        let want = |text: &str| Some(text.to_owned());
        let found = line("srun --export=NONE -n 2 ./app --export=NONE", 4);
        assert_eq!(found, want("srun --export=LD_PRELOAD,SCR_A -n 2 ./app --export=NONE"));
        let found = line("srun --export PATH ./app", 3);
        assert_eq!(found, want("srun --export PATH,LD_PRELOAD,SCR_A ./app"));
        assert_eq!(line("srun --export-file=x ./app", 2), None);
    }
}
