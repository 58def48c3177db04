//! Texts in which numbers and random parts may be others: what temporary names have beside the
//! final ones. A process has its number, and what a library draws makes names differ.

const WORDS: [&str; 9] =
    ["tmp", "temp", "temporary", "partial", "incomplete", "new", "stage", "staging", "scratch"];

const UUID: [usize; 5] = [8, 4, 4, 4, 12];

const DRAWN: usize = 8;

/// Returns a regular expression for texts like `text`, with a group without a name for each random
/// part.
pub(super) fn loose(text: &str) -> String {
    let mut regex = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (taken, piece) = match uuid(rest) {
            Some(taken) => (taken, uuid_regex()),
            None if end == 0 => (first.len_utf8(), regex::escape(&rest[..first.len_utf8()])),
            None => (end, loose_word(&rest[..end])),
        };
        regex.push_str(&piece);
        rest = &rest[taken..];
    }
    regex
}

pub(super) fn is_random(text: &str) -> bool {
    loose(text).contains('(')
}

pub(super) fn says_temporary(text: &str) -> bool {
    let mut words = text.split(|c: char| !is_of_word(c));
    let mut letters = text.split(|c: char| !c.is_ascii_alphabetic());
    words.any(|word| drawn_by_python(word).is_some())
        || letters.any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

pub(super) fn is_word(part: &str) -> bool {
    let mut letters = part.chars();
    let first_is_large = letters.next().is_some_and(|c| c.is_ascii_uppercase());
    let small = |c: char| c.is_ascii_lowercase() || c == '_';
    let rest = letters.as_str();
    part.bytes().all(|byte| !byte.is_ascii_digit())
        && (rest.chars().all(small) || first_is_large && !rest.contains(small))
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn uuid(text: &str) -> Option<usize> {
    let length = UUID.iter().sum::<usize>() + UUID.len() - 1;
    let mut parts = text.get(..length)?.split('-');
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = |size: &usize| parts.next().is_some_and(|part| part.len() == *size && is_hex(part));
    let ends = text[length..].chars().next().is_none_or(|next| !is_of_word(next));
    (ends && UUID.iter().all(fits)).then_some(length)
}

fn uuid_regex() -> String {
    let parts: Vec<String> = UUID.iter().map(|size| format!("[0-9a-fA-F]{{{size}}}")).collect();
    format!("({})", parts.join("-"))
}

fn loose_word(word: &str) -> String {
    if drawn_by_python(word).is_some() {
        return format!("tmp([0-9a-z_]{{{DRAWN}}})");
    }
    let numbers = word.split('_').map(loose_run).collect::<Vec<_>>().join("_");
    let at = word.len().saturating_sub(DRAWN);
    let (before, drawn) = word.split_at(at);
    if drawn.len() == DRAWN && is_drawn(drawn) && changes(drawn) >= 2 && hex(word).is_none() {
        let before = loose_numbers(before);
        return format!("(?:{before}([0-9a-z_]{{{DRAWN}}})|{numbers})");
    }
    numbers
}

fn drawn_by_python(word: &str) -> Option<&str> {
    word.strip_prefix("tmp").filter(|rest| rest.len() == DRAWN && is_drawn(rest))
}

fn is_drawn(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// How often letters and digits, large and small ones take turns.
fn changes(text: &str) -> usize {
    let kind = |byte: &u8| match byte {
        b'0'..=b'9' => Some(0),
        b'a'..=b'z' => Some(1),
        b'A'..=b'Z' => Some(2),
        _ => None,
    };
    let kinds: Vec<u8> = text.as_bytes().iter().filter_map(kind).collect();
    kinds.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// `tmp` stays, `tmp123` becomes `tmp[0-9]+`, `k3XqZb` any name of that length, `9c2fe01b` any
/// number with so many hexadecimal digits.
fn loose_run(run: &str) -> String {
    const RANDOM_MIN: usize = 6;
    let (length, numbers) = (run.len(), loose_numbers(run));
    match hex(run) {
        Some(regex) => regex,
        // Or it has several numbers.
        None if length >= RANDOM_MIN && changes(run) >= 2 => {
            format!("(?:([0-9A-Za-z]{{{length}}})|{numbers})")
        }
        None => numbers,
    }
}

/// The expression for numbers like `run`, if that is a long hexadecimal one.
fn hex(run: &str) -> Option<String> {
    const HEX_MIN: usize = 8;
    let is_number = |letters: fn(&u8) -> bool| {
        let has_both = run.bytes().any(|c| letters(&c)) && run.bytes().any(|c| c.is_ascii_digit());
        has_both && run.bytes().all(|c| letters(&c) || c.is_ascii_digit())
    };
    let regex = |class: &str| Some(format!("([{class}]{{{}}})", run.len()));
    match run.len() >= HEX_MIN {
        true if is_number(|c| matches!(c, b'a'..=b'f')) => regex("0-9a-f"),
        true if is_number(|c| matches!(c, b'A'..=b'F')) => regex("0-9A-F"),
        _ => None,
    }
}

fn loose_numbers(run: &str) -> String {
    let mut regex = String::new();
    let mut in_digits = false;
    for character in run.chars() {
        if !character.is_ascii_digit() {
            regex.push(character);
        } else if !in_digits {
            regex.push_str("[0-9]+");
        }
        in_digits = character.is_ascii_digit();
    }
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_random_is_told_from_words_and_numbers() {
        for (text, regex) in [
            (".tmp", r"\.tmp"),
            (".n7.4711", r"\.n[0-9]+\.[0-9]+"),
            ("_step_100", "_step_[0-9]+"),
            ("step_100", "step_[0-9]+"),
            (".9c2fe01b", r"\.([0-9a-f]{8})"),
            (".new_k3_9a1xz", r"\.(?:new_([0-9a-z_]{8})|new_k[0-9]+_[0-9]+a[0-9]+xz)"),
            (".123456789abc", r"\.([0-9a-f]{12})"),
            (".20261127", r"\.[0-9]+"),
            ("tmpk3_9a1xz", "tmp([0-9a-z_]{8})"),
            ("r0c12p3", "(?:([0-9A-Za-z]{7})|r[0-9]+c[0-9]+p[0-9]+)"),
        ] {
            assert_eq!(loose(text), regex);
        }
        let uuid = "-550e8400-e29b-41d4-a716-446655440000";
        assert!(is_random(uuid) && is_random(".k3XqZb") && !is_random(".partial"));
        assert!(says_temporary("x.TMP") && says_temporary("tmpabcdefgh"));
        assert!(!says_temporary("template") && !says_temporary("renew"));
        let words = ["checksum", "Header", "LAST", "k3XqZb", "abcde7", "xY"].map(is_word);
        assert_eq!(words, [true, true, true, false, false, false]);
    }
}
