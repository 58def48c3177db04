//! What a process on a node is asked: words behind `scr on-node`, and the lines of its answer.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::cache::Depth;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::kvtree::file::{from_file_bytes, to_file_bytes};
use crate::records::text::{hex_text, parse_hex};

/// A question to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// What does the cache hold?
    Look {
        /// How closely it is to look.
        depth: Depth,
        /// This dataset alone, if given.
        id: Option<u64>,
        /// List files of datasets that are being written, too.
        unsealed: bool,
    },
    /// Which files has dataset `id`, on all nodes?
    Catalog {
        /// The dataset.
        id: u64,
    },
    /// Copy to the exchange folder what its list of wanted files names.
    Bring {
        /// Name of the folder.
        folder: String,
    },
    /// Copy to the exchange folder what these ranks have of a dataset.
    Parts {
        /// Name of the folder.
        folder: String,
        /// The dataset.
        id: u64,
        /// Its ranks.
        ranks: BTreeSet<usize>,
    },
    /// Replace damaged files of a dataset by what was rebuilt in the exchange folder.
    Mend {
        /// Name of the folder.
        folder: String,
        /// The dataset.
        id: u64,
    },
}

/// What each line of an answer begins with: remote shells have greetings of their own.
const LINE: &str = "scr-answer ";
/// Digits on a line: pdsh cuts long ones.
const DIGITS: usize = 200;

impl Question {
    /// Returns the words that stand for it.
    pub fn words(&self) -> Vec<String> {
        let text = match self {
            Question::Look { depth, id, unsealed } => {
                let depth = match depth {
                    Depth::Records => "records",
                    Depth::Sizes => "sizes",
                    Depth::Contents => "contents",
                };
                let id = id.map_or_else(|| "all".to_owned(), |id| id.to_string());
                format!("look {depth} {id} {}", if *unsealed { "unsealed" } else { "sealed" })
            }
            Question::Catalog { id } => format!("catalog {id}"),
            Question::Bring { folder } => format!("bring {folder}"),
            Question::Parts { folder, id, ranks } => {
                let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
                format!("parts {folder} {id} {}", ranks.join(","))
            }
            Question::Mend { folder, id } => format!("mend {folder} {id}"),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    /// Reads what [`Question::words`] makes; `None` if the words mean nothing.
    pub fn parse(words: &[String]) -> Option<Question> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["look", depth, id, unsealed] => Question::Look {
                depth: match depth {
                    "records" => Depth::Records,
                    "sizes" => Depth::Sizes,
                    "contents" => Depth::Contents,
                    _ => return None,
                },
                id: match id {
                    "all" => None,
                    id => Some(id.parse().ok()?),
                },
                unsealed: unsealed == "unsealed",
            },
            ["catalog", id] => Question::Catalog { id: id.parse().ok()? },
            ["bring", folder] => Question::Bring { folder: folder.to_owned() },
            ["parts", folder, id, ranks] => Question::Parts {
                folder: folder.to_owned(),
                id: id.parse().ok()?,
                ranks: ranks.split(',').map(|rank| rank.parse().ok()).collect::<Option<_>>()?,
            },
            ["mend", folder, id] => {
                Question::Mend { folder: folder.to_owned(), id: id.parse().ok()? }
            }
            _ => return None,
        })
    }
}

/// Turns an answer into the text that is printed.
pub fn answer_text(answer: &KvTree) -> Result<String> {
    let digits = hex_text(&to_file_bytes(answer)?);
    let mut text = String::new();
    let mut rest = &digits[..];
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(DIGITS));
        let _ = writeln!(text, "{LINE}{line}");
        rest = behind;
    }
    Ok(text)
}

pub(super) fn read_answer(text: &str) -> Result<KvTree> {
    let meaningless = || {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Error::Unreadable(format!("an answer that means nothing: {}", first.trim()))
    };
    let digits: String = text.lines().filter_map(|line| line.strip_prefix(LINE)).collect();
    let bytes = parse_hex(&digits).filter(|bytes| !bytes.is_empty()).ok_or_else(meaningless)?;
    from_file_bytes(&bytes).map_err(|_| meaningless())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_survive_the_way() {
        let folder = "0123456789abcdef".to_owned();
        for question in [
            Question::Look { depth: Depth::Contents, id: Some(7), unsealed: false },
            Question::Look { depth: Depth::Records, id: None, unsealed: true },
            Question::Catalog { id: 3 },
            Question::Bring { folder: folder.clone() },
            Question::Parts { folder: folder.clone(), id: 3, ranks: [0, 17].into() },
            Question::Mend { folder, id: 3 },
        ] {
            assert_eq!(Question::parse(&question.words()), Some(question));
        }
        assert_eq!(Question::parse(&["look".into(), "well".into()]), None);

        let mut answer = KvTree::new();
        answer.set_value("TEXT", "x".repeat(1000));
        let text = answer_text(&answer).unwrap();
        let greeted = format!("Welcome to node2!\n{text}bye\n");
        assert_eq!(read_answer(&greeted).unwrap(), answer);
        assert!(text.lines().all(|line| line.len() <= 220));
        for bad in ["", "Welcome\n", "scr-answer 12\n", &text[..400]] {
            assert!(read_answer(bad).is_err(), "{bad}");
        }
    }
}
