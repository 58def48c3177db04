//! `scr cat`: the contents of a run's files, wherever they are.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scr_core::error::{Error, Result};
use scr_core::files::Crc32;
use scr_core::operations::{BroughtFiles, Listed, Listing};

use super::reach::Run;
use crate::base::{progress, say};

#[derive(clap::Args)]
#[command(after_help = "\
A FILE is named as for scr ls; one that no dataset has is read from the prefix. A file of another \
node's cache is copied to <prefix>/.scr/outside by that node, read there, and removed; one that \
several nodes have written is put together there. What comes from a cache is compared with its \
checksum. The exit status is 0; 1 if a file is not there, cannot be read, or is damaged (the \
others are printed); 2 if an argument is wrong. Example:\n
    scr cat ckpt/step_30/header --prefix /pfs/me/run | head")]
pub struct Args {
    #[command(flatten)]
    run: Run,
    /// Files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Files of datasets that are not complete, too.
    #[arg(long)]
    unsealed: bool,
}

/// A file that is to be read or copied.
pub enum Wanted<'a> {
    Of(&'a Listed),
    /// One that no dataset has.
    Plain(PathBuf),
}

pub fn run(args: &Args) -> ExitCode {
    let done = args.run.with_files("cat", args.unsealed, |reach, listing| {
        let mut failed = false;
        let mut wanted = Vec::new();
        for word in &args.files {
            match wanted_by(listing, word) {
                Ok(found) => wanted.extend(found),
                Err(error) => {
                    say::complain("cat", &error);
                    failed = true;
                }
            }
        }
        let shown = progress::show("cat");
        let brought = BroughtFiles::new(reach, listing, &of_datasets(&wanted));
        drop(shown);
        let brought = brought?;
        for one in &wanted {
            match print(one, &brought) {
                Ok(true) => {}
                // Whoever stops reading has what they wanted.
                Ok(false) => return Ok(failed),
                Err(error) => {
                    say::complain("cat", &error);
                    failed = true;
                }
            }
        }
        Ok(failed)
    });
    match done {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => say::finish("cat", Err(error)),
    }
}

pub fn wanted_by<'a>(listing: &'a Listing, word: &str) -> Result<Vec<Wanted<'a>>> {
    match listing.select(word, false) {
        Ok(found) => Ok(found.into_iter().map(Wanted::Of).collect()),
        Err(error) => {
            let path = listing.places.prefix.join(listing.below_prefix(word));
            let plain = path.starts_with(&listing.places.prefix) && path.is_file();
            if plain { Ok(vec![Wanted::Plain(path)]) } else { Err(error) }
        }
    }
}

pub fn of_datasets<'a>(wanted: &[Wanted<'a>]) -> Vec<&'a Listed> {
    let of = |one: &Wanted<'a>| match one {
        Wanted::Of(one) => Some(*one),
        Wanted::Plain(_) => None,
    };
    wanted.iter().filter_map(of).collect()
}

/// Prints one file; false if nobody reads any more.
fn print(one: &Wanted<'_>, brought: &BroughtFiles) -> Result<bool> {
    let (path, crc32): (&Path, Option<u32>) = match one {
        Wanted::Plain(path) => (path, None),
        Wanted::Of(one) => (brought.path(one)?, one.meta.crc32),
    };
    let mut file = File::open(path).map_err(|error| Error::io("cannot open", path, error))?;
    let (mut buffer, mut found) = (vec![0; 1 << 20], Crc32::new());
    let mut out = std::io::stdout().lock();
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io("cannot read", path, error)),
        };
        found.update(&buffer[..count]);
        match out.write_all(&buffer[..count]) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
            Err(error) => return Err(Error::io("cannot write", "standard output", error)),
            Ok(()) => {}
        }
    }
    if out.flush().is_err() {
        return Ok(false);
    }
    match crc32 {
        Some(crc32) if found.value() != crc32 => Err(Error::corrupt(
            path,
            "its checksum is another one than its record says (scr verify)",
        )),
        _ => Ok(true),
    }
}
