//! Settings that do nothing for want of another one: each is told of at the start.

use crate::launch::host::Door;
use crate::launch::places::site::Site;
use crate::params::{OptionalKey, Settings, Typed, keys};
use crate::records::{HaltFile, Record as _};

impl Site {
    /// Returns a sentence for each setting that does nothing. For rank 0.
    pub(crate) fn ineffective(&self) -> Vec<String> {
        let path = self.state_dir().join(HaltFile::NAME);
        // One that cannot be read is told of where it is used.
        let file = HaltFile::read(&path).ok().flatten().unwrap_or_default();
        let mut sentences = ineffective(&self.settings, self.end_time.or(file.exit_before));
        let asks = self.host.door() == Door::Calls || self.host.may_be_called();
        sentences.extend(never_asked(&self.settings).filter(|_| !asks));
        sentences
    }
}

fn never_asked(settings: &Settings) -> Option<String> {
    let names = [
        keys::CHECKPOINT_INTERVAL.param.name,
        keys::CHECKPOINT_SECONDS.param.name,
        keys::CHECKPOINT_OVERHEAD.param.name,
    ];
    let name = names.into_iter().find(|name| settings.is_asked_for(name))?;
    Some(format!(
        "{name} has no effect: the program decides when to checkpoint, it does not ask SCR"
    ))
}

/// `end`: when the allocation ends, if anything but SCR_END_TIME says so.
fn ineffective(settings: &Settings, end: Option<u64>) -> Vec<String> {
    let asked = |name: &str| settings.is_asked_for(name);
    let mut sentences = Vec::new();
    if !is_set(settings, keys::WATCHDOG_TIMEOUT) {
        let switch = settings.get(keys::WATCHDOG) && asked(keys::WATCHDOG.param.name);
        let limit = asked(keys::WATCHDOG_TIMEOUT_PFS.param.name);
        let names = [(switch, "SCR_WATCHDOG=1"), (limit, "SCR_WATCHDOG_TIMEOUT_PFS")];
        if let Some((_, name)) = names.iter().find(|(is_set, _)| *is_set) {
            sentences.push(format!(
                "{name} has no effect without SCR_WATCHDOG_TIMEOUT, the seconds without a \
                 checkpoint after which a run is killed"
            ));
        }
    }
    let seconds = keys::HALT_SECONDS;
    let no_end = end.is_none() && !is_set(settings, keys::END_TIME);
    if no_end && asked(seconds.param.name) && !settings.get(seconds).is_zero() {
        sentences.push(
            "SCR_HALT_SECONDS has no effect: nothing says when the allocation ends. Set \
             SCR_END_TIME (seconds since 1970), or ExitBefore in the halt file"
                .to_string(),
        );
    }
    sentences
}

fn is_set<T: Typed>(settings: &Settings, key: OptionalKey<T>) -> bool {
    settings.get_optional(key).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)], end: Option<u64>) -> Vec<String> {
        let mut settings = Settings::defaults(std::path::Path::new("/"));
        pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        ineffective(&settings, end)
    }

    #[test]
    fn each_lack_is_told_of_and_nothing_else() {
        let seconds = ("SCR_HALT_SECONDS", "60");
        let (watch, limit) = (("SCR_WATCHDOG", "1"), ("SCR_WATCHDOG_TIMEOUT", "5"));
        let on_prefix = ("SCR_WATCHDOG_TIMEOUT_PFS", "5");
        for (lacking, made_good) in [
            (vec![seconds], ("SCR_END_TIME", "1000")),
            (vec![watch], limit),
            (vec![on_prefix], limit),
            (vec![watch, on_prefix], limit),
        ] {
            let sentences = told(&lacking, None);
            let name = lacking[0].0;
            assert!(sentences.len() == 1 && sentences[0].contains(name), "{name}: {sentences:?}");
            let with = [lacking, vec![made_good]].concat();
            assert_eq!(told(&with, None), [""; 0], "{with:?}");
        }
        assert_eq!(told(&[seconds], Some(1000)), [""; 0]);
        assert_eq!(told(&[("SCR_WATCHDOG", "0"), ("SCR_HALT_SECONDS", "0")], None), [""; 0]);
    }
}
