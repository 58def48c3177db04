//! Circles of files: who changes one file of a circle has to know all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::links::Needs;

/// Sets of files each of which needs all others of its set.
pub fn circles(needs: &Needs) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(one) = open.pop() {
            for other in needs.get(one).into_iter().flatten() {
                if found.insert(other) {
                    open.push(other);
                }
            }
        }
        found
    };
    let all: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|name| (name, reached(name))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (name, reach) in all.iter().filter(|(name, reach)| reach.contains(*name)) {
        let both = reach.iter().filter(|other| all[**other].contains(name));
        circles.insert(both.map(|other| (*other).clone()).collect());
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::needs;
    use crate::source::Source;

    #[test]
    fn a_circle_of_uses_and_calls_is_found() {
        let all = [
            Source::of("src/core/a/mod.rs", "use crate::b;\n\nimpl A {\n    fn f() {}\n}\n"),
            Source::of("src/core/a/x.rs", "\nimpl A {\n    fn g() { Self::f() }\n}\n"),
            Source::of("src/core/b.rs", "use crate::a::x;\nuse crate::c;\n"),
            Source::of("src/core/c.rs", ""),
        ];
        assert_eq!(circles(&needs(&all, "src/core/")), [["a/mod.rs", "a/x.rs", "b.rs"]]);
    }
}
