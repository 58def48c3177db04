//! Parity files worked out by hand from manual 1.1, sections 3.4 and 7.3, byte for byte; that of RS
//! from the head of `redundancy/header.rs`, too.
//!
//! World ranks 3, 5 and 7 have one file each. With XOR:
//!
//! ```text
//!             file          slot 0   slot 1   slot 2      (chunk = ceil(4 / 2) = 2)
//! member 0    01 02 03 04   parity   01 02    03 04
//! member 1    10 20 30      10 20    parity   30 00
//! member 2    ff            ff 00    00 00    parity
//! parity                    ef 20    01 02    33 04
//! ```
//! With RS and two losses the chunk is 4 bytes, and in each slot two members keep a multiple of the
//! one piece there is: 1 times and f5 times it (see `reed_solomon.rs`). Member 1 keeps the piece of
//! member 0, 01 02 03 04, as parity 0 of slot 1, and f5 times that of member 2, ff, as parity 1 of
//! slot 0. f5 * ff is the sum of f5 times 1, 2, 4, ... 80:
//! f5 + f7 + f3 + fb + eb + cb + 8b + 0b = aa.

use std::fs;

use scr_core::kvtree::KvTree;
use scr_core::records::FileMeta;

use super::Cluster;

/// Checksums of the three files, as zlib computes them.
const CRCS: [&str; 3] = ["0xb63cfbcd", "0x503a6e6c", "0xff000000"];

/// A packed element: the key, then what is below it.
fn node(key: &str, below: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = key.as_bytes().to_vec();
    bytes.push(0);
    bytes.extend((below.len() as u32).to_be_bytes());
    bytes.extend(below.concat());
    bytes
}

/// A key with one value.
fn value(key: &str, value: &str) -> Vec<u8> {
    node(key, &[node(value, &[])])
}

fn list(world_rank: &str, size: &str, crc: &str, mtime: i64) -> Vec<Vec<u8>> {
    let file = node(
        "0",
        &[
            value("CKPT", "6"),
            value("COMPLETE", "1"),
            value("CRC", crc),
            value("FILE", "f"),
            value("MODE", "640"),
            value("MTIME", &mtime.to_string()),
            value("MTIME_NSECS", "0"),
            value("RANK", world_rank),
            value("RANKS", "99"),
            value("SIZE", size),
            value("TYPE", "FULL"),
        ],
    );
    vec![
        node("FILE", &[file]),
        value("FILES", "1"),
        value("HOST", &format!("host{world_rank}")),
        value("RANK", world_rank),
        node("RECORD", &[value("EXPECT", "1")]),
    ]
}

/// CRC32 bit by bit, so that the test shares nothing with the code.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    })
}

/// The three members with their files.
fn cluster(scheme: &str) -> Cluster {
    let mut cluster = Cluster::new(scheme, &[vec![], vec![], vec![]]);
    let contents: [&[u8]; 3] = [&[1, 2, 3, 4], &[0x10, 0x20, 0x30], &[0xff]];
    for (member, bytes) in contents.into_iter().enumerate() {
        fs::write(cluster.dir(member).join("f"), bytes).unwrap();
        let file = FileMeta {
            name: "f".into(),
            size: bytes.len() as u64,
            mode: 0o640,
            mtime_seconds: 1000 + member as i64,
            ..FileMeta::default()
        };
        let mut record = KvTree::new();
        record.set_value("EXPECT", 1);
        cluster.originals[member].files = vec![file];
        cluster.originals[member].record = record;
    }
    cluster.encode();
    cluster
}

fn group() -> Vec<u8> {
    let ranks = node("RANK", &[value("0", "3"), value("1", "5"), value("2", "7")]);
    node("GROUP", &[ranks, value("RANKS", "3")])
}

/// The file form of a tree, whose elements are given in the order of their keys.
fn file_form(elements: &[Vec<u8>]) -> Vec<u8> {
    let packed = node("", elements);
    // The outermost tree has no key of its own.
    let packed = &packed[1..];
    let mut bytes = vec![0x95, 0x1f, 0xc3, 0xf5, 0, 1, 0, 1];
    bytes.extend((20 + packed.len() as u64 + 4).to_be_bytes());
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(packed);
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes
}

#[test]
fn an_xor_file_worked_out_by_hand() {
    let cluster = cluster("XOR");
    let mut expected = file_form(&[
        value("CHUNK", "2"),
        value("CKPT", "6"),
        node("CURRENT", &list("5", "3", CRCS[1], 1001)),
        value("DSET", "6"),
        value("EPOCH", "000000000000feed"),
        group(),
        value("PADDING", ""),
        node("PARTNER", &list("3", "4", CRCS[0], 1000)),
        value("RANKS", "99"),
    ]);
    expected.extend([0x01, 0x02]);
    let found = fs::read(cluster.dir(1).join(".scr/2_of_3_in_3.xor")).unwrap();
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
    let parity = |member: usize| {
        let bytes = fs::read(cluster.redundancy_file(member)).unwrap();
        bytes[bytes.len() - 2..].to_vec()
    };
    assert_eq!([parity(0), parity(2)], [[0xef, 0x20], [0x33, 0x04]]);
}

#[test]
fn a_reed_solomon_file_worked_out_by_hand() {
    let cluster = cluster("RS2");
    let partners =
        [node("1", &list("3", "4", CRCS[0], 1000)), node("2", &list("7", "1", CRCS[2], 1002))];
    let mut expected = file_form(&[
        value("CHUNK", "4"),
        value("CKPT", "6"),
        value("CODE", "CAUCHY_11D"),
        node("CURRENT", &list("5", "3", CRCS[1], 1001)),
        value("DSET", "6"),
        value("EPOCH", "000000000000feed"),
        value("FAILURES", "2"),
        group(),
        value("PADDING", ""),
        node("PARTNER", &partners),
        value("RANKS", "99"),
    ]);
    expected.extend([0x01, 0x02, 0x03, 0x04, 0xaa, 0x00, 0x00, 0x00]);
    let found = fs::read(cluster.dir(1).join(".scr/2_of_3_in_3.rs")).unwrap();
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
}
