//! The outcome: every value in force, where it comes from, and what it beat.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::file::{DescriptorLine, LineKind};
use super::param::{Key, OptionalKey, Typed};
use super::table::{Named, PARAMS, find, keys};
use super::text::escaped;
use super::value::Value;
use super::{Environment, Source};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub source: Source,
    /// `file:line`, or the source in words.
    pub place: String,
    /// The value, unquoted and expanded, in its canonical spelling.
    pub text: String,
}

/// A value in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The parameter and the member of its family.
    pub named: Named,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
    /// What it beat, strongest first.
    pub overrode: Vec<Origin>,
}

/// All settings of a run. Equal on all ranks: rank 0 loads and broadcasts them
/// ([`Settings::to_tree`]).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// By name; families after one another.
    values: BTreeMap<(&'static str, u32), Setting>,
    pub(super) lines: Vec<DescriptorLine>,
    /// Sentences for the user about what was ignored or doubtful; one for each cause.
    pub warnings: Vec<String>,
    /// A clause about the user's config file: which it is, or where none was found.
    pub user_file: String,
    /// The `SCR_*` variables that were read, as they were.
    environment: Environment,
    /// The system file says which cache bases there are.
    pub store_bases_fixed: bool,
}

impl Settings {
    /// Returns the table's defaults; relative paths are below `working_directory`.
    #[must_use]
    pub fn defaults(working_directory: &Path) -> Settings {
        let mut settings = Settings::default();
        for param in PARAMS {
            // The table's own test parses every default.
            let Some(text) = param.default else { continue };
            let Ok(value) = param.parse(text) else { continue };
            let value = absolute(value, working_directory);
            let text = value.to_text(param.kind);
            let place = Source::Default.name().to_string();
            let origin = Origin { source: Source::Default, place, text };
            let named = Named { param, number: 1 };
            settings.insert(Setting { named, value, origin, overrode: Vec::new() });
        }
        settings
    }

    /// Returns the value of a parameter that has a default.
    #[must_use]
    pub fn get<T: Typed>(&self, key: Key<T>) -> T::Output {
        let name = key.param.name;
        self.find_value::<T>(name)
            .or_else(|| Settings::defaults(Path::new("/")).find_value::<T>(name))
            .expect("the table's test shows that every default is of its row's type")
    }

    /// Returns the value of a parameter without a default; `None` if nobody set it.
    #[must_use]
    pub fn get_optional<T: Typed>(&self, key: OptionalKey<T>) -> Option<T::Output> {
        self.find_value::<T>(key.param.name)
    }

    /// Returns the members of a family that are set, as (full name, value), by number.
    #[must_use]
    pub fn family<T: Typed>(&self, key: OptionalKey<T>) -> Vec<(String, T::Output)> {
        let name = key.param.name;
        self.values
            .range((name, 0)..=(name, u32::MAX))
            .filter_map(|(_, setting)| Some((setting.named.name(), T::take(&setting.value)?)))
            .collect()
    }

    fn find_value<T: Typed>(&self, name: &'static str) -> Option<T::Output> {
        self.values.get(&(name, 1)).and_then(|setting| T::take(&setting.value))
    }

    /// Returns everything that has a value, in the table's order.
    pub fn all(&self) -> impl Iterator<Item = &Setting> {
        PARAMS.iter().flat_map(|param| {
            self.values.range((param.name, 0)..=(param.name, u32::MAX)).map(|(_, setting)| setting)
        })
    }

    /// Finds the setting called `name`, if it has a value.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        let named = find(name)?;
        self.values.get(&(named.param.name, named.number))
    }

    /// Tells who set the parameter called `name`; [`Source::Default`] if nobody did.
    #[must_use]
    pub fn source(&self, name: &str) -> Source {
        self.setting(name).map_or(Source::Default, |setting| setting.origin.source)
    }

    /// Tells whether the user or the program set the parameter, not the system's file.
    #[must_use]
    pub fn is_asked_for(&self, name: &str) -> bool {
        !matches!(self.source(name), Source::Default | Source::SystemFile)
    }

    /// Tells whether anybody has set the parameter, the file of the system included.
    #[must_use]
    pub fn is_chosen(&self, name: &str) -> bool {
        self.source(name) != Source::Default
    }

    /// Gives one parameter a value, as [`Source::Program`] does.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let place = Source::Program.name().to_string();
        let Some(named) = find(name) else {
            let what = format!("{name} is not a parameter");
            return Err(Error::Config { place, what });
        };
        let value =
            named.param.parse(text).map_err(|what| Error::Config { place: place.clone(), what })?;
        let value = absolute(value, &self.get(keys::PREFIX));
        let text = value.to_text(named.param.kind);
        let origin = Origin { source: Source::Program, place, text };
        self.insert(Setting { named, value, origin, overrode: Vec::new() });
        Ok(())
    }

    /// Returns the descriptor lines that the program has set, by their first word: what they say,
    /// and where.
    pub fn lines_of_program(&self) -> Vec<(String, (String, String))> {
        let lines = LineKind::ALL.into_iter().flat_map(|kind| self.lines(kind));
        let of_program = lines.filter(|line| line.source == Source::Program);
        let entry = |line: &DescriptorLine| {
            let fields: Vec<String> = line
                .fields
                .iter()
                .map(|(key, value)| format!("{key}={}", escaped(value)))
                .collect();
            let name = format!("{}={}", line.kind.key(), escaped(&line.subject));
            (name, (fields.join(" "), line.place.clone()))
        };
        of_program.map(entry).collect()
    }

    /// Returns the descriptor lines of one kind, in order.
    pub fn lines(&self, kind: LineKind) -> impl Iterator<Item = &DescriptorLine> {
        self.lines.iter().filter(move |line| line.kind == kind)
    }

    /// Compares the `SCR_*` variables that these settings were made from with those of another
    /// process, and returns the names of those that differ, for one message. Rank 0's hold.
    #[must_use]
    pub fn environment_differences(&self, environment: &Environment) -> Vec<String> {
        let other = scr_variables(environment);
        let mut names: Vec<_> = self.environment.keys().chain(other.keys()).cloned().collect();
        names.sort();
        names.dedup();
        names.retain(|name| self.environment.get(name) != other.get(name));
        names
    }

    pub(super) fn insert(&mut self, setting: Setting) {
        self.values.insert((setting.named.param.name, setting.named.number), setting);
    }

    pub(super) fn set_environment(&mut self, environment: &Environment) {
        self.environment = scr_variables(environment);
    }

    /// Packs everything, for the broadcast: SETTING, LINE, WARNING, ENVIRONMENT, FILE, FIXED.
    #[must_use]
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        for setting in self.values.values() {
            let slot = tree.set_kv("SETTING", setting.named.name());
            put_origin(slot, &setting.origin);
            for (index, origin) in setting.overrode.iter().enumerate() {
                put_origin(slot.set_kv("OVERRODE", index), origin);
            }
        }
        for (index, line) in self.lines.iter().enumerate() {
            let slot = tree.set_kv("LINE", index);
            slot.set_value("KIND", line.kind.key());
            slot.set_value("SUBJECT", &line.subject);
            slot.set_value("SOURCE", line.source.name());
            slot.set_value("PLACE", &line.place);
            for (index, (key, value)) in line.fields.iter().enumerate() {
                slot.set_kv("FIELD", index).set_value(key, value);
            }
        }
        for (index, warning) in self.warnings.iter().enumerate() {
            tree.set_kv("WARNING", index).set_value("TEXT", warning);
        }
        for (name, value) in &self.environment {
            tree.set_kv("ENVIRONMENT", name).set_value("TEXT", value);
        }
        tree.set_value("FILE", &self.user_file);
        tree.set_value("FIXED", u8::from(self.store_bases_fixed));
        tree
    }

    /// Reads what [`Settings::to_tree`] makes; `None` if the tree is not one of its.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Settings> {
        let mut settings = Settings {
            store_bases_fixed: tree.get_value("FIXED")? == "1",
            user_file: tree.get_value("FILE")?.to_string(),
            ..Settings::default()
        };
        for (name, slot) in tree.child("SETTING").iter() {
            let named = find(name)?;
            let origin = get_origin(slot)?;
            let value = named.param.parse(&origin.text).ok()?;
            let overrode = numbered(slot.child("OVERRODE"))?
                .into_iter()
                .map(get_origin)
                .collect::<Option<_>>()?;
            settings.insert(Setting { named, value, origin, overrode });
        }
        for slot in numbered(tree.child("LINE"))? {
            let mut fields = Vec::new();
            for field in numbered(slot.child("FIELD"))? {
                let key = field.keys().next()?;
                fields.push((key.to_string(), field.get_value(key)?.to_string()));
            }
            settings.lines.push(DescriptorLine {
                kind: LineKind::from_key(slot.get_value("KIND")?)?,
                subject: slot.get_value("SUBJECT")?.to_string(),
                fields,
                source: Source::from_name(slot.get_value("SOURCE")?)?,
                place: slot.get_value("PLACE")?.to_string(),
            });
        }
        for slot in numbered(tree.child("WARNING"))? {
            settings.warnings.push(slot.get_value("TEXT")?.to_string());
        }
        for (name, slot) in tree.child("ENVIRONMENT").iter() {
            settings.environment.insert(name.to_string(), slot.get_value("TEXT")?.to_string());
        }
        Some(settings)
    }
}

fn numbered(tree: &KvTree) -> Option<Vec<&KvTree>> {
    (0..tree.len()).map(|index| tree.get(&index.to_string())).collect()
}

fn put_origin(slot: &mut KvTree, origin: &Origin) {
    slot.set_value("TEXT", &origin.text);
    slot.set_value("SOURCE", origin.source.name());
    slot.set_value("PLACE", &origin.place);
}

fn get_origin(slot: &KvTree) -> Option<Origin> {
    Some(Origin {
        source: Source::from_name(slot.get_value("SOURCE")?)?,
        place: slot.get_value("PLACE")?.to_string(),
        text: slot.get_value("TEXT")?.to_string(),
    })
}

fn scr_variables(environment: &Environment) -> Environment {
    // What the launcher's shim hands to a single launch differs by nature.
    let ours = |name: &str| name.starts_with("SCR_") && !super::environment::is_internal(name);
    environment
        .iter()
        .filter(|(name, _)| ours(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Makes a path absolute and lexically normal; other values stay.
pub(super) fn absolute(value: Value, working_directory: &Path) -> Value {
    match value {
        Value::Path(path) => Value::Path(normal(&working_directory.join(path))),
        other => other,
    }
}

/// Removes `.`, `..`, doubled and trailing slashes of an absolute path.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}
