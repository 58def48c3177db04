//! How a program names what it renames later: learned from one rename, applied to the next. To be
//! routed to the right place when it is *created*, a file has to be known by its temporary name.

use regex::{Captures, Match, Regex};

use super::loose::{is_random, is_word, loose, says_temporary};

/// How the files of a series are called before they have their names.
///
/// Learn only from names that are not in a series themselves: a rename of `state` to `state_prev`
/// is a rotation, not the end of writing.
#[derive(Debug, Clone)]
pub struct Template {
    /// Components that both names have behind the one that differs.
    trailing: usize,
    change: NameChange,
    /// What its groups `head` and `tail` match stays, other groups are random.
    regex: Regex,
    /// A word says that the name is temporary, so that nothing has to look random.
    is_said: bool,
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        (self.trailing, &self.change) == (other.trailing, &other.change)
    }
}

impl Eq for Template {}

/// What becomes of the component that differs. In all texts but the final name, numbers and random
/// parts may be others (`loose.rs`).
#[derive(Debug, Clone, PartialEq, Eq)]
enum NameChange {
    /// It loses what stands around the final name.
    Strip { before: String, after: String },
    /// Its end becomes another.
    Suffix { from: String, to: String },
    /// Its beginning becomes another.
    Prefix { from: String, to: String },
    /// It loses what stands inside: `state_step100.cpt` becomes `state.cpt`.
    Cut(String),
    /// The directory goes away: `tmp/x` becomes `x`.
    Leave(String),
    /// The whole path, which is a temporary one by its looks, shows nothing of the final name.
    Shape(String),
}

impl Template {
    fn new(trailing: usize, change: NameChange) -> Option<Template> {
        let (regex, own) = match &change {
            NameChange::Strip { before, after } => {
                let regex = format!("^{}(?<head>.+?){}$", loose(before), loose(after));
                (regex, format!("{before}/{after}"))
            }
            NameChange::Cut(inside) => {
                (format!("^(?<head>.+?){}(?<tail>.+)$", loose(inside)), inside.clone())
            }
            NameChange::Suffix { from, .. } => {
                (format!("^(?<head>.+){}$", loose(from)), from.clone())
            }
            NameChange::Prefix { from, .. } => {
                (format!("^{}(?<tail>.+)$", loose(from)), from.clone())
            }
            NameChange::Leave(text) | NameChange::Shape(text) => {
                (format!("^{}$", loose(text)), text.clone())
            }
        };
        let regex = Regex::new(&regex).ok()?;
        Some(Template { trailing, change, regex, is_said: says_temporary(&own) })
    }

    /// Learns from a rename of `temporary` to `last`, relative to the prefix. `None` if nothing
    /// in the temporary name shows that it is one.
    pub fn learn(temporary: &str, last: &str) -> Option<Template> {
        // A tab would end a field of the text form.
        if temporary.is_empty() || temporary.contains('\t') || last.contains('\t') {
            return None;
        }
        // Only what gives back its own example can be trusted with others.
        let fits = |template: &Template| template.final_name(temporary).as_deref() == Some(last);
        let own = own_part(temporary, last);
        let looks_so = |shape: &Template| {
            (says_temporary(&own) || is_random(&own))
                && shape.covers(temporary)
                && !shape.covers(last)
        };
        let shape = || Template::new(0, NameChange::Shape(temporary.to_string())).filter(looks_so);
        learn_relation(temporary, last).filter(fits).or_else(shape)
    }

    /// Returns `None` if the template is not for `temporary`, or the final name cannot be
    /// foreseen. Whether that belongs to a series is for the caller to see.
    pub fn final_name(&self, temporary: &str) -> Option<String> {
        let mut parts: Vec<&str> = temporary.split('/').collect();
        let at = parts.len().checked_sub(self.trailing + 1)?;
        let (front, back) = match &self.change {
            NameChange::Shape(_) => return None,
            NameChange::Leave(_) => {
                let leaves = self.trailing > 0 && self.matches(parts[at]).is_some();
                parts.remove(at);
                return leaves.then(|| parts.join("/"));
            }
            NameChange::Strip { .. } | NameChange::Cut(_) => ("", ""),
            NameChange::Suffix { to, .. } => ("", to.as_str()),
            NameChange::Prefix { to, .. } => (to.as_str(), ""),
        };
        let found = self.matches(parts[at])?;
        let kept = |name| found.name(name).map_or("", |part| part.as_str());
        let changed = format!("{front}{}{}{back}", kept("head"), kept("tail"));
        parts[at] = &changed;
        Some(parts.join("/"))
    }

    /// A word where the example had something random is no temporary name: `x.checksum`.
    fn matches<'a>(&self, text: &'a str) -> Option<Captures<'a>> {
        let found = self.regex.captures(text)?;
        let names = self.regex.capture_names().skip(1);
        let mut random = found.iter().skip(1).zip(names).filter(|(_, name)| name.is_none());
        let looks_so = |part: Option<Match<'_>>| part.is_none_or(|part| !is_word(part.as_str()));
        (self.is_said || random.all(|(part, _)| looks_so(part))).then_some(found)
    }

    /// Tells whether a file called `temporary` will get a name that cannot be foreseen.
    pub fn covers(&self, temporary: &str) -> bool {
        matches!(self.change, NameChange::Shape(_)) && self.matches(temporary).is_some()
    }

    /// Tells whether a rename of `temporary` to `last` shows nothing that this does not say.
    pub fn explains(&self, temporary: &str, last: &str) -> bool {
        self.covers(temporary) || self.final_name(temporary).as_deref() == Some(last)
    }

    /// Tells whether final names are part of the temporary ones.
    pub fn strips(&self) -> bool {
        matches!(self.change, NameChange::Strip { .. } | NameChange::Cut(_) | NameChange::Leave(_))
    }

    /// Returns one line without tabs in its fields, for the record of what was learned.
    pub fn to_text(&self) -> String {
        let (kind, one, other) = match &self.change {
            NameChange::Strip { before, after } => ("strip", before.as_str(), after.as_str()),
            NameChange::Suffix { from, to } => ("suffix", from.as_str(), to.as_str()),
            NameChange::Prefix { from, to } => ("prefix", from.as_str(), to.as_str()),
            NameChange::Cut(inside) => ("cut", inside.as_str(), ""),
            NameChange::Leave(directory) => ("leave", directory.as_str(), ""),
            NameChange::Shape(path) => ("shape", path.as_str(), ""),
        };
        format!("{}\t{kind}\t{one}\t{other}", self.trailing)
    }

    pub fn from_text(text: &str) -> Option<Template> {
        let fields: Vec<&str> = text.split('\t').collect();
        let [trailing, kind, one, other] = fields[..] else { return None };
        let (one, other) = (one.to_string(), other.to_string());
        let change = match kind {
            "strip" => NameChange::Strip { before: one, after: other },
            "suffix" => NameChange::Suffix { from: one, to: other },
            "prefix" => NameChange::Prefix { from: one, to: other },
            "cut" => NameChange::Cut(one),
            "leave" => NameChange::Leave(one),
            "shape" => NameChange::Shape(one),
            _ => return None,
        };
        Template::new(trailing.parse().ok()?, change)
    }
}

fn learn_relation(temporary: &str, last: &str) -> Option<Template> {
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
            NameChange::Leave(temporary_parts[at].to_string())
        }
        _ => return None,
    };
    Template::new(trailing, change)
}

fn own_part(temporary: &str, last: &str) -> String {
    let shared: Vec<&str> = last.split('/').collect();
    let own = temporary.split('/').filter(|part| !shared.contains(part));
    own.collect::<Vec<_>>().join("/")
}

fn learn_component(temporary: &str, last: &str) -> Option<NameChange> {
    if let Some(at) = temporary.find(last) {
        let before = temporary[..at].to_string();
        let after = temporary[at + last.len()..].to_string();
        return Some(NameChange::Strip { before, after });
    }
    if let Some(cut) = learn_cut(temporary, last) {
        return Some(cut);
    }
    let at_end = common_prefix(temporary, last);
    let at_begin = common_suffix(temporary, last);
    let is_end = at_end >= at_begin;
    let (from, to) = match is_end {
        true => (&temporary[at_end..], &last[at_end..]),
        false => (&temporary[..temporary.len() - at_begin], &last[..last.len() - at_begin]),
    };
    let (from, to) = (from.to_string(), to.to_string());
    // Digits that only the final name has are a step or a rank: they cannot be foreseen.
    let foreseeable = !to.bytes().any(|byte| byte.is_ascii_digit());
    if at_end.max(at_begin) == 0 || from.is_empty() || !foreseeable {
        return None;
    }
    Some(if is_end { NameChange::Suffix { from, to } } else { NameChange::Prefix { from, to } })
}

/// What stands inside begins with a separator: a name is not a longer number's.
fn learn_cut(temporary: &str, last: &str) -> Option<NameChange> {
    let added = temporary.len().checked_sub(last.len())?;
    let equal = temporary.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
    let inside = temporary.get(equal..equal + added)?;
    let fits = temporary.get(equal + added..) == last.get(equal..);
    let is_part = inside.bytes().next().is_some_and(is_separator) && !last[..equal].is_empty();
    (fits && is_part).then(|| NameChange::Cut(inside.to_string()))
}

/// Bytes of the longest common beginning that ends at a separator, so that `.tmp` and `.dat` are
/// exchanged whole.
fn common_prefix(one: &str, other: &str) -> usize {
    let equal = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one.as_bytes()[..equal].iter().rposition(|byte| is_separator(*byte)).unwrap_or(0)
}

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
            ("c/tmpk3_9a1xz/s", "c/s", "c/tmpabcdefg7/t", Some("c/t")),
            ("c/x.9c2fe01b77aa4d10.partial", "c/x", "c/y.00aa4d109c2fe01b.partial", Some("c/y")),
            ("c/x.9c2fe01b.partial", "c/x.json", "c/y.00aa4d10.partial", Some("c/y.json")),
            ("c/9c2fe01b.x", "c/new.x", "c/00aa4d10.y", Some("c/new.y")),
            ("c/x.n7.4711.tmp", "c/x", "c/y.n12.3.tmp", Some("c/y")),
            ("c/r_3.dat.tmp", "c/r_3.dat", "c/r_3.dat", None),
        ] {
            let template = Template::learn(temporary, last).expect(temporary);
            assert_eq!(template.final_name(next).as_deref(), expected, "{template:?}");
            assert_eq!(Template::from_text(&template.to_text()), Some(template));
        }
    }

    #[test]
    fn what_shows_nothing_of_the_final_name_is_known_by_its_looks() {
        for (temporary, last, next, other) in [
            ("c/tmpk3_9a1xz", "c/s_10", "c/tmpabcdefgh", "c/tmpabcdefgh.x"),
            ("c/s_10/tmp12345678", "c/s_10/r_3", "c/s_20/tmpabcdefgh", "c/s_20/r_4"),
            ("tmp/9c2fe01b77aa4d10", "c/s_10/r_3", "tmp/00aa4d109c2fe01b", "tmp/header"),
            ("stage/r_3", "c/s_10/r_3", "stage/r_11", "stage/r_a"),
            ("tmp.dat", "ckpt_10.dat", "tmp.dat", "ckpt_20.dat"),
            ("ckpt.tmp", "ckpt.10", "ckpt.tmp", "ckpt.20"),
        ] {
            let template = Template::learn(temporary, last).expect(temporary);
            let covered = [temporary, next, other, last].map(|name| template.covers(name));
            assert_eq!(covered, [true, true, false, false], "{template:?}");
            assert!(template.explains(next, last) && template.final_name(temporary).is_none());
            assert_eq!(Template::from_text(&template.to_text()), Some(template));
        }
    }

    #[test]
    fn what_does_not_follow_is_not_learned() {
        for (temporary, last) in [
            ("out.dat", "ckpt_10.dat"),
            ("ckpt.out", "ckpt.10"),
            ("a/b", "c/d"),
            ("data/header", "ckpt/header"),
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
            let unlearnable =
                ["out.dat", "ckpt.out", "a/b", "x", "a/b/c", "", "r_11.dat", "data/header"];
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
                prop_assert!(template.explains(&one, &other));
                prop_assert!(!template.covers(&other) && !template.explains(&other, &one));
                prop_assert_eq!(Template::from_text(&template.to_text()), Some(template));
            }
            let _ = Template::from_text(&one);
        }

        #[test]
        fn what_is_random_is_learned_from_one_and_fits_no_final_name(
            hex in "[0-9a-f]{32}", next in "[0-9a-f]{32}", word in "[a-z0-9_]{8}",
            uuid in "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", rank in 0..99u32, step in 0..99u32,
        ) {
            prop_assume!(hex.contains(char::is_alphabetic) && hex.contains(char::is_numeric));
            let last = format!("c/s_{step}/r_{rank}.dat");
            let other = format!("c/s_{rank}/r_{step}.dat");
            for (one, then) in [
                (format!("{last}.{hex}.partial"), format!("{other}.{next}.partial")),
                (format!("{last}-{uuid}"), format!("{other}-{uuid}")),
                (format!("c/s_{step}/tmp{word}"), format!("c/s_{rank}/tmp{}", &next[..8])),
                (format!("c/s_{step}/r_{rank}.{hex}.x"), format!("c/s_{rank}/r_{step}.{next}.x")),
            ] {
                let template = Template::learn(&one, &last).expect("a template");
                prop_assert!(template.explains(&then, &other), "{:?} {}", template, then);
                for name in [&last, &other] {
                    prop_assert!(!template.covers(name));
                    prop_assert!(template.final_name(name).is_none(), "{:?}", template);
                }
            }
        }
    }
}
