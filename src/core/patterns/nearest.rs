//! Why nothing matched: the written name that came nearest to a pattern, and what differed. For a
//! person whose patterns protect nothing, so what is proposed has been tried on the name.

use regex::Regex;

use super::alternative::Alternative;
use super::glob;
use super::series::SeriesSet;
use crate::params::similarity;

/// What a component costs that only one of pattern and name has; one that differs costs up to 1.
const LACK: f64 = 0.7;

/// Scores of names that a slight change of the pattern, which can be named, would match.
const NAMED: u32 = 900;

/// Placeholders that other tools would fill in: printf's, `<step>`, `@step@`, `####`.
const PLACEHOLDER: &str = "%[-+ 0#]*[0-9]*(?:[.][0-9]+)?(?:hh?|ll?|z|j)?[diouxXeEfFgGs]\
                           |<[A-Za-z_]+>|@[A-Za-z_]+@|##+";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// Up to 1000.
    pub score: u32,
    /// Names the name and the pattern, and what differs.
    pub text: String,
}

impl SeriesSet {
    /// Finds, of names that no pattern matches, relative to the prefix, the one that comes
    /// nearest to a pattern.
    pub fn nearest<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<Nearest> {
        let mut best: Option<Nearest> = None;
        for name in names {
            for alternative in self.alternatives() {
                let (score, differs) = match self.takes(alternative, name) {
                    true if self.ignores(name) => (1000, "but SCR_IGNORE_PATTERN does, too".into()),
                    true => (1000, "but its ids differ from one another".into()),
                    false => compare(alternative, name),
                };
                if best.as_ref().is_none_or(|best| best.score < score) {
                    let pattern = &alternative.text;
                    let verb = if score == 1000 { "matches it, " } else { "" };
                    let text = format!("{name} was written; pattern {pattern} {verb}{differs}");
                    best = Some(Nearest { score, text });
                }
            }
        }
        best
    }

    /// Returns a sentence for each pattern with a placeholder of another tool, which stands for
    /// itself.
    pub fn placeholders(&self) -> Vec<String> {
        let Ok(placeholder) = Regex::new(PLACEHOLDER) else { return Vec::new() };
        let globs = self.alternatives().iter().filter(|one| one.components.is_some());
        globs
            .filter_map(|one| {
                let found = placeholder.find(&one.text)?.as_str();
                Some(format!("pattern {} {}", one.text, stands_for_itself(found)))
            })
            .collect()
    }
}

fn compare(alternative: &Alternative, name: &str) -> (u32, String) {
    let Some(components) = &alternative.components else {
        let plain: String = alternative.text.replace(|c| "\\^$.|?*+()[]{}".contains(c), "");
        let near = similarity(&masked(&plain), &masked(name));
        return ((near * 400.0) as u32, "is a regular expression that does not match it".into());
    };
    if let Some(change) = named_change(&alternative.parts, &alternative.text, name) {
        return (NAMED, change);
    }
    align(&alternative.parts, components, name)
}

fn named_change(parts: &[String], text: &str, name: &str) -> Option<String> {
    let glob = |parts: &[String]| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let regex = glob::compile(&parts).ok()?.regex;
        Regex::new(&format!("^(?s:{regex})$")).ok()
    };
    let matches = |parts: &[String]| glob(parts).is_some_and(|regex| regex.is_match(name));
    let each = |change: &dyn Fn(&str) -> String| -> Vec<String> {
        parts.iter().map(|part| change(part)).collect()
    };
    let any = ["**".to_string()];
    let placeholder = Regex::new(PLACEHOLDER).ok()?;
    if let Some(found) = placeholder.find(text)
        && matches(&each(&|part| placeholder.replace_all(part, "*").into_owned()))
    {
        return Some(stands_for_itself(found.as_str()));
    }
    let expression = Regex::new(&format!("^(?:{text})$"));
    if expression.is_ok_and(|expression| expression.is_match(name)) {
        return Some(format!("is a glob, not a regular expression: as re:{text} it would match"));
    }
    let regex = glob(parts)?;
    if Regex::new(&format!("(?i){}", regex.as_str())).is_ok_and(|regex| regex.is_match(name)) {
        return Some("differs in upper and lower case".into());
    }
    if matches(&[&any, parts].concat()) {
        return Some(format!("lacks its directories: **/{text} would match"));
    }
    if matches(&[parts, &any].concat()) {
        let text = text.trim_end_matches('/');
        return Some(format!("names a directory: {text}/** would match what is in it"));
    }
    for (capture, takes) in
        [("{id}", "takes digits, and -.:+_eET between them"), ("{rank}", "takes digits")]
    {
        if text.contains(capture) && matches(&each(&|part| part.replace(capture, "{name}"))) {
            return Some(format!("does not match: {capture} {takes}"));
        }
    }
    let last = parts.len().checked_sub(1)?;
    let mut longer = parts.to_vec();
    longer[last].push('*');
    if matches(&longer) {
        return Some(format!("ends before the name does: {text}* would match"));
    }
    None
}

fn stands_for_itself(placeholder: &str) -> String {
    format!(
        "has {placeholder}, which stands for itself: write {{id}} for a checkpoint's number, \
         {{rank}} for a writer's, * for anything"
    )
}

fn align(parts: &[String], components: &[Option<Regex>], name: &str) -> (u32, String) {
    let names: Vec<&str> = name.split('/').collect();
    let (rows, columns) = (parts.len(), names.len());
    let differs = |row: usize, column: usize| match &components[row] {
        Some(regex) if regex.is_match(names[column]) => 0.0,
        Some(_) => 1.0 - similarity(&masked(&bare(&parts[row])), &masked(names[column])),
        None => 0.0,
    };
    let lack = |row: usize| if components[row].is_none() { 0.0 } else { LACK };
    // Cost of what is behind each pair of places, filled from the ends.
    let mut cost = vec![vec![0.0; columns + 1]; rows + 1];
    for column in (0..columns).rev() {
        cost[rows][column] = cost[rows][column + 1] + LACK;
    }
    for row in (0..rows).rev() {
        cost[row][columns] = cost[row + 1][columns] + lack(row);
        for column in (0..columns).rev() {
            let any: f64 = if components[row].is_none() { cost[row][column + 1] } else { f64::MAX };
            cost[row][column] = (cost[row + 1][column + 1] + differs(row, column))
                .min(cost[row + 1][column] + lack(row))
                .min(cost[row][column + 1] + LACK)
                .min(any);
        }
    }
    let mut differences = Vec::new();
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        let same = |one: f64| (cost[row][column] - one).abs() < 1e-9;
        if row < rows && column < columns {
            if components[row].is_none() && same(cost[row][column + 1]) {
                column += 1;
                continue;
            }
            if same(cost[row + 1][column + 1] + differs(row, column)) {
                if differs(row, column) > 0.0 {
                    let (part, name) = (&parts[row], names[column]);
                    differences.push(format!("has {part} where the name has {name}"));
                }
                (row, column) = (row + 1, column + 1);
                continue;
            }
        }
        if row < rows && same(cost[row + 1][column] + lack(row)) {
            if lack(row) > 0.0 {
                differences.push(match row + 1 < rows {
                    true => format!("has a directory {} there", parts[row]),
                    false => format!("goes on with /{}", parts[row]),
                });
            }
            row += 1;
            continue;
        }
        differences.push(match column + 1 < columns {
            true => format!("has no directory {}", names[column]),
            false => format!("ends before /{}", names[column]),
        });
        column += 1;
    }
    let share = cost[0][0] / rows.max(columns).max(1) as f64;
    let score = ((1.0 - share).max(0.0) * f64::from(NAMED - 1)) as u32;
    differences.truncate(2);
    (score, differences.join(" and "))
}

fn bare(part: &str) -> String {
    let part = part.replace("{id}", "0").replace("{rank}", "0").replace("{name}", "");
    part.replace(['*', '?', '\\'], "")
}

/// Writes each number of a name as one `#`: numbers differ between names of a kind.
pub fn masked(name: &str) -> String {
    let mut masked = String::with_capacity(name.len());
    for character in name.chars() {
        match character.is_ascii_digit() {
            true if masked.ends_with('#') => {}
            true => masked.push('#'),
            false => masked.push(character),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::super::{PatternConfig, PatternText};
    use super::*;
    use proptest::prelude::*;

    fn set(patterns: &str, ignore: &str) -> SeriesSet {
        let text = |name: &str, text: &str| PatternText {
            name: name.to_string(),
            place: String::new(),
            text: text.to_string(),
        };
        let config = PatternConfig {
            prefix: "/p".into(),
            checkpoint: vec![text("SCR_CHECKPOINT_PATTERN", patterns)],
            ignore: vec![text("SCR_IGNORE_PATTERN", ignore)],
            ..PatternConfig::default()
        };
        SeriesSet::new(&config).expect(patterns)
    }

    #[test]
    fn what_differs_is_named() {
        for (pattern, name, told) in [
            ("ckpt/step_{id}/*.dat", "ckpt/step_10.dat", "has a directory step_{id} there"),
            ("step_{id}.dat", "run/step_10.dat", "**/step_{id}.dat would match"),
            ("ckpt/step_%d.dat", "ckpt/step_10.dat", "has %d, which stands for itself"),
            ("ckpt/s%06d_%04d.dat", "ckpt/s000010_0001.dat", "has %06d, which stands for itself"),
            ("ckpt/<step>.dat", "ckpt/10.dat", "has <step>, which stands for itself"),
            ("ckpt/step_[0-9]+/.*", "ckpt/step_10/a", "as re:ckpt/step_[0-9]+/.* it would match"),
            ("Ckpt/{id}", "ckpt/10", "upper and lower case"),
            ("ckpt/{id}", "ckpt/10/rank_0", "ckpt/{id}/** would match"),
            ("ckpt/step_{id}", "ckpt/step_last", "{id} takes digits"),
            ("ckpt/{id}.h5", "ckpt/10.h5.tmp", "ckpt/{id}.h5* would match"),
            ("chk/step_{id}/*", "ckpt/step_5/a", "has chk where the name has ckpt"),
            ("ckpt/{id}/a", "ckpt/10", "goes on with /a"),
            ("ckpt/{id}", "ckpt/more/10", "has no directory more"),
            ("re:ckpt/x(?<id>[0-9]+)", "ckpt/y10", "is a regular expression that does not match"),
        ] {
            let nearest = set(pattern, "*.lock").nearest([name]).expect("one of one");
            assert!(nearest.text.ends_with(told) || nearest.text.contains(told), "{nearest:?}");
            let begin = format!("{name} was written; pattern {} ", pattern);
            assert!(nearest.text.starts_with(&begin), "{nearest:?}");
        }
        let ignored = set("ckpt/*", "*.lock").nearest(["ckpt/a.lock"]).expect("one of one");
        assert!(ignored.text.contains("SCR_IGNORE_PATTERN does, too"), "{ignored:?}");
    }

    #[test]
    fn the_nearest_of_several_is_found() {
        let names = ["log.txt", "out/data_3.h5", "ckpt/step_10.dat", "ckpt/readme"];
        let nearest = set("x/{id}, ckpt/step_{id}.chk", "").nearest(names).expect("one of four");
        assert!(nearest.text.starts_with("ckpt/step_10.dat was written; pattern ckpt/step_"));
        assert_eq!(set("x/{id}", "").nearest([]), None);
    }

    #[test]
    fn placeholders_of_other_tools_are_told() {
        let told = set("a/step_%d, b/{id}, re:%d", "").placeholders();
        assert!(told.len() == 1 && told[0].contains("pattern a/step_%d has %d"), "{told:?}");
    }

    proptest! {
        #[test]
        fn any_name_and_pattern_compare(
            pattern in "[a-c/*{}%d#<>.]{1,12}|[a-b]{1,3}/(\\*\\*|\\*|\\{id\\})/[a-b]{1,3}",
            name in "[a-c0-9/.]{1,12}|\\PC{1,12}",
        ) {
            let text = PatternText { text: pattern, ..PatternText {
                name: "X".into(), place: String::new(), text: String::new() } };
            let config = PatternConfig {
                prefix: "/p".into(), checkpoint: vec![text], ..PatternConfig::default() };
            if let Ok(set) = SeriesSet::new(&config) {
                let nearest = set.nearest([name.as_str()]);
                prop_assert!(nearest.is_none_or(|nearest| nearest.score <= 1000));
            }
        }
    }
}
