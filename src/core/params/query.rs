//! What a program says to SCR_Config: a setting, or the question for one.

use super::file::LineKind;
use super::resolved::Settings;
use super::{Source, find};
use crate::error::{Error, Result};

/// One call of SCR_Config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// `KEY`, or `STORE=<path> KEY`.
    Read(SettingName),
    /// `KEY=VALUE`, or a descriptor line.
    Set(String, SettingName),
    /// `KEY=`.
    Unset(SettingName),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingName {
    /// The parameter, or `GROUPS`, `STORE`, `CKPT`.
    key: String,
    /// Of a descriptor line: its subject, and the field that is asked for.
    line: Option<(String, Option<String>)>,
}

impl Query {
    /// Reads the text.
    pub fn parse(text: &str) -> Result<Query> {
        let text = text.trim();
        let Some((key, rest)) = text.split_once('=') else {
            let key = known(text)?;
            return Ok(Query::Read(SettingName { key, line: None }));
        };
        let key = known(key.trim())?;
        if LineKind::from_key(&key).is_none() {
            let asked = SettingName { key, line: None };
            return Ok(match rest.trim() {
                "" => Query::Unset(asked),
                _ => Query::Set(text.to_string(), asked),
            });
        }
        let mut words = rest.split_whitespace();
        let Some(subject) = words.next() else {
            return Ok(Query::Unset(SettingName { key, line: None }));
        };
        let line = |field: Option<&str>| Some((subject.to_string(), field.map(str::to_string)));
        match words.next_back() {
            Some(field) if !field.contains('=') => {
                Ok(Query::Read(SettingName { key, line: line(Some(field)) }))
            }
            _ => Ok(Query::Set(text.to_string(), SettingName { key, line: line(None) })),
        }
    }

    /// Returns the setting that it is about.
    #[must_use]
    pub fn of(&self) -> SettingName {
        match self {
            Query::Read(asked) | Query::Set(_, asked) | Query::Unset(asked) => asked.clone(),
        }
    }

    /// Applies it to the program's lines: a later setting replaces an earlier one of the same name;
    /// of descriptor lines the one of the same subject, whose other fields stay.
    pub fn apply(&self, lines: &mut Vec<String>) {
        let (asked, added) = match self {
            Query::Read(_) => return,
            Query::Set(text, asked) => (asked, Some(text)),
            Query::Unset(asked) => (asked, None),
        };
        let same = |line: &String| Query::parse(line).is_ok_and(|line| line.of().is_same(asked));
        let before = lines.iter().find(|line| same(line)).cloned();
        lines.retain(|line| !same(line));
        let Some(added) = added else { return };
        let line = match (before, &asked.line) {
            (Some(before), Some(_)) => merged(&before, added),
            _ => added.clone(),
        };
        lines.push(line);
    }
}

/// A descriptor line with the fields of another one of its subject; those of `added` hold.
fn merged(before: &str, added: &str) -> String {
    let key = |word: &str| word.split('=').next().unwrap_or_default().to_string();
    let new: Vec<String> = added.split_whitespace().map(key).collect();
    let kept = before.split_whitespace().filter(|word| !new.contains(&key(word)));
    let words = added.split_whitespace().chain(kept);
    words.collect::<Vec<_>>().join(" ")
}

fn known(key: &str) -> Result<String> {
    if find(key).is_none() && LineKind::from_key(key).is_none() {
        return Err(Error::Refused(super::sources::unknown(key)));
    }
    Ok(key.to_string())
}

impl SettingName {
    fn is_same(&self, other: &SettingName) -> bool {
        let subject = |asked: &SettingName| asked.line.as_ref().map(|(subject, _)| subject.clone());
        let all = other.line.is_none() && LineKind::from_key(&other.key).is_some();
        self.key == other.key && (all || subject(self) == subject(other))
    }

    #[must_use]
    pub fn find(&self, settings: &Settings) -> Option<String> {
        let Some(kind) = LineKind::from_key(&self.key) else {
            let named = find(&self.key)?;
            let name = match named.param.status {
                super::ParamStatus::Alias(other) => other.to_string(),
                _ => self.key.clone(),
            };
            let setting = settings.setting(&name)?;
            let is_set = setting.origin.source != Source::Default;
            return is_set.then(|| setting.origin.text.clone());
        };
        let (subject, field) = self.line.as_ref()?;
        let line = settings.lines(kind).find(|line| line.subject == *subject)?;
        let field = field.as_ref()?;
        let found = line.fields.iter().find(|(key, _)| key == field)?;
        Some(found.1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_and_can_be_unset() {
        let mut lines = Vec::new();
        let say = |lines: &mut Vec<String>, text: &str| Query::parse(text).unwrap().apply(lines);
        say(&mut lines, "SCR_FLUSH=3");
        say(&mut lines, "STORE=/ssd GROUP=NODE COUNT=2");
        say(&mut lines, "CKPT=0 TYPE=XOR STORE=/ssd");
        say(&mut lines, "SCR_FLUSH=5");
        say(&mut lines, "STORE=/ssd COUNT=4");
        say(&mut lines, "STORE=/ram COUNT=1");
        let expected = [
            "CKPT=0 TYPE=XOR STORE=/ssd",
            "SCR_FLUSH=5",
            "STORE=/ssd COUNT=4 GROUP=NODE",
            "STORE=/ram COUNT=1",
        ];
        assert_eq!(lines, expected);
        say(&mut lines, "SCR_FLUSH=");
        say(&mut lines, "STORE=");
        assert_eq!(lines, expected[..1]);
        let asked = Query::parse("CKPT=0 TYPE").unwrap();
        assert!(matches!(asked, Query::Read(_)), "{asked:?}");
        for wrong in ["", "SCR_FLUHS=1", "nothing"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
    }
}
