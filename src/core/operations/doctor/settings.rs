//! Config file, environment, patterns and descriptors.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::finding::{Finding, shell};
use crate::descriptors::Descriptors;
use crate::error::Error;
use crate::params::{Inputs, PARAMS, Settings, find, keys, load, nearest};
use crate::patterns::{PatternConfig, SeriesSet};
use crate::system::hostname;

const FILES_MAX: usize = 4096;
/// Directories between the prefix and the files that are compared with patterns.
const DEPTH_MAX: usize = 6;
/// A file this near to a pattern is likely to be meant by it.
const SCORE_MIN: u32 = 600;
const MODE_OTHERS_WRITE: u32 = 0o002;

/// What was found about the settings.
pub struct LookedSettings {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The settings, if they can be read.
    pub settings: Option<Settings>,
}

/// Looks at the settings that a run with these `inputs` would have; a program that calls SCR
/// (`by_calls`) needs no patterns.
pub fn look_at_settings(inputs: &Inputs<'_>, by_calls: bool) -> LookedSettings {
    let settings = match load(inputs) {
        Ok(settings) => settings,
        Err(problems) => {
            let findings = problems.0.iter().map(wrong).collect();
            return LookedSettings { findings, settings: None };
        }
    };
    let mut findings = unknown_variables(inputs, &settings);
    let enable = keys::ENABLE.param.name;
    if !settings.get(keys::ENABLE) {
        let place = settings.setting(enable).map(|one| one.origin.place.clone());
        let place = place.unwrap_or_default();
        let what = format!("SCR is switched off: SCR_ENABLE=0 ({place})");
        findings.push(Finding::fault("switched-off", what, edit(&place)));
    }
    if let Err(error) = Descriptors::new(&settings, &[hostname()]) {
        findings.push(wrong(&error));
    }
    let prefix = settings.get(keys::PREFIX);
    findings.extend(look_at_patterns(&settings, &prefix, by_calls));
    LookedSettings { findings, settings: Some(settings) }
}

fn wrong(error: &Error) -> Finding {
    let Error::Config { place, what } = error else {
        return Finding::fault("setting-wrong", error, "scr config --explain");
    };
    let told = format!("{place}: {what}");
    let mode = std::fs::metadata(place).map(|found| found.mode());
    match mode {
        Ok(mode) if mode & MODE_OTHERS_WRITE != 0 => {
            Finding::fault("config-open", told, format!("chmod o-w {}", shell(place)))
        }
        Ok(_) => {
            let cure = format!("export SCR_CONF_FILE={}", shell(place));
            Finding::fault("config-refused", told, cure)
        }
        Err(_) if place.ends_with("SCR_CONF_FILE") => {
            Finding::fault("config-missing", told, edit(place))
        }
        Err(_) => Finding::fault("setting-wrong", told, edit(place)),
    }
}

/// `place` is `environment variable X`, `file:line`, or a file.
fn edit(place: &str) -> String {
    if let Some(name) = place.strip_prefix("environment variable ") {
        return format!("unset {name}");
    }
    match place.rsplit_once(':') {
        Some((file, line)) if !line.is_empty() && line.bytes().all(|it| it.is_ascii_digit()) => {
            format!("${{EDITOR:-vi}} +{line} {}", shell(file))
        }
        _ => format!("${{EDITOR:-vi}} {}", shell(place)),
    }
}

fn unknown_variables(inputs: &Inputs<'_>, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut told: Vec<String> = Vec::new();
    for (name, value) in inputs.environment {
        let begin = format!("environment variable {name}: ");
        let warning = settings.warnings.iter().find(|warning| warning.starts_with(&begin));
        let Some(warning) = warning.filter(|_| find(name).is_none()) else { continue };
        let meant = nearest(name, PARAMS.iter().map(|param| param.name));
        let cure = match meant {
            Some(meant) => format!("unset {name}; export {meant}={}", shell(value)),
            None => format!("unset {name}"),
        };
        findings.push(Finding::fault("variable-unknown", warning, cure));
        told.push(warning.clone());
    }
    let others = settings.warnings.iter().filter(|warning| !told.contains(warning));
    findings.extend(others.map(|one| Finding::advice("setting-ignored", one, "scr config")));
    findings
}

fn look_at_patterns(settings: &Settings, prefix: &Path, by_calls: bool) -> Vec<Finding> {
    let checkpoints = settings.family(keys::CHECKPOINT_PATTERN);
    let outputs = settings.family(keys::OUTPUT_PATTERN);
    let file = shell(prefix.join(".scrconf").display());
    if checkpoints.is_empty() && outputs.is_empty() {
        if by_calls {
            return Vec::new();
        }
        let what = format!(
            "no pattern says which files are checkpoints (SCR_CHECKPOINT_PATTERN); {}",
            settings.user_file
        );
        let by_hand = format!("echo 'SCR_CHECKPOINT_PATTERN=ckpt_{{id}}/**' >> {file}");
        let cure = format!("scr learn --write -- mpirun -n 4 ./app    # or: {by_hand}");
        return vec![Finding::fault("no-pattern", what, cure)];
    }
    let first =
        checkpoints.iter().map(|(name, _)| name).chain(outputs.iter().map(|(name, _)| name));
    let place = first.filter_map(|name| settings.setting(name)).map(|one| one.origin.place.clone());
    let mend = place.map(|place| edit(&place)).next().unwrap_or_default();
    let prefix = prefix.canonicalize().unwrap_or_else(|_| prefix.to_path_buf());
    let set = match SeriesSet::new(&PatternConfig::from_settings(settings, &prefix, 0)) {
        Ok(set) => set,
        Err(error) => return vec![Finding { cure: mend, ..wrong(&error) }],
    };
    let mut findings = Vec::new();
    for sentence in set.placeholders() {
        findings.push(Finding::fault("pattern-placeholder", sentence, &mend));
    }
    for sentence in set.warnings() {
        findings.push(Finding::advice("pattern-doubtful", sentence, &mend));
    }
    findings.extend(compare_with_files(&set, &prefix, &mend));
    findings
}

fn compare_with_files(set: &SeriesSet, prefix: &Path, mend: &str) -> Option<Finding> {
    let names = files_below(prefix);
    if names.iter().any(|name| set.match_path(name).is_some()) {
        return None;
    }
    let nearest = set.nearest(names.iter().map(String::as_str))?;
    if nearest.score < SCORE_MIN {
        return None;
    }
    let what = format!(
        "none of the files that are below {} now matches a pattern. Nearest: {}",
        prefix.display(),
        nearest.text.replace(" was written; pattern ", ": pattern ")
    );
    Some(Finding::advice("pattern-matches-nothing", what, mend))
}

fn files_below(prefix: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut open: Vec<(PathBuf, usize)> = vec![(prefix.to_path_buf(), 0)];
    while let Some((dir, depth)) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if names.len() >= FILES_MAX {
                return names;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if kind.is_dir() && depth < DEPTH_MAX && !hidden {
                open.push((entry.path(), depth + 1));
            } else if let (true, Ok(name)) = (kind.is_file(), entry.path().strip_prefix(prefix)) {
                names.extend(name.to_str().map(str::to_owned));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_line() {
        for (place, line) in [
            ("environment variable SCR_FLUSH", "unset SCR_FLUSH"),
            ("/p/.scrconf:7", "${EDITOR:-vi} +7 /p/.scrconf"),
            ("/p/a b:12", "${EDITOR:-vi} +12 '/p/a b'"),
            ("/p/.scrconf", "${EDITOR:-vi} /p/.scrconf"),
        ] {
            assert_eq!(edit(place), line);
        }
    }
}
