//! `scr manual`: the manual pages of the commands and the completions of shells, for `make build`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_complete::aot::generate;
use clap_mangen::Man;
use scr_core::error::{Error, Result};
use scr_core::files::create_dirs;

use crate::base::say;

#[derive(clap::Args)]
#[command(after_help = "The exit status is 0, or 1 if something cannot be written. Example:\n
    scr manual target/dist/share")]
pub struct Args {
    /// Below it come man/man1, bash-completion/completions, zsh/site-functions and
    /// fish/vendor_completions.d.
    #[arg(value_name = "DIRECTORY")]
    share: PathBuf,
}

const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/scr"),
    (Shell::Zsh, "zsh/site-functions/_scr"),
    (Shell::Fish, "fish/vendor_completions.d/scr.fish"),
];

/// Writes all; `classic` are the names of the manuals, with the tool that each stands for.
pub fn run(args: &Args, command: Command, classic: &[(&str, &str)]) -> ExitCode {
    say::finish("manual", write(&args.share, command, classic).map(|()| String::new()))
}

fn write(share: &Path, mut command: Command, classic: &[(&str, &str)]) -> Result<()> {
    for (shell, name) in COMPLETIONS {
        let mut text = Vec::new();
        generate(shell, &mut command, "scr", &mut text);
        put(&share.join(name), &text)?;
    }
    command.build();
    let pages = share.join("man/man1");
    page(&pages, "scr", &command)?;
    for (name, tool) in classic {
        let target = format!(".so man1/{}.1\n", page_name(tool));
        put(&pages.join(format!("{name}.1")), target.as_bytes())?;
    }
    Ok(())
}

fn page(pages: &Path, name: &str, command: &Command) -> Result<()> {
    let mut text = Vec::new();
    let written = Man::new(command.clone())
        .title(name)
        .source("SCR")
        .manual("Scalable Checkpoint/Restart")
        .render(&mut text);
    written.map_err(|error| Error::Refused(format!("no page for {name}: {error}")))?;
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA\n", ".SH NOTES\n");
    put(&pages.join(format!("{name}.1")), text.as_bytes())?;
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    for one in below.filter(|one| one.get_name() != "help") {
        page(pages, &format!("{name}-{}", one.get_name()), one)?;
    }
    Ok(())
}

/// `log add` has the page `scr-log-add`.
fn page_name(tool: &str) -> String {
    format!("scr-{}", tool.replace(' ', "-"))
}

/// They are made anew at any time, so they are not made durable.
fn put(path: &Path, text: &[u8]) -> Result<()> {
    create_dirs(path.parent().unwrap_or(path), 0o777)?;
    let file = fs::File::create(path).and_then(|mut file| file.write_all(text));
    file.map_err(|error| Error::io("cannot write", path, error))
}
