//! Globs compiled to regular expressions.
//!
//! | written | matches |
//! |---|---|
//! | `*` | any characters of one path component |
//! | `**` | any number of components; at the end at least one |
//! | `?`, `[a-z]`, `[!a-z]` | one character, never a slash |
//! | `{id}` | the dataset's id, as below |
//! | `{rank}` | digits |
//! | `{name}` | any name: one character or more of one component |
//! | `{a,b*}` | one of the alternatives |
//! | `\x` | the character `x` |
//!
//! An id begins and ends with a digit; between them stand digits and `-.:+_eET`. So step numbers,
//! times and dates fit, and `10.tmp` does not: a temporary name is not a dataset. Other ids need a
//! regular expression with the group `id`.

use crate::params::did_you_mean;

/// `{id}` as a regular expression.
const ID: &str = "[0-9](?:[-0-9.:+_eET]*[0-9])?";

const DEPTH_MAX: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub struct Glob {
    /// For the whole path, without anchors. Groups `id`, `id2`, ..., `rank`, `rank2`, ...
    pub regex: String,
    /// For each component, without anchors or group names; `None` for `**`, after which anything
    /// goes.
    pub components: Vec<Option<String>>,
    /// Every match begins with it.
    pub literal: String,
}

/// Returns the glob has no empty, `.` or `..` components. The error is a sentence about the
/// mistake.
pub fn compile(components: &[&str]) -> Result<Glob, String> {
    let mut compiler = Compiler { ids: 0, ranks: 0, named: true };
    let mut glob = Glob { regex: String::new(), components: Vec::new(), literal: String::new() };
    let mut all_literal = true;
    for (index, component) in components.iter().enumerate() {
        let last = index + 1 == components.len();
        if *component == "**" {
            glob.regex.push_str(if last { ".+" } else { "(?:[^/]+/)*" });
            glob.components.push(None);
            all_literal = false;
            continue;
        }
        glob.regex.push_str(&compiler.component(component, 0)?);
        let mut unnamed = Compiler { ids: 0, ranks: 0, named: false };
        let crosses = component.contains("**");
        glob.components.push(if crosses { None } else { Some(unnamed.component(component, 0)?) });
        if all_literal {
            let (literal, complete) = literal_start(component);
            glob.literal.push_str(&literal);
            all_literal = complete;
        }
        if !last {
            glob.regex.push('/');
            if all_literal {
                glob.literal.push('/');
            }
        }
    }
    Ok(glob)
}

/// The characters before the first that is not literal, and whether that is all of them.
fn literal_start(component: &str) -> (String, bool) {
    let mut literal = String::new();
    let mut characters = component.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' | '?' | '[' | '{' => return (literal, false),
            '\\' => literal.push(characters.next().unwrap_or('\\')),
            other => literal.push(other),
        }
    }
    (literal, true)
}

struct Compiler {
    ids: usize,
    ranks: usize,
    /// Captures get names, which a regular expression must not have twice.
    named: bool,
}

impl Compiler {
    fn component(&mut self, text: &str, depth: usize) -> Result<String, String> {
        let mut regex = String::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let after = &rest[character.len_utf8()..];
            rest = match character {
                '*' => {
                    let stars = after.len() - after.trim_start_matches('*').len();
                    regex.push_str(if stars > 0 { ".*" } else { "[^/]*" });
                    &after[stars..]
                }
                '?' => {
                    regex.push_str("[^/]");
                    after
                }
                '[' => class(after, &mut regex)?,
                '{' => self.braces(after, &mut regex, depth)?,
                '}' => return Err(format!("in '{text}' a }} closes nothing; write \\}}")),
                '\\' => {
                    let literal = after.chars().next().unwrap_or('\\');
                    regex.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                    after.get(literal.len_utf8()..).unwrap_or_default()
                }
                literal => {
                    regex.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                    after
                }
            };
        }
        Ok(regex)
    }

    /// Reads what follows a `{`; returns what follows its `}`.
    fn braces<'a>(
        &mut self,
        text: &'a str,
        regex: &mut String,
        depth: usize,
    ) -> Result<&'a str, String> {
        if depth >= DEPTH_MAX {
            return Err("braces stand too deep in one another".to_string());
        }
        let (alternatives, rest) = alternatives(text)?;
        if let [word] = alternatives[..] {
            let capture = match word {
                "id" => self.capture("id", ID),
                "rank" => self.capture("rank", "[0-9]+"),
                "name" => "[^/]+".to_string(),
                other => {
                    let hint = did_you_mean(other, ["id", "rank", "name"]);
                    return Err(format!(
                        "{{{other}}} is unknown: {{id}}, {{rank}}, {{name}} and {{a,b}} are \
                         there{hint}"
                    ));
                }
            };
            regex.push_str(&capture);
            return Ok(rest);
        }
        let compiled: Result<Vec<String>, String> =
            alternatives.iter().map(|text| self.component(text, depth + 1)).collect();
        regex.push_str(&format!("(?:{})", compiled?.join("|")));
        Ok(rest)
    }

    fn capture(&mut self, name: &str, regex: &str) -> String {
        let count = if name == "id" { &mut self.ids } else { &mut self.ranks };
        *count += 1;
        match (self.named, *count) {
            (false, _) => format!("(?:{regex})"),
            (true, 1) => format!("(?P<{name}>{regex})"),
            (true, count) => format!("(?P<{name}{count}>{regex})"),
        }
    }
}

/// Splits the inside of braces at its commas; returns also what follows the closing one.
fn alternatives(text: &str) -> Result<(Vec<&str>, &str), String> {
    let mut parts = Vec::new();
    let (mut begin, mut depth, mut escaped) = (0, 0usize, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                parts.push(&text[begin..index]);
                return Ok((parts, &text[index + 1..]));
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    Err(format!("in '{{{text}' the brace is not closed before the next slash"))
}

/// Reads what follows a `[`; returns what follows its `]`.
fn class<'a>(text: &'a str, regex: &mut String) -> Result<&'a str, String> {
    let mut set = String::new();
    let negated = text.starts_with(['!', '^']);
    let inside = if negated { &text[1..] } else { text };
    let mut characters = inside.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            // A bracket that comes first is one of the set, as in every shell.
            ']' if index > 0 => {
                regex.push_str(&match negated {
                    true => format!("[^/{set}]"),
                    false => format!("[{set}&&[^/]]"),
                });
                return Ok(&inside[index + 1..]);
            }
            '-' => set.push('-'),
            '\\' => match characters.next() {
                Some((_, literal)) => push_literal(&mut set, literal),
                None => break,
            },
            literal => push_literal(&mut set, literal),
        }
    }
    Err(format!("in '[{text}' the bracket is not closed; write \\[ for the character itself"))
}

fn push_literal(set: &mut String, character: char) {
    // Every ASCII character that could mean something in a class may be escaped.
    if character.is_ascii_punctuation() && !matches!(character, '<' | '>') {
        set.push('\\');
    }
    set.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    fn regex(glob: &str) -> Regex {
        let components: Vec<_> = glob.split('/').collect();
        let glob = compile(&components).expect(glob);
        Regex::new(&format!("^(?s:{})$", glob.regex)).expect("what is compiled is valid")
    }

    #[test]
    fn globs_match_what_the_table_says() {
        for (glob, yes, no) in [
            ("a*b", "axyb", "a/b"),
            ("a?", "ab", "a/"),
            ("[a-c]x", "bx", "dx"),
            ("[!a-c]x", "dx", "bx"),
            ("[]]", "]", "["),
            ("[+-9]", "1", "/"),
            ("[a\\-z]", "-", "m"),
            ("[&&~]", "&", "a"),
            ("**/x", "a/b/x", "a/bx"),
            ("**/x", "x", "y"),
            ("a/**", "a/b/c", "a"),
            ("a/**/b", "a/b", "a/xb"),
            ("a**", "a/b/c", "b"),
            ("s_{id}.d", "s_2024-01-01_00:00:00.d", "s_x.d"),
            ("s_{id}", "s_1e-05", "s_10.tmp"),
            ("s_{id}", "s_0.05", "s_10~"),
            ("r{rank}", "r007", "r-1"),
            ("{name}.x", "any thing.x", ".x"),
            ("{a,b?}.d", "bz.d", "b.d"),
            ("{x_{id},y}", "x_3", "x_"),
            ("\\*\\{", "*{", "a{"),
            ("a.b+(c)", "a.b+(c)", "axb+(c)"),
        ] {
            assert!(regex(glob).is_match(yes), "{glob} should match {yes}");
            assert!(!regex(glob).is_match(no), "{glob} should not match {no}");
        }
    }

    #[test]
    fn the_id_leaves_the_rank_what_is_the_ranks() {
        let captures = regex("out_{id}_{rank}.dat")
            .captures("out_10_3.dat")
            .map(|captures| (captures["id"].to_string(), captures["rank"].to_string()));
        assert_eq!(captures, Some(("10".to_string(), "3".to_string())));
    }

    #[test]
    fn the_literal_start_is_what_all_matches_share() {
        for (glob, literal) in [
            ("ckpt/step_{id}/x", "ckpt/step_"),
            ("ckpt/latest", "ckpt/latest"),
            ("a\\*b/c*", "a*b/c"),
            ("**/x", ""),
        ] {
            let components: Vec<_> = glob.split('/').collect();
            assert_eq!(compile(&components).expect(glob).literal, literal);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (glob, part) in [
            ("a{rnak}", "did you mean rank?"),
            ("a{id", "not closed"),
            ("a}", "closes nothing"),
            ("[abc", "not closed"),
            ("{{{{{{{{{{a,b},c},d},e},f},g},h},i},j},k}", "too deep"),
        ] {
            let message = compile(&[glob]).expect_err(glob);
            assert!(message.contains(part), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_text_compiles_or_is_refused(text in "[a-c/*?\\[\\]!^{},\\\\&~#-]{0,16}|\\PC{0,16}") {
            let components: Vec<_> = text.split('/').collect();
            if let Ok(glob) = compile(&components) {
                // Only an empty range such as [z-a] is left for the regex crate to find.
                let _ = Regex::new(&glob.regex);
            }
        }
    }
}
