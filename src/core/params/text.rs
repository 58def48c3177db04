//! The grammar of one line: comments, quotes, variables, escapes.
//!
//! * `#` begins a comment at the line's start or after white space.
//! * Between single quotes everything stands for itself. Between double quotes white space and `#`
//!   do; `$` and `\` keep their meaning.
//! * `$NAME` and `${NAME}` are replaced outside single quotes; one that is not set is an error. A
//!   `$` that no name follows stands for itself, as at the end of a regular expression.
//! * `\` takes its special meaning from `\ $ # ' "` and white space. Before anything else it stays,
//!   so that `\d`, `\*` and `\,` reach the patterns as written.
//!
//! The same grammar holds in files and in the environment; it is not shell.

use std::iter::Peekable;
use std::str::Chars;

pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a line's value: one text, without comment, trimmed.
pub fn value(line: &str, variables: Lookup<'_>) -> Result<String, String> {
    let mut scanner = Scanner::new(line, variables, false);
    scanner.run()?;
    Ok(scanner.words.pop().unwrap_or_default())
}

/// Writes `text` so that `value` and, but for white space in it, [`words`] read it as it is.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        if matches!(one, '\\' | '$' | '#' | '\'' | '"') {
            escaped.push('\\');
        }
        escaped.push(one);
    }
    escaped
}

/// Reads a line's words, separated by white space.
pub fn words(line: &str, variables: Lookup<'_>) -> Result<Vec<String>, String> {
    let mut scanner = Scanner::new(line, variables, true);
    scanner.run()?;
    Ok(scanner.words)
}

struct Scanner<'a> {
    input: Peekable<Chars<'a>>,
    variables: Lookup<'a>,
    /// White space ends a word.
    split: bool,
    words: Vec<String>,
    word: String,
    /// A word has begun, maybe an empty one in quotes.
    begun: bool,
    /// White space seen since the word's last character; part of it only if more follows.
    pending: String,
}

impl<'a> Scanner<'a> {
    fn new(line: &'a str, variables: Lookup<'a>, split: bool) -> Self {
        Scanner {
            input: line.chars().peekable(),
            variables,
            split,
            words: Vec::new(),
            word: String::new(),
            begun: false,
            pending: String::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let mut at_start = true;
        while let Some(next) = self.input.next() {
            match next {
                '#' if at_start || !self.pending.is_empty() => break,
                white if white.is_whitespace() => self.space(white),
                '\'' => self.single_quoted()?,
                '"' => self.double_quoted()?,
                '$' => self.variable()?,
                '\\' => self.escape(),
                other => self.push(other),
            }
            at_start = false;
        }
        self.end_word();
        Ok(())
    }

    fn push(&mut self, character: char) {
        self.begin();
        self.word.push(character);
    }

    fn begin(&mut self) {
        if self.begun {
            self.word.push_str(&self.pending);
        }
        self.pending.clear();
        self.begun = true;
    }

    fn space(&mut self, white: char) {
        if self.split {
            self.end_word();
        }
        self.pending.push(white);
    }

    fn end_word(&mut self) {
        if self.begun {
            self.words.push(std::mem::take(&mut self.word));
        }
        self.begun = false;
        self.pending.clear();
    }

    fn single_quoted(&mut self) -> Result<(), String> {
        self.begin();
        for next in self.input.by_ref() {
            match next {
                '\'' => return Ok(()),
                other => self.word.push(other),
            }
        }
        Err("a single quote is not closed (write \\' for an apostrophe)".to_string())
    }

    fn double_quoted(&mut self) -> Result<(), String> {
        self.begin();
        while let Some(next) = self.input.next() {
            match next {
                '"' => return Ok(()),
                '$' => self.variable()?,
                '\\' => self.escape(),
                other => self.word.push(other),
            }
        }
        Err("a double quote is not closed (write \\\" for the character itself)".to_string())
    }

    fn escape(&mut self) {
        let special = |c: &char| matches!(c, '\\' | '$' | '#' | '\'' | '"') || c.is_whitespace();
        match self.input.next_if(special) {
            Some(character) => self.push(character),
            None => self.push('\\'),
        }
    }

    fn variable(&mut self) -> Result<(), String> {
        let name = if self.input.next_if_eq(&'{').is_some() {
            let mut name = String::new();
            loop {
                match self.input.next() {
                    Some('}') => break,
                    Some(character) => name.push(character),
                    None => return Err("${ is not closed with }".to_string()),
                }
            }
            if !is_name(&name) {
                return Err(format!("${{{name}}} is not the name of a variable"));
            }
            name
        } else {
            let mut name = String::new();
            while let Some(next) = self.input.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                name.push(next);
            }
            name
        };
        if !is_name(&name) {
            // Not a variable: "$" at the end of a regular expression, "$5".
            self.push('$');
            self.word.push_str(&name);
            return Ok(());
        }
        let value = (self.variables)(&name).ok_or_else(|| {
            format!("the variable ${name} is not set (write \\$ for the character itself)")
        })?;
        self.begin();
        self.word.push_str(&value);
        Ok(())
    }
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variables(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/me".to_string()),
            "SPACED" => Some("a b # c".to_string()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn lines_read_as_the_grammar_says() {
        for (line, expected) in [
            ("  plain  ", "plain"),
            ("a, b/{id},c   # one series", "a, b/{id},c"),
            ("# all of it", ""),
            ("a#b", "a#b"),
            ("a \\# b", "a # b"),
            ("'a # $HOME \\d' ", "a # $HOME \\d"),
            ("\"a # $HOME\"", "a # /home/me"),
            ("$HOME/x", "/home/me/x"),
            ("${HOME}x", "/home/mex"),
            ("\\$HOME", "$HOME"),
            ("$SPACED", "a b # c"),
            ("x$EMPTY", "x"),
            ("re:^a_(?<id>\\d+)\\.dat$", "re:^a_(?<id>\\d+)\\.dat$"),
            ("re:(a$|b),[$]", "re:(a$|b),[$]"),
            ("a\\,b\\\\c", "a\\,b\\c"),
            ("'' ", ""),
            ("tail\\ ", "tail "),
            ("back\\", "back\\"),
            ("cost$5", "cost$5"),
        ] {
            assert_eq!(value(line, &variables).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn words_split_at_unquoted_space() {
        let line = "CKPT=0  TYPE='X OR' STORE=$SPACED/x # TYPE=RS";
        assert_eq!(
            words(line, &variables),
            Ok(vec!["CKPT=0".to_string(), "TYPE=X OR".to_string(), "STORE=a b # c/x".to_string(),])
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("'open", "single quote"),
            ("\"open", "double quote"),
            ("${HOME", "${"),
            ("${a-b}", "${a-b}"),
            ("$NOT_SET/x", "$NOT_SET"),
        ] {
            let message = value(line, &variables).expect_err(line);
            assert!(message.contains(part), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn any_line_gives_a_value_or_a_message(line in "[a-z $#'\"\\\\{}\\PC]{0,40}") {
            let _ = value(&line, &variables);
            let _ = words(&line, &variables);
        }

        #[test]
        fn single_quotes_take_everything(text in "[^']{0,30}") {
            prop_assert_eq!(value(&format!("'{text}'"), &variables), Ok(text));
        }
    }
}
