//! `scr exec`: a command that sees a run's cached files under their names below the prefix.
//!
//! The command gets a mount namespace of its own. In it a layer with the names lies over the prefix
//! (overlay), and on each name the file is mounted: that of this node's cache, or the copy of
//! another node's. No hook of the shim is needed, so static programs see it, too. Where the system
//! makes no such namespace, a directory of links stands in for the prefix.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use scr_core::error::{Error, Result};
use scr_core::files::create_dirs;
use scr_core::log::messages;
use scr_core::operations::{BroughtFiles, Exchange, FilePlace, Listed, Listing};
use signal_hook::consts::{SIGINT, SIGQUIT};

use super::reach::Run;
use crate::base::process::{exit_code, own_path};
use crate::base::{progress, say};
use crate::sim::namespace::{self, Mount};

#[derive(clap::Args)]
#[command(after_help = "\
COMMAND, and whatever it starts, sees the newest complete files of all datasets, or of those named \
with --dataset, under their names below the prefix, beside all else that is there. It cannot write \
below the prefix. Files of other nodes' caches are copied to <prefix>/.scr/outside before, where \
there has to be room for them, and removed afterwards; --here leaves them out. SCR_VIEW is set to \
the directory that has the files: the prefix. Where the system lets ordinary users make no \
namespaces of their own (Linux before 5.12, a setting, a container), a message says so, and \
SCR_VIEW is a directory of links to the cached files alone, which nothing keeps from being written \
to. COMMAND sees what was there when it began; a run that is under way does not notice.

The exit status is that of COMMAND; 125 if it could not be started since the files cannot be had; \
126 if it cannot be run; 127 if it is not there; 2 if an argument is wrong. Example:\n
    scr exec --prefix /pfs/me/run -- python3 plot.py /pfs/me/run/ckpt/step_30")]
pub struct Args {
    #[command(flatten)]
    run: Run,
    /// Only this dataset, by id or name; can be given several times.
    #[arg(long, value_name = "DATASET")]
    dataset: Vec<String>,
    /// Only files of this node's cache.
    #[arg(long)]
    here: bool,
    /// Files of datasets that are not complete, too.
    #[arg(long)]
    unsealed: bool,
    /// For this program: the links.
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    view: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The files cannot be had.
const NO_FILES: u8 = 125;
/// The command cannot be run.
const CANNOT_RUN: u8 = 126;
/// The command is not there.
const NOT_FOUND: u8 = 127;

/// Files that are mounted one by one: a namespace has 100000 mounts at most.
const FILES_MAX: usize = 50_000;

pub fn run(args: &Args) -> ExitCode {
    if let Some(view) = &args.view {
        return inside(args, view);
    }
    let done = args.run.with_files("exec", args.unsealed, |reach, listing| {
        let prefix = &listing.places.prefix;
        let chosen = chosen(args, listing)?;
        if chosen.is_empty() {
            return Ok(become_command(args, prefix)); // All is on the prefix.
        }
        let shown = progress::show("exec");
        let brought = BroughtFiles::new(reach, listing, &chosen);
        drop(shown);
        let brought = brought?;
        let exchange = Exchange::new(prefix)?;
        let view = exchange.path().join("view");
        fs::create_dir(&view).map_err(|error| Error::io("cannot create", &view, error))?;
        for one in chosen {
            link(brought.path(one)?, &view.join(&one.meta.name))?;
        }
        start(args, prefix, &view)
    });
    done.unwrap_or_else(|error| say::fail("exec", &error, NO_FILES))
}

fn chosen<'a>(args: &Args, listing: &'a Listing) -> Result<Vec<&'a Listed>> {
    let mut chosen: Vec<&Listed> = Vec::new();
    for word in &args.dataset {
        chosen.extend(listing.select(word, false)?);
    }
    if args.dataset.is_empty() {
        chosen.extend(listing.files.iter().filter(|one| one.newest));
    }
    let is_wanted = |one: &Listed| match &one.place {
        FilePlace::Prefix => false,
        FilePlace::Nowhere => !args.here,
        place => !args.here || place.nodes().into_iter().eq([&*listing.here]),
    };
    chosen.retain(|one| is_wanted(one));
    let lost = chosen.iter().filter(|one| !one.place.is_there()).count();
    if lost > 0 {
        let text = format!(
            "{lost} files are not, or not whole, on nodes that answer: COMMAND does not see them"
        );
        say::tell("exec", messages::NODE_SILENT, &text);
        chosen.retain(|one| one.place.is_there());
    }
    Ok(chosen)
}

fn link(path: &Path, at: &Path) -> Result<()> {
    create_dirs(at.parent().unwrap_or(at), 0o700)?;
    symlink(path, at).map_err(|error| Error::io("cannot link", at, error))
}

/// Starts this program again, since only a process with one thread gets a namespace of its own, and
/// waits for it.
fn start(args: &Args, prefix: &Path, view: &Path) -> Result<ExitCode> {
    let mut command = Command::new(own_path()?);
    command.arg("exec").arg("--prefix").arg(prefix).arg("--view").arg(view);
    command.arg("--").args(&args.command);
    // Ctrl-C is for the command; the copies go when that has ended.
    for signal in [SIGINT, SIGQUIT] {
        let kept = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
        kept.map_err(|error| Error::io("cannot handle", "signals", error))?;
    }
    let status = command.status().map_err(|e| Error::io("cannot run", "scr exec", e))?;
    Ok(ExitCode::from(exit_code(status)))
}

fn inside(args: &Args, view: &Path) -> ExitCode {
    let prefix = PathBuf::from(args.run.prefix.clone().unwrap_or_default());
    let seen = match lay_over(&prefix, view) {
        Ok(()) => prefix.as_path(),
        Err(error) => {
            let text = format!(
                "this system lays no files over {} ({error}): the cached files, and they \
                 alone, are in the directory that SCR_VIEW names",
                prefix.display()
            );
            say::tell("exec", messages::NO_VIEW, &text);
            view
        }
    };
    become_command(args, seen)
}

/// Returns only if the command cannot be run.
fn become_command(args: &Args, seen: &Path) -> ExitCode {
    let Some((program, words)) = args.command.split_first() else {
        return ExitCode::from(CANNOT_RUN);
    };
    let error = Command::new(program).args(words).env("SCR_VIEW", seen).exec();
    let text = format!("cannot run {}: {error}", program.display());
    say::tell("exec", messages::SYSTEM_REFUSED, &text);
    let found = error.kind() != std::io::ErrorKind::NotFound;
    ExitCode::from(if found { CANNOT_RUN } else { NOT_FOUND })
}

/// Lays the files that `view` has links to over the prefix, for this process alone.
fn lay_over(prefix: &Path, view: &Path) -> io::Result<()> {
    let mut links = Vec::new();
    links_below(view, &mut links)?;
    if links.len() > FILES_MAX {
        return Err(io::Error::other(format!("{} files are too many", links.len())));
    }
    let here = std::env::current_dir();
    let names = view.with_file_name("names");
    fs::create_dir(&names)?;
    namespace::own_mounts()?;
    namespace::mount(&Mount::Private, Path::new("/"))?;
    namespace::mount(&Mount::Ram("mode=0755"), &names)?;
    for link in &links {
        let name = link.strip_prefix(view).unwrap_or(link);
        lay_directories(prefix, &names, name.parent().unwrap_or(Path::new("")))?;
        File::create(names.join(name))?;
    }
    // By descriptors: a path may have characters that mean something to the file system.
    let layers = [File::open(&names)?, File::open(prefix)?];
    let lower = layers.each_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
    namespace::mount(&Mount::Overlay(&lower.join(":")), prefix)?;
    for link in &links {
        let name = link.strip_prefix(view).unwrap_or(link);
        namespace::mount(&Mount::Bind(&fs::read_link(link)?), &prefix.join(name))?;
    }
    namespace::only_to_be_read(prefix)?;
    // The directory that was entered before is the one below.
    here.and_then(std::env::set_current_dir)
}

fn links_below(dir: &Path, links: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => links_below(&entry.path(), links)?,
            false => links.push(entry.path()),
        }
    }
    Ok(())
}

/// Makes a directory with its parents, with the modes that they have on the prefix.
fn lay_directories(prefix: &Path, names: &Path, dir: &Path) -> io::Result<()> {
    let at = names.join(dir);
    if at.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        lay_directories(prefix, names, parent)?;
    }
    fs::create_dir(&at)?;
    match fs::metadata(prefix.join(dir)) {
        Ok(there) => fs::set_permissions(&at, there.permissions()),
        Err(_) => Ok(()),
    }
}
