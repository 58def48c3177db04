//! How numbers that the documents write in a special way look in a tree.

/// Formats a CRC32 as the documents' C library prints it: `0x` and hex without padding.
#[must_use]
pub fn crc_text(crc32: u32) -> String {
    format!("{crc32:#x}")
}

/// Reads a CRC32 of any width, with or without `0x`.
#[must_use]
pub fn parse_crc(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // from_str_radix alone would accept a sign.
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if all_hex { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// Formats an epoch: 16 hex digits, so that it can be a part of file names.
#[must_use]
pub fn epoch_text(epoch: u64) -> String {
    format!("{epoch:016x}")
}

/// Reads an epoch.
#[must_use]
pub fn parse_epoch(text: &str) -> Option<u64> {
    let all_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if all_hex { u64::from_str_radix(text, 16).ok() } else { None }
}

/// Formats bytes as two hex digits each.
#[must_use]
pub fn hex_text(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads bytes that [`hex_text`] has written.
#[must_use]
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pair = |two: &[u8]| match two {
        [high, low] => Some(digit(high)? * 16 + digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
