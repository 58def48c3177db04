//! The descriptors of a run, from CKPT lines or implied.

use super::group::Groups;
use super::redundancy::{RedundancyDesc, SchemeKind};
use super::store::{StoreDesc, base_path, count, flag, implied, known_group, unknown_key};
use crate::error::{Error, Result};
use crate::log::{Id, messages};
use crate::params::{DescriptorLine, LineKind, Settings, Source, keys};

const KEYS: [&str; 10] = [
    "INTERVAL",
    "GROUP",
    "STORE",
    "TYPE",
    "BYPASS",
    "SET_SIZE",
    "SET_FAILURES",
    "OUTPUT",
    "ENABLED",
    "HOP_DISTANCE",
];

/// Reads the CKPT lines under SCR_COPY_TYPE=FILE, else makes the implied descriptor. Stores that
/// only a CKPT line names are added to `stores`.
pub(super) fn descriptors(
    settings: &Settings,
    groups: &Groups,
    stores: &mut Vec<StoreDesc>,
    warnings: &mut Vec<(Id, String)>,
) -> Result<Vec<RedundancyDesc>> {
    let lines: Vec<_> = settings.lines(LineKind::Checkpoint).collect();
    let from_file = settings.get(keys::COPY_TYPE) == "FILE";
    if !from_file {
        if let Some(line) = lines.first() {
            let place = &line.place;
            warnings.push((
                messages::SETTING_INEFFECTIVE,
                format!(
                    "{place}: CKPT lines are ignored unless SCR_COPY_TYPE=FILE (it is {})",
                    settings.get(keys::COPY_TYPE)
                ),
            ));
        }
        let place = || place_of(settings, keys::COPY_TYPE.param.name);
        let descriptor = implied_descriptor(settings, groups, stores)
            .map_err(|what| Error::Config { place: place(), what })?;
        let failures = keys::SET_FAILURES.param.name;
        if settings.is_asked_for(failures)
            && let Some(what) = descriptor.unheeded_failures(default_failures(settings))
        {
            warnings.push((
                messages::SETTING_INEFFECTIVE,
                format!("{}: {what}", place_of(settings, failures)),
            ));
        }
        return Ok(vec![descriptor]);
    }
    let mut descriptors = Vec::new();
    for line in &lines {
        let descriptor = read(settings, groups, stores, line)
            .map_err(|what| Error::Config { place: line.place.clone(), what })?;
        let asked = line.fields.iter().find(|(key, _)| key == "SET_FAILURES");
        let asked = asked.and_then(|(_, value)| value.parse().ok());
        if let Some(what) = asked.and_then(|asked| descriptor.unheeded_failures(asked)) {
            warnings.push((messages::SETTING_INEFFECTIVE, format!("{}: {what}", line.place)));
        }
        descriptors.push((descriptor, line.place.clone()));
    }
    descriptors.sort_by_key(|(descriptor, _)| descriptor.index);
    for (expected, (descriptor, place)) in descriptors.iter().enumerate() {
        if descriptor.index != expected {
            let found = descriptor.index;
            let what = format!(
                "CKPT lines are numbered from 0 without gaps, each number once: {expected} is \
                 needed, found {found}"
            );
            return Err(Error::Config { place: place.clone(), what });
        }
    }
    let every =
        |(descriptor, _): &(RedundancyDesc, String)| descriptor.enabled && descriptor.interval == 1;
    if !descriptors.iter().any(every) {
        let place = place_of(settings, keys::COPY_TYPE.param.name);
        let what = "SCR_COPY_TYPE=FILE needs an enabled CKPT line with INTERVAL=1".to_string();
        return Err(Error::Config { place, what });
    }
    Ok(descriptors.into_iter().map(|(descriptor, _)| descriptor).collect())
}

fn place_of(settings: &Settings, name: &str) -> String {
    settings.setting(name).map(|setting| setting.origin.place.clone()).unwrap_or_default()
}

fn implied_descriptor(
    settings: &Settings,
    groups: &Groups,
    stores: &[StoreDesc],
) -> std::result::Result<RedundancyDesc, String> {
    let mut descriptor = defaults(settings, stores);
    descriptor.group = known_group(groups, &settings.get(keys::GROUP))?;
    descriptor.scheme = SchemeKind::parse(&settings.get(keys::COPY_TYPE))?;
    descriptor.settle_failures(asked_failures(settings), default_failures(settings))?;
    let store = &stores[descriptor.store];
    descriptor.bypass |= !store.mkdir;
    match store.enabled {
        true => Ok(descriptor),
        false => Err(format!("the store {} is disabled", store.base.display())),
    }
}

fn asked_failures(settings: &Settings) -> Option<usize> {
    let is_default = settings.source(keys::SET_FAILURES.param.name) == Source::Default;
    (!is_default).then(|| default_failures(settings))
}

fn default_failures(settings: &Settings) -> usize {
    usize::try_from(settings.get(keys::SET_FAILURES)).unwrap_or(usize::MAX)
}

/// As the parameters alone make it; the caller settles scheme, failures and group.
fn defaults(settings: &Settings, stores: &[StoreDesc]) -> RedundancyDesc {
    let base = settings.get(keys::CACHE_BASE);
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    RedundancyDesc {
        enabled: true,
        index: 0,
        interval: 1,
        group: settings.get(keys::GROUP),
        store: stores.iter().position(|store| store.base == base).unwrap_or(0),
        base,
        scheme: SchemeKind::Xor,
        set_size: size(settings.get(keys::SET_SIZE)),
        set_failures: 1,
        hop_distance: size(settings.get(keys::HOP_DISTANCE)),
        bypass: settings.get(keys::CACHE_BYPASS),
        output: false,
    }
}

fn read(
    settings: &Settings,
    groups: &Groups,
    stores: &mut Vec<StoreDesc>,
    line: &DescriptorLine,
) -> std::result::Result<RedundancyDesc, String> {
    let mut descriptor = defaults(settings, stores);
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    descriptor.index = size(count("CKPT", &line.subject, 0)?);
    let mut asked_failures = asked_failures(settings);
    for (key, value) in &line.fields {
        match key.as_str() {
            "INTERVAL" => descriptor.interval = count(key, value, 1)?,
            "GROUP" => descriptor.group = value.clone(),
            "STORE" => {
                descriptor.base = base_path(value)?;
                descriptor.store = find_store(settings, stores, &descriptor.base)?;
            }
            // LOCAL and others come from SchemeKind; FILE would lead back here.
            "TYPE" => descriptor.scheme = SchemeKind::parse(value)?,
            "BYPASS" => descriptor.bypass = flag(key, value)?,
            "SET_SIZE" => descriptor.set_size = size(count(key, value, 1)?),
            "SET_FAILURES" => asked_failures = Some(size(count(key, value, 1)?)),
            "OUTPUT" => descriptor.output = flag(key, value)?,
            "ENABLED" => descriptor.enabled = flag(key, value)?,
            "HOP_DISTANCE" => descriptor.hop_distance = size(count(key, value, 1)?),
            other => return Err(unknown_key("CKPT", other, &KEYS)),
        }
    }
    descriptor.settle_failures(asked_failures, default_failures(settings))?;
    descriptor.group = known_group(groups, &descriptor.group)?;
    // A disabled store disables what would use it.
    descriptor.enabled &= stores[descriptor.store].enabled;
    descriptor.bypass |= !stores[descriptor.store].mkdir;
    Ok(descriptor)
}

fn find_store(
    settings: &Settings,
    stores: &mut Vec<StoreDesc>,
    base: &std::path::Path,
) -> std::result::Result<usize, String> {
    if let Some(index) = stores.iter().position(|store| store.base == base) {
        return Ok(index);
    }
    if settings.store_bases_fixed {
        let known: Vec<_> = stores.iter().map(|store| store.base.display().to_string()).collect();
        let known = known.join(", ");
        return Err(format!("{} is no store of this system (there are {known})", base.display()));
    }
    let index = stores.len();
    stores.push(implied(settings, base.to_path_buf(), index));
    Ok(index)
}
