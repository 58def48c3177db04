//! What a look at the files of a dataset on the prefix has found, and what follows. Of what is as
//! it was written nothing is said, so that a rank without findings sends nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fmt, fs};

use super::paths::is_published;
use super::removed::is_marked_removed;
use crate::cache::Ctx;
use crate::files::{crc32_of_file, join_relative};
use crate::kvtree::KvTree;
use crate::records::{FileMeta, Summary};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Odd {
    pub name: String,
    pub size: u64,
    pub length: Option<u64>,
    pub changed: bool,
    /// It has other contents, or more of them, than a part of what it was.
    pub differs: bool,
    pub wrong: Option<String>,
    /// The program, which has no ids, was writing it again.
    pub rewritten: bool,
    /// Another checkpoint has it, too, or somebody has chosen by it where to begin, or the program
    /// has deleted it since.
    pub is_pointer: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub odd: Vec<Odd>,
    pub unchecked: Unchecked,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PrefixVerdict {
    pub fault: Option<String>,
    pub gone: bool,
    pub anew: bool,
    pub remark: Option<String>,
    pub unchecked: Unchecked,
    /// All files have new times, some are shorter, and none is known to be of another state.
    pub cut_short: bool,
}

/// Files that the program wrote to the prefix itself: their contents cannot be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unchecked {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Name of the first that was written to after the dataset was complete.
    pub touched: Option<String>,
}

impl fmt::Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unchecked { files, bytes, touched } = self;
        write!(
            f,
            "{files} of its files ({bytes} bytes) have no checksum, since the program wrote them \
             to the prefix itself, or died while they were flushed; "
        )?;
        match touched {
            Some(name) => {
                write!(f, "{name} was written to after it was complete, by whom is not known")
            }
            None => f.write_str("sizes and times are right"),
        }
    }
}

impl Findings {
    /// Looks at the files that this rank wrote, if there are as many ranks as then: what it reads
    /// is in its node's memory when the program asks for it.
    pub fn of_share(
        ctx: &Ctx,
        summary: &Summary,
        contents: bool,
        changed: &BTreeSet<String>,
        may_change: &dyn Fn(&FileMeta) -> bool,
    ) -> Findings {
        let (rank, size) = (ctx.world.rank(), ctx.world.size());
        let share = summary.files.iter().filter(|(owner, _)| **owner % size == rank);
        let mut found = Findings::default();
        for file in share.flat_map(|(_, files)| files) {
            found.look(ctx.prefix, summary, file, contents && !file.is_shared, may_change);
            if changed.contains(&file.name) {
                found.note_content(ctx.prefix, file);
            }
        }
        found
    }

    /// All ranks together have found that it has other contents.
    fn note_content(&mut self, prefix: &Path, file: &FileMeta) {
        let known = self.odd.iter().position(|odd| odd.name == file.name);
        let (name, size, changed) = (file.name.clone(), file.size, is_changed(prefix, file));
        let new = Odd { name, size, length: Some(size), changed, ..Odd::default() };
        let at = known.unwrap_or_else(|| {
            self.odd.push(new);
            self.odd.len() - 1
        });
        let odd = &mut self.odd[at];
        if odd.wrong.is_none() && odd.length.is_some() {
            (odd.differs, odd.wrong) = (true, Some(other_content(&file.name)));
        }
    }

    pub fn look(
        &mut self,
        prefix: &Path,
        summary: &Summary,
        file: &FileMeta,
        contents: bool,
        may_change: &dyn Fn(&FileMeta) -> bool,
    ) {
        let key = &summary.dataset.key;
        // Without ids the program writes the same files again: what it left half written is what
        // it would find without us, too.
        let in_place = key.id.is_empty();
        let changed = is_changed(prefix, file);
        let rewritten = in_place && changed && may_change(file);
        // One of another generation may be as long; the time tells that it is not this one's.
        let contents = (contents || in_place && changed) && !rewritten;
        let path = join_relative(prefix, &file.name).ok();
        let path = path.as_deref();
        let length = path.and_then(length_of);
        let is_pointer = key.is_shared_name(&file.name) && (changed || length.is_none());
        // What the program has deleted itself is no damage of what it keeps.
        let deleted = length.is_none() && is_marked_removed(prefix, &key.series, &key.id);
        let wrong = wrong(path.unwrap_or(prefix), length, file, contents).filter(|_| !deleted);
        if file.crc32.is_none() && length.is_some() && !rewritten {
            self.unchecked.files += 1;
            self.unchecked.bytes = self.unchecked.bytes.saturating_add(file.size);
            let touched = (changed && !is_pointer).then(|| file.name.clone());
            self.unchecked.touched = self.unchecked.touched.take().or(touched);
        }
        if length.is_none() || changed || wrong.is_some() {
            let differs = length.is_some_and(|length| {
                length > file.size || (length == file.size && wrong.is_some())
            });
            self.odd.push(Odd {
                name: file.name.clone(),
                size: file.size,
                length,
                changed,
                differs,
                wrong,
                rewritten,
                is_pointer,
            });
        }
    }

    pub fn add(&mut self, other: Findings) {
        self.odd.extend(other.odd);
        self.unchecked.files += other.unchecked.files;
        self.unchecked.bytes = self.unchecked.bytes.saturating_add(other.unchecked.bytes);
        let touched = self.unchecked.touched.take();
        self.unchecked.touched = touched.or(other.unchecked.touched);
    }

    /// Returns the names of the files that are wrong, unless a newer dataset has them.
    pub fn suspects(&self) -> BTreeSet<String> {
        let wrong = self.odd.iter().filter(|odd| odd.wrong.is_some() && !odd.rewritten);
        wrong.map(|odd| odd.name.clone()).collect()
    }

    pub fn faults(&self, others: &BTreeSet<String>) -> Vec<String> {
        let own = |odd: &&Odd| !odd.rewritten && !odd.is_pointer && !others.contains(&odd.name);
        self.odd.iter().filter(own).filter_map(|odd| odd.wrong.clone()).collect()
    }

    /// Decides what follows for a dataset of `files` files, of which newer ones have `others`.
    pub fn judge(self, files: usize, others: &BTreeSet<String>) -> PrefixVerdict {
        let Findings { odd, unchecked } = self;
        let (rewritten, odd): (Vec<Odd>, Vec<Odd>) = odd.into_iter().partition(|one| one.rewritten);
        let (theirs, odd): (Vec<Odd>, Vec<Odd>) = odd
            .into_iter()
            .partition(|one| one.wrong.is_some() && (one.is_pointer || others.contains(&one.name)));
        let files = files.saturating_sub(rewritten.len() + theirs.len());
        let count = |is: &dyn Fn(&Odd) -> bool| odd.iter().filter(|one| is(one)).count();
        let all_changed = files > 0 && count(&|one| one.changed) == files;
        let is_shorter = |one: &Odd| one.length.is_some_and(|length| length < one.size);
        let cut_short = all_changed && odd.iter().any(is_shorter) && count(&|one| one.differs) == 0;
        let anew = all_changed && !cut_short;
        let wrong = odd.iter().find_map(|one| one.wrong.clone());
        let missing = files > 0 && count(&|one| one.length.is_none()) == files;
        let gone = missing || anew && wrong.is_some();
        let left_half = rewritten.into_iter().find_map(|one| one.wrong);
        let remark = match &wrong {
            Some(wrong) if anew => Some(format!("all its files were written anew since ({wrong})")),
            _ => left_half.map(|wrong| format!("{wrong}; it was written to since")),
        };
        let fault = wrong.filter(|_| !gone);
        PrefixVerdict { fault, gone, anew, remark, unchecked, cut_short }
    }

    pub fn to_tree(&self) -> KvTree {
        let mut tree = self.unchecked.to_tree();
        for (index, odd) in self.odd.iter().enumerate() {
            tree.child_mut("ODD").set(index, odd.to_tree());
        }
        tree
    }

    pub fn from_tree(tree: &KvTree) -> Findings {
        let odd = tree.child("ODD").iter().map(|(_, odd)| Odd::from_tree(odd)).collect();
        Findings { odd, unchecked: Unchecked::from_tree(tree) }
    }
}

impl Odd {
    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("NAME", &self.name);
        tree.set_value("SIZE", self.size);
        tree.set_flag("CHANGED", self.changed);
        tree.set_flag("DIFFERS", self.differs);
        tree.set_flag("REWRITTEN", self.rewritten);
        tree.set_flag("POINTER", self.is_pointer);
        if let Some(length) = self.length {
            tree.set_value("LENGTH", length);
        }
        if let Some(wrong) = &self.wrong {
            tree.set_value("WRONG", wrong);
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Odd {
        Odd {
            name: tree.get_value("NAME").unwrap_or_default().to_owned(),
            size: tree.get_u64("SIZE").unwrap_or(0),
            length: tree.get_u64("LENGTH"),
            changed: tree.get_flag("CHANGED"),
            differs: tree.get_flag("DIFFERS"),
            wrong: tree.get_value("WRONG").map(str::to_owned),
            rewritten: tree.get_flag("REWRITTEN"),
            is_pointer: tree.get_flag("POINTER"),
        }
    }
}

impl Unchecked {
    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("UNCHECKED", self.files);
        tree.set_value("BYTES", self.bytes);
        if let Some(name) = &self.touched {
            tree.set_value("TOUCHED", name);
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Unchecked {
        Unchecked {
            files: tree.get_u64("UNCHECKED").unwrap_or(0),
            bytes: tree.get_u64("BYTES").unwrap_or(0),
            touched: tree.get_value("TOUCHED").map(str::to_owned),
        }
    }
}

impl PrefixVerdict {
    pub fn to_tree(&self) -> KvTree {
        let mut tree = self.unchecked.to_tree();
        for (key, text) in [("FAULT", &self.fault), ("REMARK", &self.remark)] {
            if let Some(text) = text {
                tree.set_value(key, text);
            }
        }
        tree.set_flag("GONE", self.gone);
        tree.set_flag("ANEW", self.anew);
        tree.set_flag("CUT_SHORT", self.cut_short);
        tree
    }

    pub fn from_tree(tree: &KvTree) -> PrefixVerdict {
        PrefixVerdict {
            fault: tree.get_value("FAULT").map(str::to_owned),
            gone: tree.get_flag("GONE"),
            anew: tree.get_flag("ANEW"),
            remark: tree.get_value("REMARK").map(str::to_owned),
            unchecked: Unchecked::from_tree(tree),
            cut_short: tree.get_flag("CUT_SHORT"),
        }
    }
}

pub(crate) fn is_changed(prefix: &Path, file: &FileMeta) -> bool {
    join_relative(prefix, &file.name).is_ok_and(|path| {
        let same = |size| is_published(&path, &FileMeta { size, ..file.clone() });
        length_of(&path).is_some_and(|size| !same(size))
    })
}

pub(crate) fn is_right(path: &Path, meta: &FileMeta, contents: bool) -> bool {
    wrong(path, length_of(path), meta, contents).is_none()
}

pub(super) fn length_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.len())
}

/// Tells what is wrong with a file that has `length` bytes now, if it is there.
pub(super) fn wrong(
    path: &Path,
    length: Option<u64>,
    meta: &FileMeta,
    contents: bool,
) -> Option<String> {
    let name = &meta.name;
    let Some(length) = length else {
        // The program may have deleted it before the flush that listed it.
        return (!meta.on_prefix).then(|| format!("{name} is missing"));
    };
    if length < meta.size || (length > meta.size && !meta.on_prefix) {
        let size = meta.size;
        return Some(format!("{name} has {length} bytes, and had {size} when it was complete"));
    }
    let expected = meta.crc32.filter(|_| contents)?;
    match crc32_of_file(path) {
        Ok((_, found)) if found == expected => None,
        Ok(_) => Some(other_content(name)),
        Err(error) => Some(error.to_string()),
    }
}

fn other_content(name: &str) -> String {
    format!("{name} has not the content that it was flushed with")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(name: &str, length: Option<u64>, changed: bool) -> Odd {
        let wrong = (length != Some(8)).then(|| format!("{name} is wrong"));
        let differs = length.is_some_and(|length| length > 8);
        let name = name.to_owned();
        Odd { name, size: 8, length, changed, differs, wrong, ..Odd::default() }
    }

    /// Of a dataset of two files; what is said travels.
    fn judged(odd: Vec<Odd>, others: &[&str]) -> PrefixVerdict {
        let found = Findings { odd, unchecked: Unchecked::default() };
        let found = Findings::from_tree(&found.to_tree());
        let others = others.iter().map(|name| (*name).to_owned()).collect();
        let verdict = found.judge(2, &others);
        assert_eq!(PrefixVerdict::from_tree(&verdict.to_tree()), verdict);
        verdict
    }

    #[test]
    fn a_copy_that_was_cut_short_is_damage_and_another_state_is_somebodys_word() {
        let copied = judged(vec![odd("a", Some(8), true), odd("b", Some(8), true)], &[]);
        assert_eq!(
            (copied.anew, copied.gone, copied.fault, copied.remark),
            (true, false, None, None)
        );
        let cut = judged(vec![odd("a", Some(8), true), odd("b", Some(3), true)], &[]);
        assert_eq!((cut.anew, cut.gone, cut.cut_short), (false, false, true));
        assert_eq!(cut.fault.as_deref(), Some("b is wrong"));
        let other = judged(vec![odd("a", Some(9), true), odd("b", Some(3), true)], &[]);
        assert_eq!((other.anew, other.gone, other.fault), (true, true, None));
        assert!(other.remark.is_some_and(|remark| remark.contains("(a is wrong)")));
    }

    #[test]
    fn what_is_deleted_as_a_whole_is_gone_and_in_part_damaged() {
        let gone = judged(vec![odd("a", None, false), odd("b", None, false)], &[]);
        assert_eq!((gone.gone, gone.fault, gone.remark), (true, None, None));
        let part = judged(vec![odd("a", None, false)], &[]);
        assert_eq!((part.gone, part.fault.as_deref()), (false, Some("a is wrong")));
        let mixed = judged(vec![odd("a", None, false), odd("b", Some(9), true)], &[]);
        assert_eq!((mixed.gone, mixed.fault.as_deref()), (false, Some("a is wrong")));
    }

    #[test]
    fn what_others_have_written_does_not_count_and_what_was_left_half_is_told() {
        assert_eq!(judged(vec![odd("a", Some(3), true)], &["a"]), PrefixVerdict::default());
        let pointer = Odd { is_pointer: true, ..odd("a", Some(3), true) };
        assert_eq!(judged(vec![pointer], &[]), PrefixVerdict::default());
        let half = Odd { rewritten: true, ..odd("a", Some(3), true) };
        let half = judged(vec![half], &[]);
        assert_eq!((half.gone, half.fault), (false, None));
        assert!(half.remark.is_some_and(|remark| remark.contains("a is wrong")));
    }

    #[test]
    fn what_has_no_checksum_is_told_of_once_it_was_written_to() {
        let mut unchecked = Unchecked { files: 2, bytes: 90, touched: None };
        assert!(unchecked.to_string().ends_with("sizes and times are right"));
        unchecked.touched = Some("d/a".into());
        let text = unchecked.to_string();
        assert!(text.starts_with("2 of its files (90 bytes) have no checksum"), "{text}");
        assert!(text.contains("d/a was written to after it was complete"), "{text}");
    }
}
