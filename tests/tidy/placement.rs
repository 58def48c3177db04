//! What may be used where: layers of the core, unsafe code, the crates of the toolchain.

use crate::source::Source;

/// The layers of `src/core`, lowest first. Those between the cache and the session are pieces of a
/// session that can be built and tested without one.
const LAYERS: [&[&str]; 11] = [
    &["bytes", "error", "log", "progress"],
    &["files", "system"],
    &["kvtree", "params", "comm", "parts", "patterns", "streams"],
    &["records", "descriptors", "events", "machine"],
    &["redundancy"],
    &["cache", "transfer"],
    &["namespace", "handles"],
    &["account"],
    &["launch"],
    &["restart"],
    &["session", "operations"],
];

/// All that the pure state machine may use: it has no file, no clock and no messages, so that a
/// million of its schedules are simulated in seconds (`files` is there for checksums).
const PURE: (&str, [&str; 7]) =
    ("machine", ["machine", "bytes", "patterns", "comm", "files", "parts", "streams"]);

/// Where unsafe code may stand.
const UNSAFE: [&str; 7] = [
    "src/abi/objects.rs",
    "src/core/system/",
    "src/mpi/",
    "src/api/",
    "preload/",
    "src/cli/sim/namespace.rs",
    "tests/",
];

/// Where each crate is at home, and used in each place that is named. Constants of libc are welcome
/// everywhere.
const HOMES: [(&str, &[&str]); 8] = [
    (
        "libc",
        &[
            "preload/",
            "src/abi/objects.rs",
            "src/core/system/",
            "src/api/",
            "src/mpi/",
            "src/cli/sim/namespace.rs",
        ],
    ),
    ("redhook", &["preload/src/hooks/family.rs"]),
    ("mpi", &["tests/mpi/", "examples/"]),
    ("crc32fast", &["src/core/files/checksum.rs", "preload/src/fd/in_order.rs"]),
    ("rusqlite", &["src/core/events/database.rs"]),
    ("parking_lot", &["preload/src/fd/open_files.rs", "preload/"]),
    ("once_cell", &["preload/src/base/real.rs"]),
    ("ctor", &["preload/src/lib.rs"]),
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Uses of a higher layer in `src/core`.
pub fn layers(source: &Source) -> Vec<String> {
    let Some(inner) = source.path.strip_prefix("src/core/").filter(|_| source.is_rust()) else {
        return Vec::new();
    };
    let own = inner.split(['/', '.']).next().unwrap_or_default();
    if own == "lib" {
        return Vec::new();
    }
    let Some(own_layer) = layer(own) else {
        return vec![source.complaint(0, &format!("module {own} has no layer"))];
    };
    let code = source.code();
    let mut complaints = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count();
        for used in named_modules(&code[at + "crate::".len()..]) {
            if layer(&used).is_some_and(|used_layer| used_layer > own_layer) {
                complaints
                    .push(source.complaint(line, &format!("{own} uses {used}, a higher layer")));
            }
            if own == PURE.0 && !PURE.1.contains(&used.as_str()) {
                complaints
                    .push(source.complaint(line, &format!("{own}, which is pure, uses {used}")));
            }
        }
    }
    complaints
}

/// First path segments after `crate::`: one, or those of a braced list.
fn named_modules(rest: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = rest.strip_prefix('{') else {
        return vec![word(rest)];
    };
    let (mut depth, mut start, mut modules) = (0, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                modules.push(word(&list[start..at]));
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    modules
}

/// Unsafe code outside its places, or without a `SAFETY:` note at hand.
pub fn unsafe_code(source: &Source) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    let code = source.code();
    let lines: Vec<&str> = source.text.lines().collect();
    let mut complaints = Vec::new();
    for (number, line) in code.lines().enumerate() {
        if !words(line).any(|word| word == "unsafe") {
            continue;
        }
        if !UNSAFE.iter().any(|place| source.path.starts_with(place)) {
            complaints.push(source.complaint(number, "unsafe code has no place here"));
        } else if ["unsafe {", "unsafe impl"].iter().any(|head| line.contains(head))
            && !has_note(&lines, number)
        {
            complaints.push(source.complaint(number, "unsafe without a SAFETY note above"));
        }
    }
    complaints
}

/// A note within the comment above the statement that holds line `number`.
fn has_note(lines: &[&str], number: usize) -> bool {
    const STATEMENT_LINES: usize = 8;
    let above = &lines[number.saturating_sub(STATEMENT_LINES)..=number];
    above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Crates outside their homes.
pub fn crates(source: &Source) -> Vec<String> {
    if !source.is_rust() || source.path.starts_with("tests/") || source.path.starts_with("fuzz/") {
        return Vec::new();
    }
    let code = source.code();
    let mut complaints = Vec::new();
    for (number, line) in code.lines().enumerate() {
        for (name, homes) in HOMES {
            let own_module = name == "mpi" && code.contains("use crate::mpi");
            let at_home = homes.iter().any(|home| source.path.starts_with(home));
            if !own_module && !at_home && uses(line, name) {
                complaints.push(source.complaint(number, &format!("{name} is not at home here")));
            }
        }
    }
    complaints
}

/// True if `line` names the crate; of libc, more than its constants and types.
fn uses(line: &str, name: &str) -> bool {
    let path = format!("{name}::");
    line.match_indices(&path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let foreign = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
        let rest = &line[at + path.len()..];
        let constant = rest.starts_with(|c: char| c.is_ascii_uppercase());
        let is_type = ["c_", "mode_t", "stat "].iter().any(|kind| rest.starts_with(kind));
        !foreign && !(name == "libc" && (constant || is_type))
    })
}

/// Homes of a crate in which nothing uses it.
pub fn empty_homes(sources: &[Source]) -> Vec<String> {
    let product = sources.iter().filter(|source| source.is_rust());
    let code: Vec<(&str, String)> =
        product.map(|source| (source.path.as_str(), source.code())).collect();
    let used = |name: &str, home: &str| {
        code.iter().filter(|(path, _)| path.starts_with(home)).any(|(_, code)| {
            code.contains(&format!("#[{name}")) || code.lines().any(|line| uses(line, name))
        })
    };
    let all = HOMES.iter().flat_map(|(name, homes)| homes.iter().map(move |home| (name, home)));
    all.filter(|(name, home)| !used(name, home))
        .map(|(name, home)| format!("{home}: {name} is at home here, but not used"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_of_a_higher_layer_is_found() {
        let bad = "use crate::session::Phase;\nuse crate::{error, cache::{A, B}, kvtree};\n";
        assert_eq!(layers(&Source::of("src/core/kvtree/tree.rs", bad)).len(), 2);
        let good = "// crate::session\nuse crate::{error::Error, files};\nuse crate::params;\n";
        assert!(layers(&Source::of("src/core/kvtree/tree.rs", good)).is_empty());
        assert_eq!(layers(&Source::of("src/core/other.rs", "")).len(), 1);
        let session = "use crate::session::Session;\n";
        for piece in ["namespace", "handles", "account", "launch", "restart"] {
            let place = format!("src/core/{piece}/a.rs");
            assert_eq!(layers(&Source::of(&place, session)).len(), 1, "{piece}");
        }
        let log = "use crate::log::warn;\nuse crate::patterns::Template;\n";
        assert_eq!(layers(&Source::of("src/core/machine/files.rs", log)).len(), 1);
    }

    #[test]
    fn unsafe_code_needs_a_place_and_a_note() {
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(unsafe_code(&Source::of("src/core/files/a.rs", block)).len(), 1);
        assert_eq!(unsafe_code(&Source::of("src/core/system/a.rs", block)).len(), 1);
        let noted = "fn f() {\n    // SAFETY: g has no conditions.\n    unsafe { g() }\n}\n";
        assert!(unsafe_code(&Source::of("src/core/system/a.rs", noted)).is_empty());
        assert!(unsafe_code(&Source::of("src/a.rs", "#![deny(unsafe_code)]")).is_empty());
    }

    #[test]
    fn a_crate_away_from_home_is_found() {
        let place = "src/core/files/copy.rs";
        assert_eq!(crates(&Source::of(place, "let a = libc::fsync(1);")).len(), 1);
        assert!(crates(&Source::of(place, "let a = libc::O_RDONLY;")).is_empty());
        assert_eq!(crates(&Source::of("src/lib.rs", "use mpi::topology;")).len(), 1);
        assert!(crates(&Source::of("src/lib.rs", "use crate::mpi::World;")).is_empty());
    }

    #[test]
    fn a_home_without_its_crate_is_found() {
        let empty =
            empty_homes(&[Source::of("preload/src/base/real.rs", "use once_cell::race::A;")]);
        assert!(!empty.iter().any(|text| text.contains("once_cell")), "{empty:?}");
        assert!(empty.iter().any(|text| text.starts_with("tests/mpi/: mpi ")), "{empty:?}");
        let elsewhere =
            empty_homes(&[Source::of("preload/src/path/canonical.rs", "use parking_lot::A;")]);
        let parking: Vec<_> =
            elsewhere.iter().filter(|text| text.contains("parking_lot")).collect();
        assert_eq!(parking.len(), 1, "{parking:?}");
    }
}
