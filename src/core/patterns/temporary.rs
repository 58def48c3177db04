//! How a program names what it renames later: learned from one rename, applied to the next.
//!
//! A file renamed onto a matching name belongs to that dataset; to be routed to the right place
//! when it is *created*, its final name has to be known from its temporary one.

use regex::Regex;

/// A relation between temporary and final names.
///
/// Learn only from names that are not in a series themselves: a rename of `state` to `state_prev`
/// is a rotation, not the end of writing.
#[derive(Debug, Clone)]
pub struct Template {
    /// Components that both names have behind the one that differs.
    trailing: usize,
    change: Change,
    /// Compiled from [`Change::Strip`] or [`Change::Cut`]: what its groups match stays.
    strip: Option<Regex>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        (self.trailing, &self.change) == (other.trailing, &other.change)
    }
}

impl Eq for Template {}

/// What becomes of the component that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// It loses what stands around the final name. Runs of digits (a process id) match any digits,
    /// and so do random names as mkstemp makes them.
    Strip {
        /// Before the final name.
        before: String,
        /// After it.
        after: String,
    },
    /// Its end becomes another.
    Suffix {
        /// The temporary's.
        from: String,
        /// The final name's.
        to: String,
    },
    /// Its beginning becomes another.
    Prefix {
        /// The temporary's.
        from: String,
        /// The final name's.
        to: String,
    },
    /// It loses what stands inside: `state_step100.cpt` becomes `state.cpt`. As for
    /// [`Change::Strip`], digits are any digits.
    Cut(String),
    /// The directory goes away: `tmp/x` becomes `x`.
    Leave(String),
}

impl Template {
    fn new(trailing: usize, change: Change) -> Option<Template> {
        let regex = match &change {
            Change::Strip { before, after } => {
                Some(format!("^{}(.+?)(){}$", loose(before), loose(after)))
            }
            Change::Cut(inside) => Some(format!("^(.+?){}(.+)$", loose(inside))),
            Change::Suffix { .. } | Change::Prefix { .. } | Change::Leave(_) => None,
        };
        let strip = regex.map(|regex| Regex::new(&regex)).transpose().ok()?;
        Some(Template { trailing, change, strip })
    }

    /// Learns from a rename of `temporary` to `last` (paths relative to the prefix). `None` if the
    /// final name does not follow from the temporary one.
    #[must_use]
    pub fn learn(temporary: &str, last: &str) -> Option<Template> {
        let temporary_parts: Vec<&str> = temporary.split('/').collect();
        let last_parts: Vec<&str> = last.split('/').collect();
        let pairs = || temporary_parts.iter().rev().zip(last_parts.iter().rev());
        let trailing = pairs().take_while(|(one, other)| one == other).count();
        let leading = temporary_parts.iter().zip(&last_parts).take_while(|(a, b)| a == b).count();
        let change = match temporary_parts.len().checked_sub(last_parts.len())? {
            0 if leading + trailing + 1 == temporary_parts.len() => {
                learn_component(temporary_parts[leading], last_parts[leading])?
            }
            1 if leading + trailing >= last_parts.len() && trailing > 0 => {
                let at = temporary_parts.len() - trailing - 1;
                Change::Leave(temporary_parts[at].to_string())
            }
            _ => return None,
        };
        let template = Template::new(trailing, change)?;
        // Only what gives back its own example can be trusted with others.
        (template.final_name(temporary).as_deref() == Some(last)).then_some(template)
    }

    /// Finds the final name of a file called `temporary`; `None` if the template is not for it.
    /// Whether the result belongs to a series is for the caller to see.
    #[must_use]
    pub fn final_name(&self, temporary: &str) -> Option<String> {
        let mut parts: Vec<&str> = temporary.split('/').collect();
        let at = parts.len().checked_sub(self.trailing + 1)?;
        let part = parts[at];
        let changed = match &self.change {
            Change::Strip { .. } | Change::Cut(_) => {
                let kept = self.strip.as_ref()?.captures(part)?;
                format!("{}{}", &kept[1], &kept[2])
            }
            Change::Suffix { from, to } => format!("{}{to}", nonempty(part.strip_suffix(from)?)?),
            Change::Prefix { from, to } => format!("{to}{}", nonempty(part.strip_prefix(from)?)?),
            Change::Leave(directory) => {
                if part != directory || self.trailing == 0 {
                    return None;
                }
                parts.remove(at);
                return Some(parts.join("/"));
            }
        };
        parts[at] = &changed;
        Some(parts.join("/"))
    }

    /// Tells whether final names are part of the temporary ones.
    #[must_use]
    pub fn strips(&self) -> bool {
        matches!(self.change, Change::Strip { .. } | Change::Cut(_) | Change::Leave(_))
    }

    /// Writes it as one line without tabs in its fields, for the record of what was learned.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (kind, one, other) = match &self.change {
            Change::Strip { before, after } => ("strip", before.as_str(), after.as_str()),
            Change::Suffix { from, to } => ("suffix", from.as_str(), to.as_str()),
            Change::Prefix { from, to } => ("prefix", from.as_str(), to.as_str()),
            Change::Cut(inside) => ("cut", inside.as_str(), ""),
            Change::Leave(directory) => ("leave", directory.as_str(), ""),
        };
        format!("{}\t{kind}\t{one}\t{other}", self.trailing)
    }

    /// Reads what [`Template::to_text`] writes; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Template> {
        let fields: Vec<&str> = text.split('\t').collect();
        let [trailing, kind, one, other] = fields[..] else { return None };
        let (one, other) = (one.to_string(), other.to_string());
        let change = match kind {
            "strip" => Change::Strip { before: one, after: other },
            "suffix" => Change::Suffix { from: one, to: other },
            "prefix" => Change::Prefix { from: one, to: other },
            "cut" => Change::Cut(one),
            "leave" => Change::Leave(one),
            _ => return None,
        };
        Template::new(trailing.parse().ok()?, change)
    }
}

fn nonempty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn learn_component(temporary: &str, last: &str) -> Option<Change> {
    // A tab would end a field of the text form.
    if temporary.contains('\t') || last.contains('\t') {
        return None;
    }
    if let Some(at) = temporary.find(last) {
        let before = temporary[..at].to_string();
        let after = temporary[at + last.len()..].to_string();
        return Some(Change::Strip { before, after });
    }
    let suffix = {
        let common = common_prefix(temporary, last);
        (temporary[common..].to_string(), last[common..].to_string(), common)
    };
    let prefix = {
        let common = common_suffix(temporary, last);
        let cut = |text: &str| text[..text.len() - common].to_string();
        (cut(temporary), cut(last), common)
    };
    // Digits that only the final name has are a step or a rank: they cannot be foreseen.
    let foreseeable = |to: &str| !to.bytes().any(|byte| byte.is_ascii_digit());
    let ((from, to, common), at_end) =
        if suffix.2 >= prefix.2 { (suffix, true) } else { (prefix, false) };
    if common == 0 || from.is_empty() || !foreseeable(&to) || !foreseeable(&from) {
        return learn_cut(temporary, last);
    }
    Some(if at_end { Change::Suffix { from, to } } else { Change::Prefix { from, to } })
}

/// What stands inside begins with a separator: a name is not a longer number's.
fn learn_cut(temporary: &str, last: &str) -> Option<Change> {
    let added = temporary.len().checked_sub(last.len())?;
    let equal = temporary.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
    let inside = temporary.get(equal..equal + added)?;
    let fits = temporary.get(equal + added..) == last.get(equal..);
    let is_part = inside.bytes().next().is_some_and(is_separator) && !last[..equal].is_empty();
    (fits && is_part).then(|| Change::Cut(inside.to_string()))
}

/// Bytes of the longest common beginning that ends at a separator, so that `.tmp` and `.dat` are
/// exchanged whole.
fn common_prefix(one: &str, other: &str) -> usize {
    let equal = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one.as_bytes()[..equal].iter().rposition(|byte| is_separator(*byte)).unwrap_or(0)
}

/// The same for endings.
fn common_suffix(one: &str, other: &str) -> usize {
    let equal = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let start = one.len() - equal;
    one.as_bytes()[start..]
        .iter()
        .position(|byte| is_separator(*byte))
        .map_or(0, |at| equal - at - 1)
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'.' | b'_' | b'-' | b'~' | b'#')
}

/// A regular expression for `text` in which digits and random names may be others.
fn loose(text: &str) -> String {
    let mut regex = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let alphanumeric = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if alphanumeric == 0 {
            regex.push_str(&regex::escape(&rest[..first.len_utf8()]));
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (run, after) = rest.split_at(alphanumeric);
        regex.push_str(&loose_run(run));
        rest = after;
    }
    regex
}

/// `tmp` stays, `tmp123` becomes `tmp[0-9]+`, `k3XqZb` any name of that length.
fn loose_run(run: &str) -> String {
    let mixed = |test: fn(&char) -> bool| run.chars().any(|c| test(&c));
    let lower = mixed(char::is_ascii_lowercase);
    let upper = mixed(char::is_ascii_uppercase);
    let changes = run.as_bytes().windows(2).filter(|pair| {
        pair[0].is_ascii_digit() != pair[1].is_ascii_digit()
            || pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase()
            || pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()
    });
    const RANDOM_CHARACTERS_MIN: usize = 6;
    if run.len() >= RANDOM_CHARACTERS_MIN && lower && upper && changes.count() >= 2 {
        return format!("[0-9A-Za-z]{{{}}}", run.len());
    }
    let mut regex = String::new();
    let mut in_digits = false;
    for character in run.chars() {
        if !character.is_ascii_digit() {
            regex.push(character);
        } else if !in_digits {
            regex.push_str("[0-9]+");
        }
        in_digits = character.is_ascii_digit();
    }
    regex
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_one_rename_shows_holds_for_the_next() {
        for (temporary, last, next, expected) in [
            ("c/r_3.dat.tmp", "c/r_3.dat", "c/r_14.dat.tmp", Some("c/r_14.dat")),
            ("c/.r_3.dat.812", "c/r_3.dat", "d/.r_4.dat.90133", Some("d/r_4.dat")),
            ("c/x.k3XqZb", "c/x", "c/y.Ab9dEf", Some("c/y")),
            ("c/tmp_r3", "c/r3", "c/tmp_r4", Some("c/r4")),
            ("c/r_3.tmp", "c/r_3.dat", "c/r_4.tmp", Some("c/r_4.dat")),
            ("c/new-3.dat", "c/state-3.dat", "c/new-4.dat", Some("c/state-4.dat")),
            ("c/state_step100.cpt", "c/state.cpt", "c/state_step2750.cpt", Some("c/state.cpt")),
            ("c/r_3.new.dat", "c/r_3.dat", "c/r_4.new.dat", Some("c/r_4.dat")),
            ("c/state_step100.cpt", "c/state.cpt", "c/state_prev.cpt", None),
            ("c/s_10.tmp/r_3", "c/s_10/r_3", "c/s_20.tmp/r_3", Some("c/s_20/r_3")),
            ("c/tmp/s_10", "c/s_10", "c/tmp/s_20", Some("c/s_20")),
            ("c/r_3.dat.tmp", "c/r_3.dat", "c/r_3.dat", None),
        ] {
            let template = Template::learn(temporary, last).expect(temporary);
            assert_eq!(template.final_name(next).as_deref(), expected, "{template:?}");
            assert_eq!(Template::from_text(&template.to_text()), Some(template));
        }
    }

    #[test]
    fn what_does_not_follow_is_not_learned() {
        for (temporary, last) in [
            ("tmp.dat", "ckpt_10.dat"),
            ("ckpt.tmp", "ckpt.10"),
            ("a/b", "c/d"),
            ("x", "x"),
            ("state.cpt", "state_prev.cpt"),
            ("r_11.dat", "r_1.dat"),
            ("a/b/c", "d"),
            ("", "x"),
        ] {
            let template = Template::learn(temporary, last);
            // A rule may be found where the name alone cannot tell; it then has to hold.
            if let Some(template) = &template {
                assert_eq!(template.final_name(temporary).as_deref(), Some(last));
            }
            let unlearnable = ["tmp.dat", "ckpt.tmp", "a/b", "x", "a/b/c", "", "r_11.dat"];
            assert_eq!(template.is_none(), unlearnable.contains(&temporary), "{template:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_names_are_learned_right_or_not_at_all(
            one in "[ab1./_]{0,10}|\\PC{0,10}", other in "[ab1./_]{0,10}|\\PC{0,10}",
        ) {
            if let Some(template) = Template::learn(&one, &other) {
                prop_assert_eq!(template.final_name(&one), Some(other));
                prop_assert_eq!(Template::from_text(&template.to_text()), Some(template));
            }
            let _ = Template::from_text(&one);
        }
    }
}
