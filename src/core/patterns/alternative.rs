//! One element of a pattern list, compiled.

use std::path::{Component, PathBuf};

use regex::Regex;

use super::config::PatternConfig;
use super::element::{Element, Form};
use super::glob;

#[derive(Debug)]
pub(super) struct Alternative {
    pub(super) series: usize,
    pub(super) regex: Regex,
    pub(super) active: bool,
    pub(super) absolute: bool,
    pub(super) own: bool,
    pub(super) ids: Vec<usize>,
    pub(super) ranks: Vec<usize>,
    pub(super) text: String,
    /// The components of a glob below the prefix, as written.
    pub(super) parts: Vec<String>,
    /// For each component of a glob; `None` from a `**` on. `None` for regular expressions.
    pub(super) components: Option<Vec<Option<Regex>>>,
    pub(super) literal: String,
}

impl Alternative {
    pub(super) fn new(
        config: &PatternConfig,
        element: &Element,
        series: usize,
    ) -> Result<Alternative, String> {
        let mut components = None;
        let (mut literal, mut written) = (String::new(), Vec::new());
        let mut active = true;
        let (text, absolute) = match &element.form {
            Form::Glob(text) => {
                let parts = relative_components(config, text)?;
                let glob = glob::compile(&parts)?;
                literal = glob.literal;
                written = parts.iter().map(ToString::to_string).collect();
                let compile = |part: &Option<String>| {
                    part.as_ref().map(|part| compile(&format!("^(?s:{part})$"), text)).transpose()
                };
                let compiled: Result<_, String> = glob.components.iter().map(compile).collect();
                components = Some(compiled?);
                (format!("^(?s:{})$", glob.regex), false)
            }
            Form::Regex(text) => {
                let absolute = text.starts_with('/') || text.starts_with("^/");
                // On its own first, so that a closing parenthesis too many is found.
                compile(text, text)?;
                if !absolute {
                    literal = regex_literal(text);
                }
                (format!("^(?:{text})$"), absolute)
            }
            Form::Classic { first, last, regex } => {
                active = config.rank >= *first && last.is_none_or(|last| config.rank <= last);
                (regex.clone(), true)
            }
        };
        let regex = compile(&text, &element.text)?;
        let groups = |name: &str| {
            let numbered = |group: &str| {
                group.strip_prefix(name).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
            };
            let names = regex.capture_names().enumerate();
            names.filter(|(_, group)| group.is_some_and(numbered)).map(|(i, _)| i).collect()
        };
        let (ids, ranks) = (groups("id"), groups("rank"));
        let own = element.own;
        Ok(Alternative {
            series,
            regex,
            active,
            absolute,
            own,
            ids,
            ranks,
            text: element.text.clone(),
            parts: written,
            components,
            literal,
        })
    }

    pub(super) fn could_match_below(&self, directory: &str) -> bool {
        if self.absolute {
            return true;
        }
        let Some(components) = &self.components else {
            let below = format!("{directory}/");
            let below = below.trim_start_matches('/');
            return self.literal.starts_with(below) || below.starts_with(&self.literal);
        };
        let mut names = directory.split('/').filter(|name| !name.is_empty());
        for component in components {
            match (component, names.next()) {
                // The pattern goes on below the directory.
                (_, None) | (None, _) => return true,
                (Some(regex), Some(name)) if regex.is_match(name) => {}
                (Some(_), Some(_)) => return false,
            }
        }
        false
    }
}

fn compile(regex: &str, element: &str) -> Result<Regex, String> {
    Regex::new(regex).map_err(|error| match error {
        regex::Error::Syntax(text) => {
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("'{element}' is no regular expression: {reason}")
        }
        _ => format!("'{element}' is too large a pattern"),
    })
}

/// Every match of an anchored expression begins with these characters.
fn regex_literal(regex: &str) -> String {
    let text = regex.strip_prefix('^').unwrap_or(regex);
    // An alternative at the top would make every beginning one of several.
    if text.contains('|') {
        return String::new();
    }
    let mut literal = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let literal_character = match character {
            '\\' => match characters.next() {
                Some(next) if next.is_ascii_punctuation() => next,
                _ => break,
            },
            c if "^$.|?*+()[]{}".contains(c) => break,
            c => c,
        };
        if characters.peek().is_some_and(|next| "?*{".contains(*next)) {
            break;
        }
        literal.push(literal_character);
    }
    literal
}

fn relative_components<'a>(config: &PatternConfig, text: &'a str) -> Result<Vec<&'a str>, String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(format!("'{text}' is not below the prefix"));
            }
            ".." => {}
            name => parts.push(name),
        }
    }
    if text.starts_with('/') {
        let prefixes = [Some(&config.prefix), config.prefix_as_written.as_ref()];
        let names = |prefix: &PathBuf| -> Vec<String> {
            let normal = prefix.components().filter(|c| matches!(c, Component::Normal(_)));
            normal.map(|c| c.as_os_str().to_string_lossy().into_owned()).collect()
        };
        let below = prefixes.into_iter().flatten().map(names).find(|names| {
            parts.len() > names.len() && names.iter().zip(&parts).all(|(name, part)| name == part)
        });
        let Some(names) = below else {
            let prefix = config.prefix.display();
            return Err(format!("'{text}' is not below the prefix {prefix} (SCR_PREFIX)"));
        };
        parts.drain(..names.len());
    }
    if parts.is_empty() { Err(format!("'{text}' names the prefix itself")) } else { Ok(parts) }
}
