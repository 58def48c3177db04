//! Where values come from, and which one holds.
//!
//! Environment > user file > program (`SCR_Config`) > system file > default. A few bases belong to
//! the system: where its file sets them, the user's are ignored with one message.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::environment::is_internal;
use super::file::{self, Assignment, Choice, DescriptorLine, LineKind, Parsed};
use super::param::ParamStatus;
use super::resolved::{Origin, Setting, Settings, absolute, normal};
use super::suggest::did_you_mean;
use super::table::{Named, PARAMS, find, keys};
use super::value::Value;
use super::{Environment, Source, text};
use crate::error::Error;
use crate::log::messages;

/// The system's config file; set `SCR_CONFIG_FILE` at build time for another place.
pub const SYSTEM_FILE: &str = match option_env!("SCR_CONFIG_FILE") {
    Some(path) => path,
    None => "/etc/scr/scr.conf",
};

/// Name of the user's config file below the prefix, when `SCR_CONF_FILE` names none.
const USER_FILE: &str = ".scrconf";

pub(crate) const SCR_CONFIG: &str = "SCR_Config";

/// Keys of ancient config files, and what to write instead.
const HISTORICAL: &[(&str, &str)] = &[
    ("CACHE", "a STORE= line"),
    ("CACHEDIR", "SCR_CACHE_BASE=, or a STORE= line"),
    ("CACHEDESC", "a STORE= line"),
    ("CNTLDIR", "SCR_CNTL_BASE="),
];

/// What the settings are made from.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The process's environment.
    pub environment: &'a Environment,
    /// Where the program was started; relative paths are below it.
    pub working_directory: &'a Path,
    /// The system file, usually [`SYSTEM_FILE`]; it need not exist.
    pub system_file: &'a Path,
    /// Lines that the program gave to `SCR_Config`, in order.
    pub program: &'a [String],
}

/// All mistakes in a configuration, each naming its file and line or its variable.
#[derive(Debug)]
pub struct Problems(pub Vec<Error>);

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(out, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Problems> for Error {
    /// One sentence: it is part of a message, which is one line.
    fn from(problems: Problems) -> Error {
        let all: Vec<String> = problems.0.iter().map(Error::to_string).collect();
        Error::named(messages::SETTING_WRONG, all.join("; "))
    }
}

/// Reads all sources and settles them. The errors are all mistakes at once: malformed lines,
/// unknown keys in files, values of the wrong type, a named file that is not there. Unknown
/// variables in the environment only warn.
pub fn load(inputs: &Inputs<'_>) -> Result<Settings, Problems> {
    let mut loader = Loader {
        inputs,
        candidates: BTreeMap::new(),
        lines: Vec::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
        user_file: String::new(),
    };
    loader.environment();
    loader.file(inputs.system_file, Source::SystemFile);
    loader.program();
    loader.user_file();
    if loader.problems.is_empty() { Ok(loader.settle()) } else { Err(Problems(loader.problems)) }
}

struct SourceValue {
    named: Named,
    value: Value,
    origin: Origin,
}

struct Loader<'a> {
    inputs: &'a Inputs<'a>,
    /// By name and number, unordered.
    candidates: BTreeMap<(&'static str, u32), Vec<SourceValue>>,
    lines: Vec<DescriptorLine>,
    problems: Vec<Error>,
    warnings: Vec<String>,
    user_file: String,
}

impl Loader<'_> {
    fn environment(&mut self) {
        let environment = self.inputs.environment;
        let variables = |name: &str| environment.get(name).cloned();
        for (key, raw) in environment {
            if !key.starts_with("SCR_") || is_internal(key) {
                continue;
            }
            let place = format!("environment variable {key}");
            if find(key).is_none() {
                let hint = did_you_mean(key, PARAMS.iter().map(|param| param.name));
                self.warnings.push(format!("{place}: not a parameter of SCR, ignored{hint}"));
                continue;
            }
            match text::value(raw, &variables) {
                Ok(value) => {
                    let assignment = Assignment { key: key.clone(), value, place };
                    self.take(Source::Environment, &assignment);
                }
                Err(what) => self.problems.push(Error::Config { place, what }),
            }
        }
    }

    /// The file that `SCR_CONF_FILE` names, which has to exist, else the one that the prefix has.
    fn user_file(&mut self) {
        if let Some(Value::Path(path)) = self.strongest("SCR_CONF_FILE").cloned() {
            self.user_file = format!("the config file is {} (SCR_CONF_FILE)", path.display());
            if !self.file(&path, Source::UserFile) {
                self.problems.push(Error::Config {
                    place: "environment variable SCR_CONF_FILE".to_string(),
                    what: format!("there is no file {}", path.display()),
                });
            }
            return;
        }
        let prefix = match self.strongest(keys::PREFIX.param.name) {
            Some(Value::Path(path)) => path.clone(),
            _ => normal(self.inputs.working_directory),
        };
        let path = prefix.join(USER_FILE);
        let shown = path.display();
        self.user_file = match self.file(&path, Source::UserFile) {
            true => format!("the config file is {shown}"),
            false => format!(
                "there is no config file {shown} ($SCR_PREFIX/{USER_FILE}), and SCR_CONF_FILE is \
                 not set"
            ),
        };
    }

    fn strongest(&self, name: &'static str) -> Option<&Value> {
        let candidates = self.candidates.get(&(name, 1))?;
        candidates.iter().min_by_key(|c| c.origin.source).map(|c| &c.value)
    }

    /// False if there is no such file.
    fn file(&mut self, path: &Path, source: Source) -> bool {
        let named = source != Source::UserFile || self.strongest("SCR_CONF_FILE").is_some();
        let choice = if named { Choice::Named } else { Choice::Found };
        match file::read(path, source, choice, self.inputs.environment) {
            Ok(Some(parsed)) => self.parsed(source, parsed),
            Ok(None) => return false,
            Err(error) => self.problems.push(error),
        }
        true
    }

    fn program(&mut self) {
        for line in self.inputs.program {
            let environment = self.inputs.environment;
            let parsed = file::parse(line.as_bytes(), SCR_CONFIG, Source::Program, environment);
            self.parsed(Source::Program, parsed);
        }
    }

    fn parsed(&mut self, source: Source, parsed: Parsed) {
        self.problems.extend(parsed.problems);
        self.lines.extend(parsed.lines);
        for assignment in &parsed.assignments {
            self.take(source, assignment);
        }
    }

    fn take(&mut self, source: Source, assignment: &Assignment) {
        if let Err(what) = self.try_take(source, assignment) {
            self.problems.push(Error::Config { place: assignment.place.clone(), what });
        }
    }

    fn try_take(&mut self, source: Source, assignment: &Assignment) -> Result<(), String> {
        let Assignment { key, value, place } = assignment;
        if let Some((_, instead)) = HISTORICAL.iter().find(|(name, _)| name == key) {
            return Err(format!("{key} is a key of old versions; write {instead} instead"));
        }
        let Some(mut named) = find(key) else { return Err(unknown(key)) };
        // An empty value is how a script says "not set".
        if value.is_empty() {
            return Ok(());
        }
        match named.param.status {
            ParamStatus::Works => {}
            ParamStatus::Alias(other) => named = find(other).unwrap_or(named),
            ParamStatus::NoEffect(reason) => {
                self.warnings.push(format!("{place}: {key} is ignored: {reason}"));
                return Ok(());
            }
            ParamStatus::EnvironmentOnly if source == Source::Environment => {}
            ParamStatus::EnvironmentOnly => {
                return Err(format!("{key} can only be set in the environment"));
            }
        }
        let value = absolute(named.param.parse(value)?, self.inputs.working_directory);
        if let Value::Path(path) = &value
            && path.to_str().is_none()
        {
            return Err(format!(
                "{key} is below the working directory, whose name is not UTF-8 text: {}; an \
                 absolute path is needed",
                self.inputs.working_directory.display()
            ));
        }
        let text = value.to_text(named.param.kind);
        let origin = Origin { source, place: place.clone(), text };
        let slot = self.candidates.entry((named.param.name, named.number)).or_default();
        if let Some(earlier) = slot.iter_mut().find(|c| c.origin.source == source) {
            if earlier.value != value {
                let name = named.name();
                let before = &earlier.origin.place;
                self.warnings.push(format!("{place}: {name} was also set in {before}; this holds"));
            }
            *earlier = SourceValue { named, value, origin };
        } else {
            slot.push(SourceValue { named, value, origin });
        }
        Ok(())
    }

    fn settle(mut self) -> Settings {
        let mut settings = Settings::defaults(self.inputs.working_directory);
        settings.set_environment(self.inputs.environment);
        let mut overruled = Vec::new();
        for mut candidates in std::mem::take(&mut self.candidates).into_values() {
            let system_first = candidates[0].named.param.system_wins;
            let system = |c: &SourceValue| c.origin.source == Source::SystemFile;
            candidates.sort_by_key(|c| (!(system_first && system(c)), c.origin.source));
            let mut ranked = candidates.into_iter();
            let Some(winner) = ranked.next() else { continue };
            let mut overrode: Vec<Origin> = ranked.map(|candidate| candidate.origin).collect();
            if system_first && winner.origin.source == Source::SystemFile {
                let name = winner.named.name();
                overruled.extend(overrode.iter().map(|user| format!("{name} ({})", user.place)));
            }
            overrode.extend(settings.setting(&winner.named.name()).map(|s| s.origin.clone()));
            let SourceValue { named, value, origin } = winner;
            settings.insert(Setting { named, value, origin, overrode });
        }
        let base_fixed = settings
            .setting(keys::CACHE_BASE.param.name)
            .is_some_and(|setting| setting.origin.source == Source::SystemFile);
        self.settle_lines(&mut settings, base_fixed, &mut overruled);
        if !overruled.is_empty() {
            let system = self.inputs.system_file.display();
            let overruled = overruled.join(", ");
            self.warnings.push(format!("ignored, since {system} decides it: {overruled}"));
        }
        settings.warnings = self.warnings;
        settings.user_file = self.user_file;
        settings
    }

    /// Of each kind the lines of the strongest source hold, all of them. Only STORE lines of the
    /// system stay: the user chooses among its stores and changes their other keys.
    fn settle_lines(&mut self, settings: &mut Settings, base: bool, overruled: &mut Vec<String>) {
        let mut lines = Vec::new();
        for kind in LineKind::ALL {
            let of_kind: Vec<_> = self.lines.iter().filter(|line| line.kind == kind).collect();
            let Some(strongest) = of_kind.iter().map(|line| line.source).min() else { continue };
            let chosen = of_kind.iter().filter(|line| line.source == strongest);
            let mut chosen: Vec<DescriptorLine> = chosen.copied().cloned().collect();
            let system: Vec<_> =
                of_kind.iter().filter(|line| line.source == Source::SystemFile).collect();
            if kind == LineKind::Store && (base || !system.is_empty()) {
                settings.store_bases_fixed = true;
                let cache_base = settings.get(keys::CACHE_BASE).display().to_string();
                let known = |line: &DescriptorLine| {
                    line.source == Source::SystemFile
                        || (base && line.subject == cache_base)
                        || system.iter().any(|other| other.subject == line.subject)
                };
                for line in chosen.iter().filter(|line| !known(line)) {
                    overruled.push(format!("STORE={} ({})", line.subject, line.place));
                }
                chosen.retain(known);
                for line in system {
                    match chosen.iter_mut().find(|other| other.subject == line.subject) {
                        Some(user) => add_missing_fields(user, line),
                        None => chosen.push((**line).clone()),
                    }
                }
            }
            lines.extend(chosen);
        }
        settings.store_bases_fixed |= base;
        settings.lines = lines;
    }
}

fn add_missing_fields(line: &mut DescriptorLine, other: &DescriptorLine) {
    for (key, value) in &other.fields {
        if !line.fields.iter().any(|(known, _)| known == key) {
            line.fields.push((key.clone(), value.clone()));
        }
    }
}

pub(super) fn unknown(key: &str) -> String {
    let known = PARAMS.iter().map(|param| param.name).chain(["GROUPS", "STORE", "CKPT"]);
    format!("{key} is not a parameter{}", did_you_mean(key, known))
}
