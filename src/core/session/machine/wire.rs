//! Reports as bytes: fields in order, integers big-endian, lists and texts behind their length.

use super::keys::DatasetKey;
use super::knowledge::Why;
use super::report::{DatasetReport, Mark, Report, SealedReport, SeriesReport};

/// First byte of every report; raised at every change.
const VERSION: u8 = 7;

impl Report {
    /// The report for an all-gather.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put(&mut out, self.entropy);
        put(&mut out, self.digest);
        out.extend_from_slice(&self.halt.to_be_bytes());
        put_flags(&mut out, &[self.ending, self.fallen_back]);
        put(&mut out, self.series.len() as u64);
        for series in &self.series {
            put_series(&mut out, series);
        }
        put(&mut out, self.datasets.len() as u64);
        for dataset in &self.datasets {
            put_dataset(&mut out, dataset);
        }
        put(&mut out, self.sealed.len() as u64);
        for sealed in &self.sealed {
            put(&mut out, sealed.id);
            put_flags(&mut out, &[sealed.deleted_from, sealed.live, sealed.held]);
        }
        out
    }

    /// The inverse; `None` for anything that [`Report::to_bytes`] cannot have made.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Report> {
        let (version, rest) = bytes.split_first()?;
        let mut input = Input { rest };
        let (entropy, digest, halt) = (input.word()?, input.word()?, input.word()?);
        let flags = input.flags()?;
        let report = Report {
            entropy,
            digest,
            halt: i64::from_be_bytes(halt.to_be_bytes()),
            ending: flags & 1 != 0,
            fallen_back: flags & 2 != 0,
            series: input.list(Input::series)?,
            datasets: input.list(Input::dataset)?,
            sealed: input.list(Input::sealed)?,
        };
        (*version == VERSION && input.rest.is_empty()).then_some(report)
    }
}

fn put(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_be_bytes());
}

fn put_flags(out: &mut Vec<u8>, flags: &[bool]) {
    let bits = flags.iter().enumerate().map(|(at, flag)| u8::from(*flag) << at);
    out.push(bits.sum());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_series(out: &mut Vec<u8>, series: &SeriesReport) {
    put_flags(out, &[series.writes_nothing, series.rewrites]);
    put(out, series.interval_ms);
    put(out, series.unsafe_names.len() as u64);
    for mark in &series.unsafe_names {
        put(out, mark.name);
        put(out, mark.why.number());
        put_flags(out, &[mark.bare]);
    }
    put(out, series.written.len() as u64);
    series.written.iter().for_each(|name| put(out, *name));
    put(out, series.read.len() as u64);
    for (name, bare) in &series.read {
        put(out, *name);
        put_flags(out, &[*bare]);
    }
    for names in [&series.deleted, &series.taken, &series.begun, &series.restless] {
        put_counted(out, names);
    }
    for names in [&series.revived, &series.moved] {
        put(out, names.len() as u64);
        names.iter().for_each(|name| put_text(out, name));
    }
}

fn put_counted(out: &mut Vec<u8>, names: &[(String, u64)]) {
    put(out, names.len() as u64);
    for (name, count) in names {
        put_text(out, name);
        put(out, *count);
    }
}

fn put_dataset(out: &mut Vec<u8>, dataset: &DatasetReport) {
    put_key(out, &dataset.key);
    for word in [dataset.order, dataset.quiet_ms, dataset.since_begun_ms] {
        put(out, word);
    }
    for count in [dataset.open, dataset.files, dataset.on_prefix] {
        put(out, u64::from(count));
    }
    let flags = [
        dataset.begun,
        dataset.complete,
        dataset.settled,
        dataset.followed,
        dataset.invalid.is_some(),
        dataset.abandoned,
        dataset.after.is_some(),
        dataset.sealed,
    ];
    put_flags(out, &flags);
    put_flags(out, &[dataset.returns, dataset.output]);
    put_counted(out, &dataset.replaced);
    if let Some(reason) = &dataset.invalid {
        put_text(out, reason);
    }
    if let Some(after) = &dataset.after {
        put_key(out, after);
    }
}

fn put_key(out: &mut Vec<u8>, key: &DatasetKey) {
    put(out, key.series as u64);
    put_text(out, &key.id);
    put(out, key.generation);
}

/// What is left to read.
struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_be_bytes(*word))
    }

    fn count(&mut self) -> Option<u32> {
        u32::try_from(self.word()?).ok()
    }

    fn flags(&mut self) -> Option<u8> {
        let (flags, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*flags)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.word()?).ok()?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    /// A list grows as its elements are read, so that a wrong length costs no memory.
    fn list<T>(&mut self, element: fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.word()?;
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(element(self)?);
        }
        Some(list)
    }

    fn name_and_count(&mut self) -> Option<(String, u64)> {
        Some((self.text()?, self.word()?))
    }

    fn series(&mut self) -> Option<SeriesReport> {
        let flags = self.flags()?;
        Some(SeriesReport {
            writes_nothing: flags & 1 != 0,
            rewrites: flags & 2 != 0,
            interval_ms: self.word()?,
            unsafe_names: self.list(Input::mark)?,
            written: self.list(Input::word)?,
            read: self.list(|input| Some((input.word()?, input.flags()? & 1 != 0)))?,
            deleted: self.list(Input::name_and_count)?,
            taken: self.list(Input::name_and_count)?,
            begun: self.list(Input::name_and_count)?,
            restless: self.list(Input::name_and_count)?,
            revived: self.list(Input::text)?,
            moved: self.list(Input::text)?,
        })
    }

    fn mark(&mut self) -> Option<Mark> {
        let (name, why) = (self.word()?, Why::from_number(self.word()?)?);
        Some(Mark { name, why, bare: self.flags()? & 1 != 0 })
    }

    fn dataset(&mut self) -> Option<DatasetReport> {
        let (key, order) = (self.key()?, self.word()?);
        let (quiet_ms, since_begun_ms) = (self.word()?, self.word()?);
        let (open, files, on_prefix) = (self.count()?, self.count()?, self.count()?);
        let flags = self.flags()?;
        let more = self.flags()?;
        let replaced = self.list(Input::name_and_count)?;
        let invalid = match flags & 16 != 0 {
            true => Some(self.text()?),
            false => None,
        };
        let after = match flags & 64 != 0 {
            true => Some(self.key()?),
            false => None,
        };
        Some(DatasetReport {
            key,
            open,
            files,
            on_prefix,
            begun: flags & 1 != 0,
            order,
            sealed: flags & 128 != 0,
            complete: flags & 2 != 0,
            settled: flags & 4 != 0,
            quiet_ms,
            since_begun_ms,
            followed: flags & 8 != 0,
            abandoned: flags & 32 != 0,
            invalid,
            replaced,
            after,
            returns: more & 1 != 0,
            output: more & 2 != 0,
        })
    }

    fn key(&mut self) -> Option<DatasetKey> {
        let series = usize::try_from(self.word()?).ok()?;
        let id = self.text()?;
        Some(DatasetKey { series, id, generation: self.word()? })
    }

    fn sealed(&mut self) -> Option<SealedReport> {
        let id = self.word()?;
        let flags = self.flags()?;
        Some(SealedReport {
            id,
            deleted_from: flags & 1 != 0,
            live: flags & 2 != 0,
            held: flags & 4 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Report {
        Report {
            entropy: 7,
            digest: u64::MAX,
            halt: -3,
            ending: true,
            fallen_back: true,
            series: vec![SeriesReport {
                writes_nothing: true,
                interval_ms: 40,
                unsafe_names: vec![Mark { name: 1, bare: true, why: Why::GoesOn }],
                rewrites: false,
                written: vec![3],
                deleted: vec![("a/b".into(), 7)],
                revived: vec!["c".into()],
                moved: vec!["a/b".into()],
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
                begun: true,
                order: 9,
                sealed: true,
                complete: false,
                settled: true,
                quiet_ms: 11,
                since_begun_ms: 12,
                followed: false,
                abandoned: true,
                invalid: Some("No space left".into()),
                replaced: vec![("a/f".into(), 5)],
                after: Some(DatasetKey::new(0, "10", 0)),
                returns: true,
                output: true,
            }],
            sealed: vec![SealedReport { id: 9, deleted_from: true, live: false, held: true }],
        }
    }

    #[test]
    fn a_report_survives_the_way_there_and_back() {
        let report = sample();
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
