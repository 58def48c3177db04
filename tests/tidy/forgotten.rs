//! Files that nothing compiles or runs.

use crate::source::Source;

fn text_of<'a>(sources: &'a [Source], path: &str) -> Option<&'a str> {
    sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
}

/// Rust files that no `mod` line names. A file that a manifest names is a root.
pub fn modules(sources: &[Source]) -> Vec<String> {
    let manifests: Vec<&Source> =
        sources.iter().filter(|source| source.path.ends_with("Cargo.toml")).collect();
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let name = source.path.rsplit('/').next().unwrap_or_default();
        let is_root = manifests.iter().any(|manifest| {
            let base = manifest.path.strip_suffix("Cargo.toml").unwrap_or_default();
            let mut roots = named_paths(&manifest.text).chain(["src/lib.rs", "src/main.rs"]);
            roots.any(|path| resolve(base, path) == source.path)
        });
        let is_program = source.path.contains("/programs/"); // a test compiles it
        if !is_root && !is_program && name != "build.rs" && !is_named(sources, &source.path) {
            complaints.push(source.complaint(0, "no `mod` line names this file"));
        }
    }
    complaints
}

/// Values of `path = "..."` that end in `.rs`.
fn named_paths(manifest: &str) -> impl Iterator<Item = &str> {
    manifest.split('"').filter(|value| value.ends_with(".rs"))
}

/// `base` + `path`, `..` taken out.
fn resolve(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// True if a module file that could hold it has the `mod` line, or a `path` attribute names it.
fn is_named(sources: &[Source], path: &str) -> bool {
    let own = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs")).unwrap_or(path);
    let (dir, name) = own.rsplit_once('/').unwrap_or(("", own));
    let parents = ["mod.rs", "lib.rs", "main.rs"].map(|file| format!("{dir}/{file}"));
    let line = format!("mod {name};");
    let has_line = |parent: &str| text_of(sources, parent).is_some_and(|text| text.contains(&line));
    let file_name = path.rsplit('/').next().unwrap_or_default();
    let by_attribute = || {
        let tail = format!("{file_name}\"");
        sources.iter().any(|s| s.is_rust() && s.text.lines().any(|l| names_path(l, &tail)))
    };
    parents.iter().any(|parent| has_line(parent))
        || has_line(&format!("{dir}.rs"))
        || by_attribute()
}

fn names_path(line: &str, tail: &str) -> bool {
    (line.trim_start().starts_with("#[path") || line.contains("include!")) && line.contains(tail)
}

/// Python programs of the tests that neither the runner, the Makefile nor another test starts.
pub fn programs(sources: &[Source]) -> Vec<String> {
    let starters: Vec<&Source> = sources
        .iter()
        .filter(|s| {
            s.path == "Makefile" || (s.path.starts_with("tests/") && s.path.ends_with(".py"))
        })
        .collect();
    let mut complaints = Vec::new();
    for source in sources {
        let is_program = source.path.starts_with("tests/") && source.text.contains("__main__\"");
        let started = |starter: &&&Source| starter.text.contains(&source.path);
        if is_program && !starters.iter().any(|starter| started(&starter)) {
            complaints.push(source.complaint(0, "nothing starts this program"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_mod_line_is_found() {
        let mut sources = vec![
            Source::of(
                "src/core/Cargo.toml",
                "path = \"lib.rs\"\npath = \"../../tests/x/main.rs\"",
            ),
            Source::of("src/core/lib.rs", "pub mod files;"),
            Source::of("src/core/files/mod.rs", "mod copy;"),
            Source::of("src/core/files/copy.rs", ""),
            Source::of("tests/x/main.rs", ""),
        ];
        assert!(modules(&sources).is_empty());
        sources.push(Source::of("src/core/files/lost.rs", ""));
        sources.push(Source::of("tests/x/lost.rs", ""));
        assert_eq!(modules(&sources).len(), 2);
    }

    #[test]
    fn a_test_program_that_nothing_starts_is_found() {
        let program = "if __name__ == \"__main__\":\n";
        let mut sources = vec![Source::of("tests/a/run.py", program)];
        assert_eq!(programs(&sources).len(), 1);
        sources.push(Source::of("Makefile", "\tpython3 tests/a/run.py\n"));
        assert!(programs(&sources).is_empty());
    }
}
