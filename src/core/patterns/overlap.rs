//! Patterns of two series that match the same files: the earlier series takes them. That is what a
//! narrow pattern before a wide one is for; the other way round the later pattern is in vain.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::alternative::Alternative;

#[derive(Debug)]
pub(super) struct SeriesOrigin {
    pub name: String,
    /// The parameter with its place, if that says more.
    pub place: String,
    pub source: String,
}

/// Each list of preferred characters makes one example.
const TASTES: [[char; 3]; 3] = [['1', 'x', 'X'], ['x', 'X', '1'], ['_', '-', 'x']];

/// Returns one sentence for each two series of which the earlier takes what the later was written
/// for, as far as examples of its files tell. `prefix` is absolute.
pub(super) fn warnings(
    alternatives: &[Alternative],
    origins: &[SeriesOrigin],
    prefix: &str,
) -> Vec<String> {
    let mut told = Vec::new();
    let mut warnings = Vec::new();
    for later in alternatives {
        let examples = TASTES.map(|taste| example(later, prefix, &taste));
        let Some(path) = examples.iter().flatten().next() else { continue };
        let takes = |earlier: &&Alternative| {
            let matches = |path: &String| match earlier.absolute {
                true => earlier.regex.is_match(&format!("{prefix}/{path}")),
                false => earlier.regex.is_match(path),
            };
            earlier.series < later.series && examples.iter().flatten().all(matches)
        };
        let Some(earlier) = alternatives.iter().find(takes) else { continue };
        if told.contains(&(earlier.series, later.series)) {
            continue;
        }
        told.push((earlier.series, later.series));
        let (first, second) = (&origins[earlier.series], &origins[later.series]);
        warnings.push(format!(
            "{}: files such as {path} match {}, too, which comes first and takes them; give the \
             narrower pattern to the earlier series",
            second.place, first.name
        ));
    }
    warnings
}

fn example(alternative: &Alternative, prefix: &str, taste: &[char]) -> Option<String> {
    let hir = regex_syntax::parse(alternative.regex.as_str()).ok()?;
    let mut text = String::new();
    write_example(&hir, taste, &mut text)?;
    if !alternative.regex.is_match(&text) {
        return None;
    }
    match alternative.absolute {
        true => Some(text.strip_prefix(prefix)?.strip_prefix('/')?.to_string()),
        false => Some(text),
    }
}

/// Appends the plainest text that the expression matches; what may be left out stands once.
fn write_example(hir: &Hir, taste: &[char], text: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(member(class, taste)?),
        HirKind::Capture(capture) => write_example(&capture.sub, taste, text)?,
        HirKind::Concat(parts) => {
            parts.iter().try_for_each(|part| write_example(part, taste, text))?;
        }
        HirKind::Alternation(parts) => write_example(parts.first()?, taste, text)?,
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.max(1).min(most) {
                write_example(&repetition.sub, taste, text)?;
            }
        }
    }
    Some(())
}

fn member(class: &Class, taste: &[char]) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    let within = |one: char| class.iter().any(|range| (range.start()..=range.end()).contains(&one));
    let first = class.iter().next()?.start();
    Some(taste.iter().copied().find(|one| within(*one)).unwrap_or(first))
}
