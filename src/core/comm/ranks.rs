//! Lists of ranks as text: in records, and in messages.

pub fn ranks_text(ranks: &[usize]) -> String {
    let texts: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// Reads the text of [`ranks_text`]; what is no number is left out.
pub fn parse_ranks(text: &str) -> Vec<usize> {
    text.split(',').filter_map(|rank| rank.parse().ok()).collect()
}

/// Puts ranks into words: "rank 3", "ranks 3, 4, 5 and 9 more".
pub fn ranks_phrase(ranks: &[usize]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(ToString::to_string).collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    match ranks.len().checked_sub(SHOWN) {
        None | Some(0) => format!("{noun} {}", shown.join(", ")),
        Some(more) => format!("{noun} {} and {more} more", shown.join(", ")),
    }
}
