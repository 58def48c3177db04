//! "Did you mean": the nearest known name.

/// Finds the candidate nearest to `wrong`, if it is near enough to be what was meant.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_uppercase();
    // Distances cost the product of the lengths; nothing this long is a slip of the pen.
    if wrong.len() > 100 {
        return None;
    }
    let distance = |name: &str| strsim::damerau_levenshtein(&wrong, &name.to_ascii_uppercase());
    let (distance, best) =
        candidates.into_iter().map(|name| (distance(name), name)).min_by_key(|(far, _)| *far)?;
    // A third of the letters may be wrong, more would be a guess.
    (distance <= (wrong.chars().count() / 3).max(1)).then_some(best)
}

/// Tells how alike two texts are: 1 if they are equal, 0 if they have nothing in common.
#[must_use]
pub fn similarity(one: &str, other: &str) -> f64 {
    // As above: the cost is the product of the lengths.
    match one.len().max(other.len()) > 200 {
        true => 0.0,
        false => strsim::normalized_damerau_levenshtein(one, other),
    }
}

#[must_use]
pub fn did_you_mean<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(wrong, candidates) {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let names = ["SCR_FLUSH", "SCR_CACHE_SIZE"];
        assert_eq!(nearest("SCR_FLUHS", names), Some("SCR_FLUSH"));
        assert_eq!(nearest("scr_cache_sise", names), Some("SCR_CACHE_SIZE"));
        assert_eq!(nearest("PATH", names), None);
        assert_eq!(nearest(&"X".repeat(5000), names), None);
        assert_eq!(did_you_mean("SCR_FLUHS", names), "; did you mean SCR_FLUSH?");
    }
}
