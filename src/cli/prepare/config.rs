//! `scr config`: the parameters, their values and where these come from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table, presets};
use scr_core::descriptors::Descriptors;
use scr_core::error::Error;
use scr_core::log::messages;
use scr_core::params::{
    Inputs, LineKind, Param, ParamStatus, SYSTEM_FILE, Setting, Settings, Source, load,
    read_environment, template,
};
use scr_core::patterns::{PatternConfig, SeriesSet};

use crate::base::say;

/// Width of tables that go into a file or a pipe.
const COLUMNS: u16 = 100;

#[derive(clap::Args)]
#[command(after_help = "\
The exit status is 0; 1 if a setting is wrong; 2 if an argument is. Example:\n
    scr config --explain FLUSH")]
pub struct Args {
    /// Print a config file with every parameter, commented (config/scr.conf is made so).
    #[arg(long)]
    template: bool,
    /// Show each value that somebody set, its source, and what it overrode; check the patterns.
    #[arg(long, conflicts_with = "template")]
    explain: bool,
    /// With --explain: show the defaults, too.
    #[arg(long, requires = "explain")]
    all: bool,
    /// The system's config file.
    #[arg(long, value_name = "FILE", default_value = SYSTEM_FILE, requires = "explain")]
    system_file: PathBuf,
    /// Only parameters whose name contains this text.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let wanted = |name: &str| match &args.name {
        Some(part) => name.contains(&part.to_ascii_uppercase()),
        None => true,
    };
    let text = if args.template {
        Ok(template())
    } else if args.explain {
        explain(args, wanted)
    } else {
        Ok(list(wanted))
    };
    match text {
        Ok(text) => say::print(&text),
        Err(problems) => {
            problems.iter().for_each(|problem| say::complain("config", problem));
            ExitCode::FAILURE
        }
    }
}

fn list(wanted: impl Fn(&str) -> bool) -> String {
    let mut table = table(&["parameter", "type", "default", "meaning"]);
    for param in scr_core::params::PARAMS.iter().filter(|param| wanted(param.name)) {
        let numbered = if param.family { "[_n]" } else { "" };
        table.add_row([
            format!("{}{numbered}", param.name),
            kind(param),
            param.default.unwrap_or("-").to_string(),
            meaning(param),
        ]);
    }
    format!("{table}\n")
}

fn kind(param: &Param) -> String {
    match param.unit {
        "" => param.kind.name().to_string(),
        unit => unit.to_string(),
    }
}

fn meaning(param: &Param) -> String {
    let mut text = param.meaning.to_string();
    if !param.choices.is_empty() {
        text += &format!(" One of {}.", param.choices.join(", "));
    }
    if let ParamStatus::NoEffect(reason) = param.status {
        text += &format!(" Ignored: {reason}.");
    }
    text
}

fn explain(args: &Args, wanted: impl Fn(&str) -> bool) -> Result<String, Vec<Error>> {
    let (environment, problems) = read_environment(std::env::vars_os());
    if !problems.is_empty() {
        return Err(problems);
    }
    let working_directory = std::env::current_dir()
        .map_err(|error| vec![Error::io("cannot find", "the working directory", error)])?;
    let inputs = Inputs {
        environment: &environment,
        working_directory: &working_directory,
        system_file: &args.system_file,
        program: &[],
    };
    let settings = load(&inputs).map_err(|problems| problems.0)?;
    let series = series(&settings).map_err(|error| vec![error])?;
    check_descriptors(&settings).map_err(|error| vec![error])?;
    let shown = |setting: &&Setting| {
        wanted(&setting.named.name()) && (args.all || setting.origin.source != Source::Default)
    };
    let mut table = table(&["parameter", "value", "from", "overrode"]);
    for setting in settings.all().filter(shown) {
        table.add_row([
            setting.named.name(),
            setting.origin.text.clone(),
            setting.origin.place.clone(),
            overrode(setting),
        ]);
    }
    let mut text = match table.is_empty() {
        true => "Nothing is set; the defaults hold (--all shows them).\n".to_string(),
        false => format!("{table}\n"),
    };
    if args.name.is_none() {
        text += &descriptor_lines(&settings);
        text += &series;
    }
    for warning in &settings.warnings {
        text += &say::warned(messages::SETTING_IGNORED, warning);
    }
    Ok(text)
}

fn overrode(setting: &Setting) -> String {
    let beaten: Vec<String> = setting
        .overrode
        .iter()
        .map(|origin| format!("{} ({})", origin.text, origin.place))
        .collect();
    beaten.join(", ")
}

/// Finds mistakes in GROUPS, STORE and CKPT lines. Which hosts a job will get is not known here, so
/// what depends on them is not judged.
fn check_descriptors(settings: &Settings) -> Result<(), Error> {
    let hosts: Vec<String> =
        settings.lines(LineKind::Groups).map(|line| line.subject.clone()).collect();
    Descriptors::new(settings, &hosts).map(drop)
}

fn descriptor_lines(settings: &Settings) -> String {
    let mut text = String::new();
    for kind in LineKind::ALL {
        for line in settings.lines(kind) {
            text += &format!("{}={}", kind.key(), line.subject);
            for (key, value) in &line.fields {
                text += &format!(" {key}={value}");
            }
            text += &format!("   ({})\n", line.place);
        }
    }
    text
}

fn series(settings: &Settings) -> Result<String, Error> {
    let written = settings.get(scr_core::params::keys::PREFIX);
    // A prefix that does not exist yet still has patterns that can be checked.
    let prefix = std::fs::canonicalize(&written).unwrap_or(written);
    let config = PatternConfig::from_settings(settings, Path::new(&prefix), 0);
    let set = SeriesSet::new(&config)?;
    let mut text = String::new();
    for series in set.series() {
        let what = match (series.checkpoint, series.output) {
            (true, true) => "checkpoints that are output",
            (true, false) => "checkpoints",
            (false, _) => "output",
        };
        let by = if series.has_id { "{id}" } else { "generation" };
        text += &format!("series {}: {what}, by {by}: {}\n", series.name, series.text);
    }
    for warning in set.warnings() {
        text += &say::warned(messages::PATTERNS_OVERLAP, warning);
    }
    Ok(text)
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().copied());
    if !table.is_tty() {
        table.set_width(COLUMNS);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let inputs = Inputs {
            environment: &pairs.collect(),
            working_directory: Path::new("/nonexistent"),
            system_file: Path::new("/nonexistent/scr.conf"),
            program: &["CKPT=0 TYPE=XOR".to_string()],
        };
        load(&inputs).expect("a valid configuration")
    }

    #[test]
    fn every_parameter_is_listed_and_can_be_picked() {
        let text = list(|_| true);
        assert!(scr_core::params::PARAMS.iter().all(|param| text.contains(param.name)));
        let text = list(|name| name.contains("FLUSH_TYPE"));
        assert!(text.contains("PTHREAD") && !text.contains("SCR_DEBUG"), "{text}");
    }

    #[test]
    fn what_is_explained_names_series_and_lines() {
        let settings = settings(&[("SCR_CHECKPOINT_PATTERN", "a_{id}"), ("SCR_FLUSH", "3")]);
        let text = series(&settings).expect("valid patterns");
        assert_eq!(text, "series checkpoint: checkpoints, by {id}: a_{id}\n");
        assert_eq!(descriptor_lines(&settings), "CKPT=0 TYPE=XOR   (SCR_Config:1)\n");
        let flush = settings.setting("SCR_FLUSH").expect("a value");
        assert_eq!(overrode(flush), "10 (default)");
    }

    #[test]
    fn mistakes_in_patterns_and_lines_are_found() {
        let wrong = settings(&[("SCR_CHECKPOINT_PATTERN", "a_{di}")]);
        let message = series(&wrong).expect_err("di").to_string();
        assert!(message.contains("did you mean id?"), "{message}");
        let too_many = settings(&[("SCR_COPY_TYPE", "RS"), ("SCR_SET_FAILURES", "200")]);
        let message = check_descriptors(&too_many).expect_err("too many failures").to_string();
        assert!(message.contains("less than 128"), "{message}");
    }
}
