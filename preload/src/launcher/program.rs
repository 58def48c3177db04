//! The program that a launcher is about to start: a statically linked one cannot be served.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const HEAD_BYTES: u64 = 8192;
/// This program header means that a dynamic loader comes first.
const PT_INTERP: u32 = 3;

/// Looks at the first word of each part (parts end at `:`) that is an executable: option values
/// hardly ever are.
pub(super) fn static_program(arguments: &[OsString], search: &OsStr) -> Option<PathBuf> {
    let words = arguments.get(1..).unwrap_or_default();
    words.split(|word| word == ":").find_map(|part| {
        let program = part
            .iter()
            .filter(|word| !word.as_bytes().starts_with(b"-"))
            .find_map(|word| executable(word, search))?;
        is_static(&program).then_some(program)
    })
}

/// Looks behind the options; the number of words if none of them can be executed here.
pub(super) fn index(arguments: &[OsString], search: &OsStr) -> usize {
    let is_program =
        |word: &OsString| !word.as_bytes().starts_with(b"-") && executable(word, search).is_some();
    let found = arguments.iter().skip(1).position(is_program);
    found.map_or(arguments.len(), |at| at + 1)
}

fn executable(word: &OsStr, search: &OsStr) -> Option<PathBuf> {
    let runs = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|path| runs(path));
    }
    let places = std::env::split_paths(search).map(|place| place.join(word));
    places.chain([PathBuf::from(word)]).find(|path| runs(path))
}

fn is_static(path: &Path) -> bool {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head))
        .is_ok_and(|_| lacks_interpreter(&head))
}

/// Only native 64-bit ELF executables are read. What we cannot read is not static.
fn lacks_interpreter(head: &[u8]) -> bool {
    let short = |at: usize| head.get(at..at + 2).map(|raw| u16::from_ne_bytes([raw[0], raw[1]]));
    let word = |at: usize| {
        head.get(at..at + 4).map(|raw| u32::from_ne_bytes([raw[0], raw[1], raw[2], raw[3]]))
    };
    let Some(identity) = head.get(..6) else { return false };
    let native = if cfg!(target_endian = "little") { 1 } else { 2 };
    if !identity.starts_with(b"\x7fELF") || identity[4] != 2 || identity[5] != native {
        return false;
    }
    // Offset of the program headers (its upper half is zero in practice), their size and number.
    let at = if cfg!(target_endian = "little") { 32 } else { 36 };
    let (Some(offset), Some(size), Some(count)) = (word(at), short(54), short(56)) else {
        return false;
    };
    for index in 0..usize::from(count) {
        match word(offset as usize + index * usize::from(size)) {
            Some(PT_INTERP) | None => return false,
            Some(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_test_program_is_dynamic_and_its_header_without_interpreter_is_not() {
        let own = std::env::current_exe().unwrap();
        assert!(!is_static(&own));
        let mut head = std::fs::read(&own).unwrap();
        head.truncate(usize::try_from(HEAD_BYTES).unwrap());
        let size = usize::from(u16::from_ne_bytes([head[54], head[55]]));
        let count = usize::from(u16::from_ne_bytes([head[56], head[57]]));
        for index in 0..count {
            let at = 64 + index * size;
            if head[at..at + 4] == PT_INTERP.to_ne_bytes() {
                head[at..at + 4].copy_from_slice(&0_u32.to_ne_bytes());
            }
        }
        assert!(lacks_interpreter(&head));
        assert!(!lacks_interpreter(b"#!/bin/sh\n") && !lacks_interpreter(&head[..70]));
    }

    #[test]
    fn the_program_is_found_behind_options() {
        let own = std::env::current_exe().unwrap();
        let words = |line: &[&str]| line.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(executable(own.as_os_str(), OsStr::new("")), Some(own));
        assert_eq!(executable(OsStr::new("sh"), OsStr::new("/bin")), Some("/bin/sh".into()));
        assert_eq!(static_program(&words(&["mpirun", "-n", "4", "sh"]), OsStr::new("/bin")), None);
    }
}
