//! Reports as bytes: fields in order, integers big-endian, lists and texts behind their length.

use super::accesses::Accesses;
use super::keys::DatasetKey;
use super::reason::Why;
use super::report::{
    DatasetReport, EncodingReport, ProgramWord, Report, SealedNews, SealedReport, SeriesReport,
    SetReport, UnsafeName,
};
use crate::bytes::{Reader, Writer};

/// First byte of every report; raised at every change.
const VERSION: u8 = 11;

impl Report {
    /// Makes the bytes of the report for an all-gather.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.byte(VERSION).word(self.entropy).word(self.digest).word(self.halt as u64);
        out.flags(&[self.ending, self.fallen_back, self.scarce, self.aside]);
        out.list(&self.series, put_series).list(&self.datasets, put_dataset);
        out.list(&self.sealed, |out, sealed| {
            let SealedNews { deleted_from, live, held, kept } = sealed.news;
            out.word(sealed.id).flags(&[deleted_from, live, held, kept]);
        });
        out.take()
    }

    /// Reads the report; `None` for anything that [`Report::to_bytes`] cannot have made.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Report> {
        let mut from = Reader::new(bytes);
        if from.byte()? != VERSION {
            return None;
        }
        let (entropy, digest, halt) = (from.word()?, from.word()?, from.word()? as i64);
        let [ending, fallen_back, scarce, aside] = from.flags()?;
        let (series, datasets) = (from.list(series)?, from.list(dataset)?);
        let sealed = from.list(|from| {
            let (id, [deleted_from, live, held, kept]) = (from.word()?, from.flags()?);
            Some(SealedReport { id, news: SealedNews { deleted_from, live, held, kept } })
        })?;
        from.whole(Report {
            entropy,
            digest,
            halt,
            ending,
            fallen_back,
            scarce,
            aside,
            series,
            datasets,
            sealed,
        })
    }
}

fn put_series(out: &mut Writer, series: &SeriesReport) {
    let SeriesReport { writes_nothing, rewrites, learned, distance, .. } = *series;
    out.flags(&[writes_nothing, rewrites, learned, distance.is_some()]);
    out.word(series.interval_ms).word(distance.unwrap_or(0));
    out.list(&series.unsafe_names, |out, mark| {
        out.word(mark.name).word(mark.why.number()).flags(&[mark.bare]);
    });
    out.list(&series.written, |out, name| _ = out.word(*name));
    out.list(&series.read, |out, (name, bare)| _ = out.word(*name).flags(&[*bare]));
    for names in [&series.deleted, &series.taken, &series.begun, &series.restless] {
        out.list(names, put_counted);
    }
    for names in [&series.revived, &series.moved, &series.unlinked] {
        out.list(names, |out, name| _ = out.counted(name.as_bytes()));
    }
    out.list(&series.amended, put_counted);
    out.list(&series.watched, |out, one| _ = out.counted(&one.to_bytes()));
}

fn series(from: &mut Reader) -> Option<SeriesReport> {
    let [writes_nothing, rewrites, learned, far] = from.flags()?;
    let (interval_ms, distance) = (from.word()?, from.word()?);
    let unsafe_names = from.list(|from| {
        let (name, why) = (from.word()?, Why::from_number(from.word()?)?);
        let [bare] = from.flags()?;
        Some(UnsafeName { name, why, bare })
    })?;
    let written = from.list(Reader::word)?;
    let read = from.list(|from| {
        let (name, [bare]) = (from.word()?, from.flags()?);
        Some((name, bare))
    })?;
    Some(SeriesReport {
        writes_nothing,
        rewrites,
        learned,
        interval_ms,
        distance: far.then_some(distance),
        unsafe_names,
        written,
        read,
        deleted: from.list(counted)?,
        taken: from.list(counted)?,
        begun: from.list(counted)?,
        restless: from.list(counted)?,
        revived: from.list(Reader::text)?,
        moved: from.list(Reader::text)?,
        unlinked: from.list(Reader::text)?,
        amended: from.list(counted)?,
        watched: from.list(|from| Accesses::from_bytes(from.counted()?))?,
    })
}

fn put_counted(out: &mut Writer, (name, count): &(String, u64)) {
    out.counted(name.as_bytes()).word(*count);
}

fn counted(from: &mut Reader) -> Option<(String, u64)> {
    Some((from.text()?, from.word()?))
}

fn put_dataset(out: &mut Writer, dataset: &DatasetReport) {
    put_key(out, &dataset.key);
    out.word(dataset.order).word(dataset.quiet_ms).word(dataset.since_begun_ms).word(dataset.bytes);
    for count in [dataset.open, dataset.files, dataset.on_prefix] {
        out.word(u64::from(count));
    }
    let SetReport { complete, covers, settled, lacks } = dataset.set;
    let ProgramWord { output, abandoned } = dataset.word;
    out.flags(&[
        dataset.begun,
        complete,
        settled,
        dataset.followed,
        dataset.invalid.is_some(),
        abandoned,
        dataset.after.is_some(),
        dataset.sealed,
    ]);
    out.flags(&[dataset.returns, output, lacks]);
    let EncodingReport { encoded, failed, spoiled } = dataset.encoding;
    out.flags(&[encoded, failed, spoiled, covers]);
    out.list(&dataset.replaced, put_counted);
    if let Some(reason) = &dataset.invalid {
        out.counted(reason.as_bytes());
    }
    if let Some(after) = &dataset.after {
        put_key(out, after);
    }
}

fn dataset(from: &mut Reader) -> Option<DatasetReport> {
    let count = |from: &mut Reader| u32::try_from(from.word()?).ok();
    let (key, order) = (self::key(from)?, from.word()?);
    let (quiet_ms, since_begun_ms, bytes) = (from.word()?, from.word()?, from.word()?);
    let (open, files, on_prefix) = (count(from)?, count(from)?, count(from)?);
    let [begun, complete, settled, followed, invalid, abandoned, after, sealed] = from.flags()?;
    let [returns, output, lacks] = from.flags()?;
    let [encoded, failed, spoiled, covers] = from.flags()?;
    Some(DatasetReport {
        key,
        order,
        quiet_ms,
        since_begun_ms,
        open,
        files,
        on_prefix,
        bytes,
        encoding: EncodingReport { encoded, failed, spoiled },
        begun,
        followed,
        sealed,
        returns,
        set: SetReport { complete, covers, settled, lacks },
        word: ProgramWord { output, abandoned },
        replaced: from.list(counted)?,
        invalid: if invalid { Some(from.text()?) } else { None },
        after: if after { Some(self::key(from)?) } else { None },
    })
}

fn put_key(out: &mut Writer, key: &DatasetKey) {
    out.word(key.series as u64).counted(key.id.as_bytes()).word(key.generation);
}

fn key(from: &mut Reader) -> Option<DatasetKey> {
    Some(DatasetKey { series: from.size()?, id: from.text()?, generation: from.word()? })
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
                unsafe_names: vec![UnsafeName { name: 1, bare: true, why: Why::GoesOn }],
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
                bytes: 13,
                encoding: EncodingReport { encoded: true, failed: true, spoiled: false },
                begun: true,
                order: 9,
                sealed: true,
                set: SetReport { complete: false, covers: true, settled: true, lacks: true },
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
        assert_eq!(crc32(&report.to_bytes()), 0x3e39_ca8b, "raise VERSION if the form changes");
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
