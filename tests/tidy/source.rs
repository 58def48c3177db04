//! The files of the repository, and Rust text without its comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file.
pub struct Source {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl Source {
    /// For tests of the checkers.
    #[cfg(test)]
    pub fn of(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    /// True for Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The text with comments, strings and characters blanked; lines stay where they are.
    pub fn code(&self) -> String {
        blank(&self.text)
    }

    /// The same without the tests at its end.
    pub fn live(&self) -> String {
        let mut code = self.code();
        if let Some(at) = code.find("#[cfg(test)]\nmod tests") {
            code.truncate(at);
        }
        code
    }

    /// "path:line: what".
    pub fn complaint(&self, line: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line + 1)
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_path_buf()
}

/// Every text file of ours, sorted by path.
pub fn all() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        let entries = fs::read_dir(&dir).expect("a directory of the repository");
        for entry in entries {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "__pycache__" {
                    open.push(path);
                }
            } else if let (true, Ok(text)) = (is_ours(&name), fs::read_to_string(&path)) {
                let path = path.strip_prefix(&root).expect("below the root");
                found.push(Source { path: path.to_string_lossy().into_owned(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn is_ours(name: &str) -> bool {
    let kinds = ["rs", "py", "c", "h", "cpp", "f90", "toml", "conf", "md"];
    name == "Makefile" || kinds.iter().any(|kind| name.ends_with(&format!(".{kind}")))
}

/// Blanks comments, strings and character literals of Rust text.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = token_end(bytes, at);
        if let Some(end) = end {
            for byte in &mut out[at..end.min(bytes.len())] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// End of the comment, string or character that begins at `at`, if one does.
fn token_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return Some(at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(at + find(rest, b"*/").map_or(rest.len(), |i| i + 2));
    }
    if rest[0] == b'r' && !word_before {
        let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let body = &rest[2 + hashes..];
            return Some(
                at + 2 + hashes + find(body, &close).map_or(body.len(), |i| i + close.len()),
            );
        }
    }
    if rest[0] == b'"' {
        let mut end = 1;
        while end < rest.len() && rest[end] != b'"' {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        return Some(at + end + 1);
    }
    if rest[0] == b'\'' {
        if rest.get(1) == Some(&b'\\') {
            return find(&rest[3..], b"'").map(|i| at + 3 + i + 1);
        }
        // 'x' is a character, 'x without a second quote a lifetime.
        return (rest.get(2) == Some(&b'\'')).then_some(at + 3);
    }
    None
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blank() {
        let text = "a // x\nb \"{\\\"\" c '{' '\\'' d<'e> r#\"}\"# f /* { */ g";
        let code = blank(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d<'e>", "f", "g"]);
        assert_eq!(code.len(), text.len());
    }
}
