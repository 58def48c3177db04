//! `scr rebuild`: the second half of a scavenge, on the prefix alone (manual 1.1, sections 11.10.4
//! to 9).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scr_core::error::{Error, Result};
use scr_core::operations::{Scavenged, publish_directories, publish_what_was_copied};

use crate::base::progress;
use crate::base::settings::load_settings;
use crate::rescue::saved;

#[derive(clap::Args)]
#[command(after_help = "\
Without a DIRECTORY it takes what `scr copy` has brought from the nodes to <prefix>/.scr/scavenge, \
rebuilds what lost nodes had, and publishes it with summary and index; scr scavenge does both. A \
DIRECTORY is a copy of nodes' caches, made by whatever means: of whole ones (scr cntl-dir names \
them), of the directory scr.dataset.<id> of each node, or of all those in one. It is looked for at \
any depth and stays as it is. The redundancy files (XOR, PARTNER, RS) in it tell what they need; \
with SINGLE, the control directory has to be there, too. All datasets that can be had come to the \
prefix, unless it has them.

scr_rebuild_xor SIZE ROOT FILE... is understood: what is in the directory of the XOR files is \
rebuilt.

The exit status is 0 if the newest of everything is on the prefix now or was there already; 1 if \
there was nothing, or something is lost (scr index list shows it as incomplete) or cannot be read \
or written; 2 if an argument is wrong. Examples:\n
    pdsh -w node[1-4] scr copy --prefix /pfs/me/run; scr rebuild --prefix /pfs/me/run
    scr rebuild --prefix /pfs/me/run /pfs/me/rescue/node1 /pfs/me/rescue/node2")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// Only the dataset with this id.
    #[arg(long, value_name = "ID", requires = "directories")]
    id: Option<u64>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Copies of nodes' caches, or of datasets in them.
    #[arg(value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
}

pub fn run(args: &Args) -> ExitCode {
    let shown = progress::show("rebuild");
    let outcome = outcome(args);
    drop(shown);
    saved::exit("rebuild", outcome, args.json)
}

fn outcome(args: &Args) -> Result<Scavenged> {
    let (settings, environment) = load_settings(args.prefix.as_deref())?;
    match &args.directories[..] {
        [] => publish_what_was_copied(&settings, &environment),
        named => {
            let dirs = match of_files(named)? {
                Some(dir) => vec![dir],
                None => named.to_vec(),
            };
            publish_directories(&settings, &environment, &dirs, args.id)
        }
    }
}

/// The directory of the XOR files in the arguments of `scr_rebuild_xor`: size of the set, number of
/// the missing member, and the files of the others. `None` if they are none.
fn of_files(words: &[PathBuf]) -> Result<Option<PathBuf>> {
    let number = |word: &PathBuf| word.to_str().and_then(|word| word.parse::<usize>().ok());
    let [size, root, files @ ..] = words else { return Ok(None) };
    let (Some(size), Some(root)) = (number(size), number(root)) else { return Ok(None) };
    let wrong =
        |what: &str| Err(Error::Refused(format!("scr_rebuild_xor SIZE ROOT FILE...: {what}")));
    if root >= size {
        return wrong("ROOT, from 0 on, is less than SIZE");
    }
    if files.len() + 1 != size {
        return wrong("a FILE for each member of the set but the missing one");
    }
    let dirs: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    if let Some(file) = files.iter().find(|file| !file.is_file()) {
        return wrong(&format!("{} is no file", file.display()));
    }
    if dirs.windows(2).any(|two| two[0] != two[1]) {
        return wrong("the files are in different directories; name those instead");
    }
    let dir = dirs.first().copied().unwrap_or(Path::new("."));
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let dir = std::fs::canonicalize(dir).map_err(|e| Error::io("cannot find", dir, e))?;
    // Ours lie in a folder of the dataset's directory.
    Ok(Some(match dir.file_name().is_some_and(|name| name == ".scr") {
        true => dir.parent().unwrap_or(&dir).to_path_buf(),
        false => dir,
    }))
}
