//! Reports as bytes: fields in order, numbers as big-endian words, lists and texts behind their
//! length, options behind a flag.

use super::accesses::Accesses;
use super::keys::DatasetKey;
use super::reason::Why;
use super::report::{
    DatasetReport, EncodingReport, ProgramWord, Report, SealedNews, SealedReport, SeriesReport,
    SetReport, UnsafeName,
};
use crate::bytes::{Reader, Writer};

/// First byte of every report; raised at every change.
const VERSION: u8 = 15;

impl Report {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.byte(VERSION);
        self.put(&mut out);
        out.take()
    }

    /// Returns `None` for anything that [`Report::to_bytes`] cannot have made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Report> {
        let mut from = Reader::new(bytes);
        let read = if from.byte()? == VERSION { Wire::get(&mut from)? } else { return None };
        from.whole(read)
    }
}

/// What has a form in bytes.
trait Wire: Sized {
    fn put(&self, out: &mut Writer);
    fn get(from: &mut Reader) -> Option<Self>;
}

macro_rules! fields {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Writer) {
                let $name { $($field),* } = self;
                $($field.put(out);)*
            }

            fn get(from: &mut Reader) -> Option<Self> {
                Some($name { $($field: Wire::get(from)?),* })
            }
        }
    )*};
}

fields! {
    Report {
        entropy, digest, halt, ending, fallen_back, scarce, aside, series, datasets, sealed
    }
    SeriesReport {
        writes_nothing, interval_ms, distance, unsafe_names, rewrites, learned, written, read,
        deleted, unlinked, amended, moved, revived, taken, begun, watched, restless
    }
    UnsafeName { name, kind, bare, why }
    DatasetReport {
        key, open, files, on_prefix, named_there, bytes, encoding, begun, order, sealed, quiet_ms,
        since_begun_ms, followed, invalid, replaced, after, returns, set, word
    }
    DatasetKey { series, id, generation }
    EncodingReport { encoded, failed, spoiled }
    SetReport { excess, covers, settled, lacks }
    ProgramWord { output, abandoned }
    SealedReport { id, news }
    SealedNews { deleted_from, live, held, kept }
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Writer) {
                out.word(*self as u64);
            }

            fn get(from: &mut Reader) -> Option<Self> {
                let word = from.word()?;
                let number = word as $name;
                (number as u64 == word).then_some(number)
            }
        }
    )*};
}

numbers! { u64 i64 u32 usize }

impl Wire for bool {
    fn put(&self, out: &mut Writer) {
        out.byte(u8::from(*self));
    }

    fn get(from: &mut Reader) -> Option<Self> {
        from.byte().map(|byte| byte != 0)
    }
}

impl Wire for Accesses {
    fn put(&self, out: &mut Writer) {
        out.counted(&self.to_bytes());
    }

    fn get(from: &mut Reader) -> Option<Self> {
        Accesses::from_bytes(from.counted()?)
    }
}

impl Wire for Why {
    fn put(&self, out: &mut Writer) {
        Why::ALL.iter().position(|why| why == self).unwrap_or_default().put(out);
    }

    fn get(from: &mut Reader) -> Option<Self> {
        Why::ALL.get(from.size()?).copied()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Writer) {
        out.counted(self.as_bytes());
    }

    fn get(from: &mut Reader) -> Option<Self> {
        from.text()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Writer) {
        self.is_some().put(out);
        self.iter().for_each(|one| one.put(out));
    }

    fn get(from: &mut Reader) -> Option<Self> {
        if bool::get(from)? { T::get(from).map(Some) } else { Some(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Writer) {
        out.list(self, |out, one| one.put(out));
    }

    fn get(from: &mut Reader) -> Option<Self> {
        from.list(|from| T::get(from))
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(from: &mut Reader) -> Option<Self> {
        Some((A::get(from)?, B::get(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;
    use proptest::prelude::*;

    fn sample() -> Report {
        Report {
            entropy: 7,
            digest: u64::MAX,
            halt: -3,
            ending: true,
            fallen_back: true,
            scarce: true,
            aside: true,
            series: vec![SeriesReport {
                writes_nothing: true,
                interval_ms: 40,
                distance: Some(2),
                unsafe_names: vec![UnsafeName { name: 1, kind: 2, bare: true, why: Why::GoesOn }],
                watched: vec![Accesses { name: 1, file: 2, ..Accesses::default() }],
                rewrites: false,
                learned: true,
                written: vec![3],
                deleted: vec![("a/b".into(), 7)],
                revived: vec!["c".into()],
                moved: vec!["a/b".into()],
                unlinked: vec!["a/b".into()],
                amended: vec![("a/g".into(), 4)],
                taken: vec![("a/d".into(), 8)],
                begun: vec![("a/e".into(), 6)],
                restless: vec![("run.log".into(), 8)],
                read: vec![(4, true), (5, false)],
            }],
            datasets: vec![DatasetReport {
                key: DatasetKey::new(0, "20", 1),
                open: 1,
                files: 2,
                on_prefix: 3,
                named_there: 2,
                bytes: 13,
                encoding: EncodingReport { encoded: true, failed: true, spoiled: false },
                begun: true,
                order: 9,
                sealed: true,
                set: SetReport { excess: Some(12), covers: true, settled: true, lacks: true },
                word: ProgramWord { output: true, abandoned: true },
                quiet_ms: 11,
                since_begun_ms: 12,
                followed: false,
                invalid: Some("No space left".into()),
                replaced: vec![("a/f".into(), 5)],
                after: Some(DatasetKey::new(0, "10", 0)),
                returns: true,
            }],
            sealed: vec![SealedReport {
                id: 9,
                news: SealedNews { deleted_from: true, live: false, held: true, kept: true },
            }],
        }
    }

    #[test]
    fn a_report_survives_the_way_there_and_back() {
        let report = sample();
        assert_eq!(crc32(&report.to_bytes()), 0xca7b_b58f, "raise VERSION if the form changes");
        assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
        assert_eq!(Report::from_bytes(&Report::default().to_bytes()), Some(Report::default()));
    }

    #[test]
    fn every_cut_and_every_addition_is_refused() {
        let bytes = sample().to_bytes();
        for length in 0..bytes.len() {
            assert_eq!(Report::from_bytes(&bytes[..length]), None, "cut at {length}");
        }
        assert_eq!(Report::from_bytes(&[bytes, vec![0]].concat()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn damaged_bytes_never_panic(at in 0usize..120, byte: u8) {
            let mut bytes = sample().to_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = Report::from_bytes(&bytes);
        }
    }
}
