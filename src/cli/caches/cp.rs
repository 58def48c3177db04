//! `scr cp`: files of a run, wherever they are, copied to where a person wants them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scr_core::error::{Error, Result};
use scr_core::files::{CopyOptions, copy_file, create_dirs, remove_file_if_there, replace};
use scr_core::operations::{BroughtFiles, Listing};

use super::cat::{Wanted, of_datasets, wanted_by};
use super::reach::Run;
use crate::base::{progress, say};

#[derive(clap::Args)]
#[command(after_help = "\
A FILE is named as for scr ls; one that no dataset has is copied from the prefix. DEST is a \
directory, or the name of the copy. With --recursive a FILE may be a directory, which comes with \
its name, or a dataset, whose files come with their paths below the prefix. Mode and times come \
along. A copy gets its name when it is complete and, if it comes from a cache, has been compared \
with its checksum. The exit status is 0; 1 if a file could not be copied (the others are); 2 if an \
argument is wrong. Example:\n
    scr cp --recursive checkpoint.30 /home/me/kept --prefix /pfs/me/run")]
pub struct Args {
    #[command(flatten)]
    run: Run,
    /// Files, then the directory or name that they are copied to.
    #[arg(required = true, num_args = 2.., value_name = "FILE... DEST")]
    files: Vec<PathBuf>,
    /// Directories and datasets, too.
    #[arg(short, long)]
    recursive: bool,
    /// Files of datasets that are not complete, too.
    #[arg(long)]
    unsealed: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let done = args.run.with_files("cp", args.unsealed, |reach, listing| {
        let mut failed = false;
        let mut copies: Vec<(Wanted<'_>, PathBuf)> = Vec::new();
        let Some((dest, words)) = args.files.split_last() else { return Ok(false) };
        for word in words {
            match copies_of(args, listing, &word.to_string_lossy(), dest) {
                Ok(found) => copies.extend(found),
                Err(error) => {
                    say::complain("cp", &error);
                    failed = true;
                }
            }
        }
        if copies.len() > 1 && !dest.is_dir() && !args.recursive {
            let dest = dest.display();
            return Err(Error::Refused(format!(
                "{dest} is no directory, and there are several files"
            )));
        }
        let mut names = BTreeSet::new();
        if let Some((_, twice)) = copies.iter().find(|(_, to)| !names.insert(to.clone())) {
            let twice = twice.display();
            return Err(Error::Refused(format!("two files would be called {twice}")));
        }
        let shown = progress::show("cp");
        let (wanted, targets): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
        let brought = BroughtFiles::new(reach, listing, &of_datasets(&wanted))?;
        let mut faults = Vec::new();
        for (one, to) in wanted.iter().zip(&targets) {
            faults.extend(copy(one, &brought, to).err());
        }
        drop(shown);
        faults.iter().for_each(|error| say::complain("cp", error));
        Ok(failed | !faults.is_empty())
    });
    match done {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => say::finish("cp", Err(error)),
    }
}

fn copies_of<'a>(
    args: &Args,
    listing: &'a Listing,
    word: &str,
    dest: &Path,
) -> Result<Vec<(Wanted<'a>, PathBuf)>> {
    let found = wanted_by(listing, word)?;
    let asked = listing.below_prefix(word);
    let parent = Path::new(&asked).parent().unwrap_or(Path::new(""));
    let mut copies = Vec::new();
    for one in found {
        let name = match &one {
            Wanted::Plain(path) => path.clone(),
            Wanted::Of(one) => PathBuf::from(&one.meta.name),
        };
        let is_file = matches!(one, Wanted::Plain(_)) || name == Path::new(&asked);
        let last = name.file_name().map(PathBuf::from).unwrap_or_default();
        let to = if is_file {
            if dest.is_dir() { dest.join(last) } else { dest.to_path_buf() }
        } else if name.starts_with(&asked) {
            needs_recursive(args, word)?;
            dest.join(name.strip_prefix(parent).unwrap_or(&name))
        } else if asked.contains(['*', '?', '[', '{']) {
            dest.join(last)
        } else {
            needs_recursive(args, word)?;
            dest.join(&name)
        };
        copies.push((one, to));
    }
    Ok(copies)
}

fn needs_recursive(args: &Args, word: &str) -> Result<()> {
    match args.recursive {
        true => Ok(()),
        false => Err(Error::Refused(format!("{word} is no file: --recursive copies all of it"))),
    }
}

fn copy(one: &Wanted<'_>, brought: &BroughtFiles, to: &Path) -> Result<()> {
    let (from, crc32) = match one {
        Wanted::Plain(path) => (path.as_path(), None),
        Wanted::Of(one) => (brought.path(one)?, one.meta.crc32),
    };
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let parent = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dirs(parent, 0o777)?;
    let temporary = parent.join(format!(".{name}.scr-cp.{}", std::process::id()));
    let options = CopyOptions { crc32: true, ..CopyOptions::default() };
    let copied = copy_file(from, &temporary, options).and_then(|copied| match crc32 {
        Some(_) if copied.crc32 != crc32 => Err(Error::corrupt(
            from,
            "its checksum is another one than its record says (scr verify)",
        )),
        _ if to.is_dir() => Err(Error::Refused(format!("{} is a directory", to.display()))),
        _ => replace(&temporary, to).map_err(|error| Error::io("cannot create", to, error)),
    });
    if copied.is_err() {
        // What went wrong is told.
        let _ = remove_file_if_there(&temporary);
    }
    copied
}
