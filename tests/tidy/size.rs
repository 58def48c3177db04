//! Lengths of files, functions and lines; characters.

use crate::source::Source;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Files that are too long.
pub fn files(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX && !is_generated(source) {
        return vec![source.complaint(0, &format!("{lines} lines, {FILE_LINES_MAX} at most"))];
    }
    Vec::new()
}

/// The template of all parameters is as long as there are parameters; data is data.
fn is_generated(source: &Source) -> bool {
    source.path == "config/scr.conf" || source.path.ends_with(".md")
}

/// Functions of a Rust file that are too long.
pub fn functions(source: &Source) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    let code = source.code();
    let mut complaints = Vec::new();
    for (start, name) in function_heads(&code) {
        let first = code[..start].matches('\n').count();
        let lines = code[start..body_end(&code, start)].matches('\n').count() + 1;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("fn {name} has {lines} lines, {FUNCTION_LINES_MAX} at most");
            complaints.push(source.complaint(first, &what));
        }
    }
    complaints
}

/// Position and name of every `fn name`.
fn function_heads(code: &str) -> Vec<(usize, &str)> {
    let mut heads = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let joined = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &code[at + 3..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if !joined && end > 0 {
            heads.push((at, &rest[..end]));
        }
    }
    heads
}

/// Where the function that starts at `start` ends: its body's brace, or the `;` of a declaration.
fn body_end(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    let mut nested = 0_i32;
    for (offset, character) in code[start..].char_indices() {
        match character {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if depth == 0 && nested == 0 => return start + offset,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return start + offset;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// Lines that are too wide, end in a space, or hold other characters than ASCII.
pub fn lines(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let columns = line.chars().count();
        let wide = columns > COLUMNS_MAX && !source.path.ends_with(".md");
        if wide && source.path != "Makefile" {
            complaints.push(source.complaint(number, &format!("{columns} columns")));
        }
        if line.ends_with([' ', '\t']) {
            complaints.push(source.complaint(number, "white space at the line's end"));
        }
        if !line.is_ascii() {
            complaints.push(source.complaint(number, "a character that is not ASCII"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found_and_a_long_table_is_not() {
        let body = "    step();\n".repeat(69);
        let long = format!("fn long() {{\n{body}}}\n");
        assert_eq!(functions(&Source::of("a.rs", &long)).len(), 1);
        let short = "fn short() {\n    step(\"}\");\n}\n";
        let table = format!("{short}const T: [u8; 80] = [\n{}];\n", "    1,\n".repeat(80));
        assert!(functions(&Source::of("a.rs", &table)).is_empty());
    }

    #[test]
    fn declarations_have_no_body() {
        let text = format!("trait T {{\n    fn a(&self, x: [u8; 2]);\n}}\n{}", "\n".repeat(99));
        assert!(functions(&Source::of("a.rs", &text)).is_empty());
    }

    #[test]
    fn long_files_wide_lines_and_odd_characters_are_found() {
        assert_eq!(files(&Source::of("a.rs", &"\n".repeat(501))).len(), 1);
        assert!(files(&Source::of("a.rs", &"\n".repeat(500))).is_empty());
        assert_eq!(lines(&Source::of("a.rs", &"x".repeat(101))).len(), 1);
        assert_eq!(lines(&Source::of("a.py", "x \n\u{e9}\n")).len(), 2);
    }
}
