//! Text forms: the indented one of manual 1.1, section 3.1 and the condensed one of section 3.3.
//!
//! Keys that are numbers come in numerical order, before the others: rank 2 before rank 10. Control
//! characters in keys are escaped, so that a file name cannot confuse a terminal.

use std::fmt::Write as _;

use super::KvTree;

impl KvTree {
    /// Returns one line for each key, indented by `indent` spaces a level.
    pub fn to_text(&self, indent: usize) -> String {
        let mut out = String::new();
        indented(self, indent, 0, &mut out);
        out
    }

    /// Returns the form with branches, in which a key with one value is `KEY = VALUE`.
    pub fn to_branches(&self) -> String {
        let mut out = String::new();
        branches(self, "", &mut out);
        out
    }
}

fn indented(tree: &KvTree, indent: usize, level: usize, out: &mut String) {
    for (key, subtree) in in_print_order(tree) {
        let width = indent * level;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:width$}{}", "", printable(key));
        indented(subtree, indent, level + 1, out);
    }
}

fn branches(tree: &KvTree, lead: &str, out: &mut String) {
    let elements = in_print_order(tree);
    let count = elements.len();
    for (position, (key, subtree)) in elements.into_iter().enumerate() {
        let key = printable(key);
        if let Some(value) = only_value(subtree) {
            let _ = writeln!(out, "{lead}+- {key} = {}", printable(value));
            continue;
        }
        let _ = writeln!(out, "{lead}+- {key}");
        let more = if position + 1 < count { '|' } else { ' ' };
        branches(subtree, &format!("{lead}{more}  "), out);
    }
}

fn only_value(tree: &KvTree) -> Option<&str> {
    let mut elements = tree.iter();
    let (key, subtree) = elements.next()?;
    (subtree.is_empty() && elements.next().is_none()).then_some(key)
}

fn in_print_order(tree: &KvTree) -> Vec<(&str, &KvTree)> {
    let mut elements: Vec<_> = tree.iter().collect();
    // Stable: keys that are not numbers, and numbers with leading zeros, stay in byte order.
    elements.sort_by_key(|(key, _)| key.parse::<i64>().map_or((1, 0), |number| (0, number)));
    elements
}

fn printable(key: &str) -> String {
    if key.chars().any(char::is_control) { key.escape_debug().to_string() } else { key.to_owned() }
}
