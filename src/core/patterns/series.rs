//! All series of a run, compiled; paths are matched here.

use std::path::{Component, Path, PathBuf};

use regex::{Captures, Regex, RegexSet};

use super::element::{self, Element, Form};
use super::glob;
use crate::error::{Error, Result};
use crate::params::{Settings, keys};

/// One pattern list and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternText {
    /// The parameter, as in `SCR_CHECKPOINT_PATTERN_2`.
    pub name: String,
    /// `file:line` or the like, for messages.
    pub place: String,
    /// The list.
    pub text: String,
}

/// What a [`SeriesSet`] is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternConfig {
    /// The prefix directory, absolute, symlinks resolved.
    pub prefix: PathBuf,
    /// The prefix as the user wrote it, when that differs; absolute patterns may begin with either.
    pub prefix_as_written: Option<PathBuf>,
    /// The series of checkpoints.
    pub checkpoint: Vec<PatternText>,
    /// The series of output.
    pub output: Vec<PatternText>,
    /// What is never ours.
    pub ignore: Vec<PatternText>,
    /// Separator of lists in the classic form.
    pub token: String,
    /// World rank of this process; the classic form can name ranks.
    pub rank: u64,
}

impl PatternConfig {
    /// Takes the patterns out of the settings; `prefix` is `SCR_PREFIX`, symlinks resolved.
    #[must_use]
    pub fn from_settings(settings: &Settings, prefix: &Path, rank: usize) -> PatternConfig {
        let texts = |family: Vec<(String, String)>| {
            let place = |name: &str| {
                settings.setting(name).map(|s| s.origin.place.clone()).unwrap_or_default()
            };
            let text = |(name, text): (String, String)| {
                let place = place(&name);
                PatternText { name, place, text }
            };
            family.into_iter().map(text).collect()
        };
        PatternConfig {
            prefix: prefix.to_path_buf(),
            prefix_as_written: Some(settings.get(keys::PREFIX)),
            checkpoint: texts(settings.family(keys::CHECKPOINT_PATTERN)),
            output: texts(settings.family(keys::OUTPUT_PATTERN)),
            ignore: texts(settings.family(keys::IGNORE_PATTERN)),
            token: settings.get(keys::CHECKPOINT_PATTERN_TOKEN),
            rank: rank as u64,
        }
    }
}

/// One series of datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// `checkpoint`, `checkpoint_2`, ..., `output`, ...: stable, fit for a file name.
    pub name: String,
    /// Its datasets are checkpoints.
    pub checkpoint: bool,
    /// Its datasets are output.
    pub output: bool,
    /// Some pattern has an `{id}`: datasets are told apart by it, else by generation.
    pub has_id: bool,
    /// The list, canonically: what was learned about a series holds while this is the same.
    pub text: String,
}

/// A path that belongs to a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Index into [`SeriesSet::series`].
    pub series: usize,
    /// The captured id; `None` if the pattern that matched has none.
    pub id: Option<String>,
    /// The captured number of the writer. A hint, not the rank.
    pub rank: Option<u64>,
    /// The user vouches that no two ranks share this file.
    pub own: bool,
    /// Some pattern of the series has an id.
    pub has_id_in_series: bool,
    /// The path with the captured id replaced by `{id}`: the same for each dataset of the series.
    pub masked: String,
}

impl Match {
    /// Whether the file belongs to whichever dataset is in progress (a pointer such as `latest`).
    #[must_use]
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
    ignore: Option<RegexSet>,
    ignore_absolute: Vec<Regex>,
    prefix: String,
}

#[derive(Debug)]
struct Alternative {
    series: usize,
    regex: Regex,
    /// Matched against the absolute path.
    absolute: bool,
    own: bool,
    /// Indices of the groups that capture the id; all that take part must agree.
    ids: Vec<usize>,
    ranks: Vec<usize>,
    /// For each component of a glob; `None` from a `**` on. `None` for regular expressions.
    components: Option<Vec<Option<Regex>>>,
    /// What every relative match begins with.
    literal: String,
}

impl SeriesSet {
    /// Compiles all patterns.
    ///
    /// # Errors
    /// `Error::Config` naming the parameter, its place and the element.
    pub fn new(config: &PatternConfig) -> Result<SeriesSet> {
        let mut set = SeriesSet {
            prefix: config.prefix.to_string_lossy().into_owned(),
            ..SeriesSet::default()
        };
        let mut relative = Vec::new();
        for (list, checkpoint) in config
            .checkpoint
            .iter()
            .map(|list| (list, true))
            .chain(config.output.iter().map(|list| (list, false)))
        {
            let elements = elements(config, list)?;
            let text = elements.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(", ");
            // The same patterns as a series of checkpoints: those are both.
            let twin = set.series.iter_mut().find(|other| !checkpoint && other.text == text);
            if let Some(twin) = twin {
                twin.output = true;
                continue;
            }
            let index = set.series.len();
            for element in &elements {
                let compiled = Alternative::new(config, element, index);
                let Some(alternative) = compiled.map_err(|what| config_error(list, &what))? else {
                    continue;
                };
                if !alternative.absolute {
                    relative.push(alternative.regex.as_str().to_string());
                }
                set.alternatives.push(alternative);
            }
            let name = series_name(&list.name);
            let has_id = set.alternatives.iter().any(|a| a.series == index && !a.ids.is_empty());
            set.series.push(Series { name, checkpoint, output: !checkpoint, has_id, text });
        }
        set.any_relative = union(&relative, config)?;
        set.compile_ignore(config)?;
        Ok(set)
    }

    fn compile_ignore(&mut self, config: &PatternConfig) -> Result<()> {
        let mut relative = Vec::new();
        for list in &config.ignore {
            for mut element in elements(config, list)? {
                if let Form::Glob(glob) = &mut element.form
                    && !glob.trim_end_matches('/').contains('/')
                {
                    *glob = format!("**/{glob}");
                }
                let compiled = Alternative::new(config, &element, 0);
                let compiled = compiled.map_err(|what| config_error(list, &what))?;
                match compiled {
                    Some(a) if a.absolute => self.ignore_absolute.push(a.regex),
                    Some(a) if a.components.is_none() => relative.push(a.regex.to_string()),
                    // A directory that is ignored is so with all that is in it.
                    Some(a) => {
                        let regex = a.regex.as_str();
                        relative.push(format!("{}(?:/.*)?$", regex.trim_end_matches('$')));
                    }
                    None => {}
                }
            }
        }
        self.ignore = union(&relative, config)?;
        Ok(())
    }

    /// The series, in the order of their indices.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The index of the series called `name`.
    #[must_use]
    pub fn series_index(&self, name: &str) -> Option<usize> {
        self.series.iter().position(|series| series.name == name)
    }

    /// Finds out whether the file `path`, relative to the prefix and lexically normal, is ours. The
    /// first pattern that matches decides; what is ignored and what is SCR's own never matches.
    #[must_use]
    pub fn match_path(&self, path: &str) -> Option<Match> {
        let any_absolute = self.alternatives.iter().any(|a| a.absolute);
        let relative = self.any_relative.as_ref().is_some_and(|regex| regex.is_match(path));
        if !(relative || any_absolute) || is_scrs_own(path) {
            return None;
        }
        let absolute =
            if any_absolute { format!("{}/{path}", self.prefix) } else { String::new() };
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
        })
    }

    /// Whether SCR_IGNORE_PATTERN names `path` (relative to the prefix).
    #[must_use]
    pub fn ignores(&self, path: &str) -> bool {
        self.ignore.as_ref().is_some_and(|regex| regex.is_match(path))
            || self.ignore_absolute.iter().any(|regex| {
                let absolute = format!("{}/{path}", self.prefix);
                regex.is_match(&absolute)
            })
    }

    /// Whether some pattern may match a path below `directory` (relative to the prefix; empty for
    /// the prefix itself). May say yes in vain, never no.
    #[must_use]
    pub fn could_match_below(&self, directory: &str) -> bool {
        self.alternatives.iter().any(|alternative| alternative.could_match_below(directory))
    }

    /// What the matches of each pattern begin with, relative to the prefix; duplicates and those
    /// that begin with another are left out. An empty one means: anything.
    #[must_use]
    pub fn literal_prefixes(&self) -> Vec<String> {
        let mut literals: Vec<String> =
            self.alternatives.iter().map(|alternative| alternative.literal.clone()).collect();
        literals.sort();
        literals.dedup_by(|longer, shorter| longer.starts_with(shorter.as_str()));
        literals
    }
}

impl Alternative {
    /// `Ok(None)` if the element is for other ranks.
    fn new(
        config: &PatternConfig,
        element: &Element,
        series: usize,
    ) -> std::result::Result<Option<Alternative>, String> {
        let mut components = None;
        let mut literal = String::new();
        let (text, absolute) = match &element.form {
            Form::Glob(text) => {
                let parts = relative_components(config, text)?;
                let glob = glob::compile(&parts)?;
                literal = glob.literal;
                let compile = |part: &Option<String>| {
                    part.as_ref().map(|part| compile(&format!("^(?s:{part})$"), text)).transpose()
                };
                let compiled: std::result::Result<_, String> =
                    glob.components.iter().map(compile).collect();
                components = Some(compiled?);
                (format!("^(?s:{})$", glob.regex), false)
            }
            Form::Regex(text) => {
                let absolute = text.starts_with('/') || text.starts_with("^/");
                // On its own first, so that a closing parenthesis too many is found.
                compile(text, text)?;
                if !absolute {
                    literal = regex_literal(text);
                }
                (format!("^(?:{text})$"), absolute)
            }
            Form::Classic { first, last, regex } => {
                if config.rank < *first || last.is_some_and(|last| config.rank > last) {
                    compile(regex, regex)?;
                    return Ok(None);
                }
                (regex.clone(), true)
            }
        };
        let regex = compile(&text, &element.text)?;
        let groups = |name: &str| {
            let numbered = |group: &str| {
                group.strip_prefix(name).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
            };
            let names = regex.capture_names().enumerate();
            names.filter(|(_, group)| group.is_some_and(numbered)).map(|(i, _)| i).collect()
        };
        let (ids, ranks) = (groups("id"), groups("rank"));
        let own = element.own;
        Ok(Some(Alternative { series, regex, absolute, own, ids, ranks, components, literal }))
    }

    fn could_match_below(&self, directory: &str) -> bool {
        if self.absolute {
            return true;
        }
        let Some(components) = &self.components else {
            let below = format!("{directory}/");
            let below = below.trim_start_matches('/');
            return self.literal.starts_with(below) || below.starts_with(&self.literal);
        };
        let mut names = directory.split('/').filter(|name| !name.is_empty());
        for component in components {
            match (component, names.next()) {
                // The pattern goes on below the directory.
                (_, None) | (None, _) => return true,
                (Some(regex), Some(name)) if regex.is_match(name) => {}
                (Some(_), Some(_)) => return false,
            }
        }
        false
    }
}

fn elements(config: &PatternConfig, list: &PatternText) -> Result<Vec<Element>> {
    element::split(&list.text, &config.token).map_err(|what| config_error(list, &what))
}

fn config_error(list: &PatternText, what: &str) -> Error {
    let place = if list.place.is_empty() { &list.name } else { &list.place };
    Error::Config { place: place.clone(), what: format!("{}: {what}", list.name) }
}

/// `SCR_CHECKPOINT_PATTERN_2` -> `checkpoint_2`.
fn series_name(parameter: &str) -> String {
    let name = parameter.strip_prefix("SCR_").unwrap_or(parameter);
    name.replacen("_PATTERN", "", 1).to_ascii_lowercase()
}

fn compile(regex: &str, element: &str) -> std::result::Result<Regex, String> {
    Regex::new(regex).map_err(|error| match error {
        regex::Error::Syntax(text) => {
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("'{element}' is no regular expression: {reason}")
        }
        _ => format!("'{element}' is too large a pattern"),
    })
}

/// Matches where any of these does, in one pass.
fn union(regexes: &[String], config: &PatternConfig) -> Result<Option<RegexSet>> {
    if regexes.is_empty() {
        return Ok(None);
    }
    let place = config.prefix.display().to_string();
    let what = |_| Error::Config { place, what: "the patterns are too large together".to_string() };
    RegexSet::new(regexes).map(Some).map_err(what)
}

/// Characters that every match of an anchored expression begins with.
fn regex_literal(regex: &str) -> String {
    let text = regex.strip_prefix('^').unwrap_or(regex);
    // An alternative at the top would make every beginning one of several.
    if text.contains('|') {
        return String::new();
    }
    let mut literal = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let literal_character = match character {
            '\\' => match characters.next() {
                Some(next) if next.is_ascii_punctuation() => next,
                _ => break,
            },
            c if "^$.|?*+()[]{}".contains(c) => break,
            c => c,
        };
        if characters.peek().is_some_and(|next| "?*{".contains(*next)) {
            break;
        }
        literal.push(literal_character);
    }
    literal
}

/// A glob's components below the prefix, lexically normal.
fn relative_components<'a>(
    config: &PatternConfig,
    text: &'a str,
) -> std::result::Result<Vec<&'a str>, String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(format!("'{text}' is not below the prefix"));
            }
            ".." => {}
            name => parts.push(name),
        }
    }
    if text.starts_with('/') {
        let prefixes = [Some(&config.prefix), config.prefix_as_written.as_ref()];
        let names = |prefix: &PathBuf| -> Vec<String> {
            let normal = prefix.components().filter(|c| matches!(c, Component::Normal(_)));
            normal.map(|c| c.as_os_str().to_string_lossy().into_owned()).collect()
        };
        let below = prefixes.into_iter().flatten().map(names).find(|names| {
            parts.len() > names.len() && names.iter().zip(&parts).all(|(name, part)| name == part)
        });
        let Some(names) = below else {
            let prefix = config.prefix.display();
            return Err(format!("'{text}' is not below the prefix {prefix} (SCR_PREFIX)"));
        };
        parts.drain(..names.len());
    }
    if parts.is_empty() { Err(format!("'{text}' names the prefix itself")) } else { Ok(parts) }
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
