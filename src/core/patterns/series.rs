//! All series of a run, compiled; paths are matched here.

use regex::{Captures, RegexSet};

use super::alternative::Alternative;
use super::config::{PatternConfig, PatternText};
use super::element::{self, Element, Form};
use super::overlap::{self, SeriesOrigin};
use crate::error::{Error, Result};

/// Series of the checkpoints that a program writes by calls of SCR, with ids of its own.
pub const PROGRAM: &str = "program";
/// Series of output that it writes by calls.
pub const PROGRAM_OUTPUT: &str = "program_output";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldBy {
    /// Patterns.
    Patterns {
        /// Each has the user's word that no two ranks share its files.
        own: bool,
    },
    /// The program begins and completes its datasets by calls: no pattern belongs to it.
    Calls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// `checkpoint`, `checkpoint_2`, ..., `output`, ...: stable, fit for a file name.
    pub name: String,
    pub parameter: String,
    pub checkpoint: bool,
    pub output: bool,
    /// Some pattern has an `{id}` that tells datasets apart.
    pub has_id: bool,
    pub told_by: ToldBy,
    /// The canonical list: what was learned about a series holds while this is the same.
    pub text: String,
}

impl Series {
    pub fn is_explicit(&self) -> bool {
        self.told_by == ToldBy::Calls
    }

    pub fn is_own(&self) -> bool {
        self.told_by == ToldBy::Patterns { own: true }
    }
}

/// A path that belongs to a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Index into [`SeriesSet::series`].
    pub series: usize,
    /// `None` if the pattern that matched captures none.
    pub id: Option<String>,
    /// The captured number of the writer: a hint, not the rank.
    pub rank: Option<u64>,
    /// The user vouches that no two ranks share this file.
    pub own: bool,
    /// Some pattern of the series has an id.
    pub has_id_in_series: bool,
    /// The path with `{id}` for the captured id: the same for each dataset of the series.
    pub masked: String,
    /// The path is a temporary name; the rest is about the final one.
    pub temporary: bool,
}

impl Match {
    /// Tells whether the file is of whichever dataset is in progress, like a pointer `latest`.
    pub fn is_companion(&self) -> bool {
        self.id.is_none() && self.has_id_in_series
    }
}

/// All series of a run.
#[derive(Debug, Default)]
pub struct SeriesSet {
    series: Vec<Series>,
    alternatives: Vec<Alternative>,
    /// Matches if any relative alternative does: one pass for the many paths that none matches.
    any_relative: Option<RegexSet>,
    any_absolute: Option<RegexSet>,
    ignore: Option<RegexSet>,
    ignore_absolute: Option<RegexSet>,
    prefix: String,
    warnings: Vec<String>,
    origins: Vec<SeriesOrigin>,
}

impl SeriesSet {
    /// Compiles all patterns.
    pub fn new(config: &PatternConfig) -> Result<SeriesSet> {
        let mut set = SeriesSet {
            prefix: config.prefix.to_string_lossy().into_owned(),
            ..SeriesSet::default()
        };
        let lists = config.checkpoint.iter().map(|list| (list, true));
        for (list, checkpoint) in lists.chain(config.output.iter().map(|list| (list, false))) {
            set.compile_list(config, list, checkpoint)?;
            if set.series.len() > set.origins.len() {
                set.origins.push(SeriesOrigin {
                    name: list.name.clone(),
                    place: place_of(list),
                    source: list.place.clone(),
                });
            }
        }
        set.warnings = overlap::warnings(&set.alternatives, &set.origins, &set.prefix);
        let regexes = |absolute: bool| {
            let alternatives = set.alternatives.iter().filter(|a| a.absolute == absolute);
            alternatives.map(|a| a.regex.as_str().to_string()).collect::<Vec<_>>()
        };
        let (relative, absolute) = (regexes(false), regexes(true));
        set.any_relative = union(&relative, config)?;
        set.any_absolute = union(&absolute, config)?;
        set.compile_ignore(config)?;
        Ok(set)
    }

    /// Adds the series of what the program writes by calls of SCR, behind all others.
    pub fn with_program(mut self) -> SeriesSet {
        for (name, checkpoint) in [(PROGRAM, true), (PROGRAM_OUTPUT, false)] {
            self.series.push(Series {
                name: name.to_string(),
                parameter: "SCR_Start_output".to_string(),
                checkpoint,
                output: !checkpoint,
                has_id: true,
                told_by: ToldBy::Calls,
                text: String::new(),
            });
        }
        self
    }

    /// Returns the index of the series of what the program writes by calls, if
    /// [`SeriesSet::with_program`] has added it.
    pub fn program(&self, checkpoint: bool) -> usize {
        self.series.len() - if checkpoint { 2 } else { 1 }
    }

    fn compile_list(
        &mut self,
        config: &PatternConfig,
        list: &PatternText,
        checkpoint: bool,
    ) -> Result<()> {
        let elements = elements(config, list)?;
        let text = elements.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(", ");
        // The same patterns as a series of checkpoints: those are both.
        let twin = self.series.iter_mut().find(|other| !checkpoint && other.text == text);
        if let Some(twin) = twin {
            twin.output = true;
            return Ok(());
        }
        let index = self.series.len();
        let mut has_id = false;
        for element in &elements {
            let compiled = Alternative::new(config, element, index);
            let alternative = compiled.map_err(|what| config_error(list, &what))?;
            // Also of those for other ranks: a series is the same on every rank.
            has_id |= !alternative.ids.is_empty();
            if alternative.active {
                self.alternatives.push(alternative);
            }
        }
        let name = series_name(&list.name);
        let parameter = list.name.clone();
        self.series.push(Series {
            name,
            parameter,
            checkpoint,
            output: !checkpoint,
            has_id,
            told_by: ToldBy::Patterns { own: elements.iter().all(|element| element.own) },
            text,
        });
        Ok(())
    }

    fn compile_ignore(&mut self, config: &PatternConfig) -> Result<()> {
        let (mut relative, mut absolute) = (Vec::new(), Vec::new());
        for list in &config.ignore {
            for mut element in elements(config, list)? {
                if let Form::Glob(glob) = &mut element.form
                    && !glob.trim_end_matches('/').contains('/')
                {
                    *glob = format!("**/{glob}");
                }
                let compiled = Alternative::new(config, &element, 0);
                let alternative = compiled.map_err(|what| config_error(list, &what))?;
                let regex = alternative.regex.as_str();
                if !alternative.active {
                    continue;
                }
                if alternative.absolute {
                    absolute.push(regex.to_string());
                } else if alternative.components.is_none() {
                    relative.push(regex.to_string());
                } else {
                    // A directory that is ignored is so with all that is in it.
                    relative.push(format!("{}(?s:/.*)?$", regex.trim_end_matches('$')));
                }
            }
        }
        self.ignore = union(&relative, config)?;
        self.ignore_absolute = union(&absolute, config)?;
        Ok(())
    }

    /// Returns all series, in the order of their indices.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Sentences about what is allowed, but cannot be meant.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Describes each list with its parameter and where that was set.
    pub fn in_force(&self) -> String {
        let one = |(series, origin): (&Series, &SeriesOrigin)| {
            let Series { parameter, text, .. } = series;
            format!("{parameter}={text} ({})", origin.source)
        };
        self.series.iter().zip(&self.origins).map(one).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }

    pub(super) fn takes(&self, alternative: &Alternative, name: &str) -> bool {
        match alternative.absolute {
            true => alternative.regex.is_match(&format!("{}/{name}", self.prefix)),
            false => alternative.regex.is_match(name),
        }
    }

    /// Finds the index of the series called `name`.
    pub fn series_index(&self, name: &str) -> Option<usize> {
        self.series.iter().position(|series| series.name == name)
    }

    /// Finds out whether the file `path`, relative to the prefix and lexically normal, is ours. The
    /// first pattern that matches decides; what is ignored and what is SCR's own never matches.
    pub fn match_path(&self, path: &str) -> Option<Match> {
        let any = |set: &Option<RegexSet>, text: &str| {
            set.as_ref().is_some_and(|regexes| regexes.is_match(text))
        };
        let absolute = match self.any_absolute {
            Some(_) => format!("{}/{path}", self.prefix),
            None => String::new(),
        };
        if !(any(&self.any_relative, path) || any(&self.any_absolute, &absolute))
            || is_scrs_own(path)
        {
            return None;
        }
        let found = self.alternatives.iter().find_map(|alternative| {
            let text = if alternative.absolute { &absolute } else { path };
            let captures = alternative.regex.captures(text)?;
            let id = agreed(&captures, &alternative.ids, same_id)?;
            let rank = agreed(&captures, &alternative.ranks, same_id)?;
            Some((alternative, text, captures, id, rank))
        });
        let (alternative, text, captures, id, rank) = found?;
        if self.ignores(path) {
            return None;
        }
        let masked = mask(text, &captures, &alternative.ids);
        let start = text.len() - path.len();
        Some(Match {
            series: alternative.series,
            id: id.map(str::to_string),
            rank: rank.and_then(|digits| digits.parse().ok()),
            own: alternative.own,
            has_id_in_series: self.series[alternative.series].has_id,
            // An id that was captured in the prefix itself leaves nothing to cut.
            masked: masked.get(start..).unwrap_or(path).to_string(),
            temporary: false,
        })
    }

    /// Tells whether SCR_IGNORE_PATTERN names `path`, relative to the prefix.
    pub fn ignores(&self, path: &str) -> bool {
        self.ignore.as_ref().is_some_and(|regex| regex.is_match(path))
            || self.ignore_absolute.as_ref().is_some_and(|regexes| {
                let absolute = format!("{}/{path}", self.prefix);
                regexes.is_match(&absolute)
            })
    }

    /// Tells whether some pattern may match a path below `directory`, relative to the prefix. May
    /// say yes in vain, never no.
    pub fn could_match_below(&self, directory: &str) -> bool {
        self.alternatives.iter().any(|alternative| alternative.could_match_below(directory))
    }

    /// Returns the innermost directory, relative to the prefix, that each pattern names without a
    /// wildcard.
    pub fn literal_directories(&self) -> Vec<&str> {
        let literals = self.alternatives.iter().map(|alternative| alternative.literal.as_str());
        literals.filter_map(|literal| Some(literal.rsplit_once('/')?.0)).collect()
    }
}

fn elements(config: &PatternConfig, list: &PatternText) -> Result<Vec<Element>> {
    element::split(&list.text, &config.token).map_err(|what| config_error(list, &what))
}

fn config_error(list: &PatternText, what: &str) -> Error {
    let PatternText { name, place, .. } = list;
    match place.is_empty() || place.ends_with(name.as_str()) {
        true => Error::Config { place: name.clone(), what: what.to_string() },
        false => Error::Config { place: place.clone(), what: format!("{name}: {what}") },
    }
}

fn place_of(list: &PatternText) -> String {
    let PatternText { name, place, .. } = list;
    match place.is_empty() || place.ends_with(name.as_str()) {
        true => name.clone(),
        false => format!("{place}: {name}"),
    }
}

/// `SCR_CHECKPOINT_PATTERN_2` -> `checkpoint_2`.
fn series_name(parameter: &str) -> String {
    let name = parameter.strip_prefix("SCR_").unwrap_or(parameter);
    name.replacen("_PATTERN", "", 1).to_ascii_lowercase()
}

fn union(regexes: &[String], config: &PatternConfig) -> Result<Option<RegexSet>> {
    if regexes.is_empty() {
        return Ok(None);
    }
    let place = config.prefix.display().to_string();
    let what = |_| Error::Config { place, what: "the patterns are too large together".to_string() };
    RegexSet::new(regexes).map(Some).map_err(what)
}

/// `.scr/`, the config file, and files staged by a flush.
fn is_scrs_own(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let staged = name.starts_with('.')
        && name.rsplit_once(".scr-").is_some_and(|(_, epoch)| {
            !epoch.is_empty() && epoch.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
    staged || path == ".scrconf" || path == ".scr" || path.starts_with(".scr/")
}

/// What the groups captured; `Some(None)` if none took part, `None` if two disagree.
fn agreed<'a>(
    captures: &Captures<'a>,
    groups: &[usize],
    same: impl Fn(&str, &str) -> bool,
) -> Option<Option<&'a str>> {
    let mut found = groups.iter().filter_map(|group| captures.get(*group)).map(|m| m.as_str());
    let Some(first) = found.next() else { return Some(None) };
    found.all(|other| same(first, other)).then_some(Some(first))
}

/// `step_0010/ckpt_10` is one dataset: leading zeros do not count.
fn same_id(one: &str, other: &str) -> bool {
    one.trim_start_matches('0') == other.trim_start_matches('0')
}

fn mask(text: &str, captures: &Captures<'_>, ids: &[usize]) -> String {
    let mut masked = text.to_string();
    let mut spans: Vec<_> = ids.iter().filter_map(|group| captures.get(*group)).collect();
    spans.sort_by_key(|span| span.start());
    for span in spans.into_iter().rev() {
        masked.replace_range(span.range(), "{id}");
    }
    masked
}
