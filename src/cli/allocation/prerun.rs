//! `scr prerun`: the beginning of an allocation (manual 1.1, section 11.3.3).

use std::process::ExitCode;

use scr_core::operations::begin_allocation;

use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(after_help = "\
For batch scripts that start the program themselves; scr run looks after that, too. Looks whether \
the prefix is there and can be written to, takes back what an earlier run has recorded as its own \
end, and forgets the nodes of an earlier allocation. What was asked for with scr halt stays. The \
exit status is 0, or 1 if the settings or the prefix are no good. Example, before the program:\n
    scr prerun --prefix /pfs/me/run && srun ./app")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY")]
    prefix: Option<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let outcome = load_settings(args.prefix.as_deref())
        .and_then(|(settings, environment)| begin_allocation(&settings, &environment));
    say::finish("prerun", outcome.map(|()| String::new()))
}
