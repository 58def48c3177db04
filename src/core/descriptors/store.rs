//! Stores: the directories that files are cached in.

use std::path::{Path, PathBuf};

use super::group::Groups;
use super::sets::NODE;
use crate::error::{Error, Result};
use crate::params::{
    DescriptorLine, Kind, LineKind, Settings, Value, did_you_mean, find, keys, parse_bytes,
};

const KEYS: [&str; 6] = ["GROUP", "COUNT", "ENABLED", "MKDIR", "FLUSH", "CAPACITY"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDesc {
    pub index: usize,
    /// The same path on every node.
    pub base: PathBuf,
    /// The group of ranks that share it: NODE for storage of the node, WORLD for what all reach.
    pub group: String,
    /// Checkpoints of each series that are kept in it.
    pub count: u64,
    pub enabled: bool,
    /// Directories can be made in it; nothing is cached otherwise.
    pub mkdir: bool,
    /// The word of SCR_FLUSH_TYPE in its line.
    pub flush: Option<String>,
    /// What may be used on each node.
    pub capacity_bytes: Option<u64>,
}

impl StoreDesc {
    /// Tells whether its line decides, or else the settings.
    pub fn flushes_async(&self, settings: &Settings) -> bool {
        match self.flush.as_deref() {
            Some(word) => word == "PTHREAD",
            None => settings.get(keys::FLUSH_ASYNC) || settings.get(keys::FLUSH_TYPE) == "PTHREAD",
        }
    }
}

pub(super) fn stores(settings: &Settings, groups: &Groups) -> Result<Vec<StoreDesc>> {
    let mut stores: Vec<StoreDesc> = Vec::new();
    for line in settings.lines(LineKind::Store) {
        let store = read(settings, groups, line, stores.len())
            .map_err(|what| Error::Config { place: line.place.clone(), what })?;
        if stores.iter().any(|other| other.base == store.base) {
            let what = format!("the store {} is described twice", store.base.display());
            return Err(Error::Config { place: line.place.clone(), what });
        }
        stores.push(store);
    }
    let base = settings.get(keys::CACHE_BASE);
    if !stores.iter().any(|store| store.base == base) {
        stores.push(implied(settings, base, stores.len()));
    }
    Ok(stores)
}

pub(super) fn implied(settings: &Settings, base: PathBuf, index: usize) -> StoreDesc {
    StoreDesc {
        index,
        base,
        group: NODE.to_string(),
        count: settings.get(keys::CACHE_SIZE),
        enabled: true,
        mkdir: true,
        flush: None,
        capacity_bytes: None,
    }
}

fn read(
    settings: &Settings,
    groups: &Groups,
    line: &DescriptorLine,
    index: usize,
) -> std::result::Result<StoreDesc, String> {
    let base = base_path(&line.subject)?;
    let mut store = implied(settings, base, index);
    for (key, value) in &line.fields {
        match key.as_str() {
            "GROUP" => store.group = known_group(groups, value)?,
            "COUNT" => store.count = count(key, value, 1)?,
            "ENABLED" => store.enabled = flag(key, value)?,
            "MKDIR" => store.mkdir = flag(key, value)?,
            "FLUSH" => store.flush = Some(flush_type(value)?),
            "CAPACITY" => {
                let bytes = parse_bytes(value).map_err(|what| format!("{key}={value}: {what}"))?;
                store.capacity_bytes = Some(bytes);
            }
            other => return Err(unknown_key("STORE", other, &KEYS)),
        }
    }
    Ok(store)
}

/// Reads a store's directory, which is the same on every node: it cannot depend on where one is.
pub(super) fn base_path(text: &str) -> std::result::Result<PathBuf, String> {
    let path = Path::new(text);
    match path.is_absolute() {
        // `components` drops doubled and trailing slashes, so that equal stores compare equal.
        true => Ok(path.components().collect()),
        false => Err(format!("a store needs an absolute path, found {text}")),
    }
}

pub(super) fn known_group(groups: &Groups, name: &str) -> std::result::Result<String, String> {
    if groups.of_ranks(name).is_some() {
        return Ok(name.to_string());
    }
    let hint = did_you_mean(name, groups.names());
    let known: Vec<_> = groups.names().collect();
    Err(format!("no group is called {name} (there are {}){hint}", known.join(", ")))
}

pub(super) fn flag(key: &str, value: &str) -> std::result::Result<bool, String> {
    match Value::parse(Kind::Bool, value) {
        Ok(Value::Bool(flag)) => Ok(flag),
        _ => Err(format!("{key}={value} is wrong: 0 or 1 is needed")),
    }
}

pub(super) fn count(key: &str, value: &str, minimum: u64) -> std::result::Result<u64, String> {
    let number = value.parse().ok().filter(|number| *number >= minimum);
    number.ok_or_else(|| format!("{key}={value} is wrong: a whole number from {minimum} is needed"))
}

fn flush_type(value: &str) -> std::result::Result<String, String> {
    let name = keys::FLUSH_TYPE.param.name;
    match find(name).map(|named| named.param.parse(value)) {
        Some(Ok(Value::Text(word))) => Ok(word),
        Some(Err(what)) => Err(what.replace(name, "FLUSH")),
        _ => Err(format!("FLUSH={value} is wrong")),
    }
}

pub(super) fn unknown_key(line: &str, key: &str, keys: &'static [&'static str]) -> String {
    let hint = did_you_mean(key, keys.iter().copied());
    format!("{line} lines have no key {key}{hint}")
}
