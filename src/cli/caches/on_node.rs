//! `scr on-node`: what a node does of the commands that ask all of them.

use std::process::ExitCode;

use scr_core::error::Error;
use scr_core::operations::{JobPlaces, Question, answer, answer_text};
use scr_core::system::hostname;

use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(after_help = "\
scr verify, ls, cat, cp and exec run it on each node. The exit status is 0; 1 if the question \
cannot be answered; 2 if an argument is wrong. Example:\n
    scr on-node look records all sealed")]
pub struct Args {
    /// The name of this node.
    #[arg(long, value_name = "HOST")]
    node: Option<String>,
    /// The question.
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let node = args.node.clone().unwrap_or_else(hostname);
    let answer = load_settings(None).and_then(|(settings, environment)| {
        let unknown = || Error::Refused("a question of another version of SCR".to_owned());
        let question = Question::parse(&args.words).ok_or_else(unknown)?;
        let places = JobPlaces::new(&settings, &environment)?;
        answer_text(&answer(&question, &places, &node)?)
    });
    say::finish("on-node", answer)
}
