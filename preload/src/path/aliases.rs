//! Directories that the patterns name and that are symbolic links (`ckpt -> /scratch/me/ckpt`), as
//! the engine found them at the launch. A file there has one name, whichever way the program takes:
//! that below the prefix, through the link.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::path::text::below;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    /// The link is absolute, and canonical but for itself.
    pub name: Vec<u8>,
    /// The link leads to this canonical name.
    pub place: Vec<u8>,
}

static ALIASES: AtomicPtr<Vec<Alias>> = AtomicPtr::new(std::ptr::null_mut());

/// Leaks the old ones: it is called once or twice in a process's life.
pub(crate) fn set(aliases: Vec<Alias>) {
    ALIASES.store(Box::into_raw(Box::new(aliases)), Ordering::Release);
}

pub(crate) fn all() -> &'static [Alias] {
    // SAFETY: the pointer is null or leaked from a box in `set`, hence valid for ever.
    unsafe { ALIASES.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
}

pub(crate) fn named(real: Vec<u8>) -> Vec<u8> {
    let around = all().iter().filter(|alias| below(&alias.place, &real));
    match around.max_by_key(|alias| alias.place.len()) {
        Some(alias) => [&alias.name, &real[alias.place.len()..]].concat(),
        None => real,
    }
}

pub(crate) fn physical(name: &[u8]) -> Vec<u8> {
    let around = all().iter().filter(|alias| below(&alias.name, name));
    match around.max_by_key(|alias| alias.name.len()) {
        Some(alias) => [&alias.place, &name[alias.name.len()..]].concat(),
        None => name.to_vec(),
    }
}

/// Writes for the environment of children: canonical paths, each behind a slash more than it has,
/// since none of them contains two in a row.
pub(crate) fn to_text(prefix: &[u8], aliases: &[Alias]) -> Vec<u8> {
    let mut text = prefix.to_vec();
    for path in aliases.iter().flat_map(|alias| [&alias.name, &alias.place]) {
        text.push(b'/');
        text.extend_from_slice(path);
    }
    text
}

pub(crate) fn from_text(text: &[u8]) -> (Vec<u8>, Vec<Alias>) {
    let cut = text.windows(2).position(|pair| pair == b"//").unwrap_or(text.len());
    let (prefix, mut rest) = text.split_at(cut);
    let mut paths = Vec::new();
    while let Some(path) = rest.strip_prefix(b"/") {
        let cut = path.windows(2).position(|pair| pair == b"//").unwrap_or(path.len());
        paths.push(path[..cut].to_vec());
        rest = &path[cut..];
    }
    let (pairs, _) = paths.as_chunks::<2>();
    let alias = |[name, place]: &[Vec<u8>; 2]| Alias { name: name.clone(), place: place.clone() };
    (prefix.to_vec(), pairs.iter().map(alias).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_read_what_the_rank_wrote() {
        let alias = |name: &str, place: &str| Alias { name: name.into(), place: place.into() };
        let two = [alias("/p:q/a/b", "/s/x"), alias("/p:q/a", "/s")];
        for aliases in [&two[..], &two[1..], &[]] {
            let text = to_text(b"/p:q", aliases);
            assert_eq!(from_text(&text), (b"/p:q".to_vec(), aliases.to_vec()));
        }
        assert_eq!(from_text(&to_text(b"/", &[])), (b"/".to_vec(), Vec::new()));
    }
}
