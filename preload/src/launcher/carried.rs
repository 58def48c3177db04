//! Our variables on a command line, in one word that passes unharmed through launchers and remote
//! shells: what is not a letter, a digit or one of `_./:=+@,-` is written as `%XX`, and NUL ends
//! each `NAME=value`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub(crate) const NAME: &str = "SCR_LAUNCH_ENV";

pub(crate) fn encode(variables: &[(OsString, OsString)]) -> String {
    let mut word = String::new();
    for (name, value) in variables {
        for &byte in name.as_bytes().iter().chain(b"=").chain(value.as_bytes()).chain(b"\0") {
            if byte.is_ascii_alphanumeric() || b"_./:=+@,-".contains(&byte) {
                word.push(char::from(byte));
            } else {
                word.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    word
}

pub(crate) fn decode(word: &OsStr) -> Vec<(OsString, OsString)> {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let hex = |at: usize| tail.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = &tail[2..];
            }
            _ => bytes.push(byte),
        }
    }
    let mut variables = Vec::new();
    for entry in bytes.split(|&byte| byte == 0) {
        if let Some(equals) = entry.iter().position(|&byte| byte == b'=')
            && equals > 0
        {
            let (name, value) = (entry[..equals].to_vec(), entry[equals + 1..].to_vec());
            variables.push((OsString::from_vec(name), OsString::from_vec(value)));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_survives_and_no_shell_sees_anything_special() {
        let variables: Vec<(OsString, OsString)> = [
            ("SCR_CHECKPOINT_PATTERN", "ckpt/{id}/r_{rank}.dat, it's  two\\ $HOME \"x\""),
            ("SCR_EMPTY", ""),
            ("SCR_LINES", "a\nb=c%41"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        let word = encode(&variables);
        assert!(
            word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./:=+@,-%".contains(&byte))
        );
        assert_eq!(decode(OsStr::new(&word)), variables);
    }

    #[test]
    fn any_word_is_readable() {
        assert_eq!(decode(OsStr::new("")), []);
        assert_eq!(decode(OsStr::new("no equals%00=x%00%zz%4")), []);
    }
}
