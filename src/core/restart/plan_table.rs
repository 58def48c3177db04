//! What becomes of each dataset at a start, as a table: what prefix and cache hold, what looks
//! find, what is done in turn, and what is settled in the end. One series unless a word says so.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Cached, Restart, Wishes};
use super::verdict::{Fate, FilesFound, HiddenBecause, LookResult, LookedFor, StartPlan};
use crate::records::{CourseTurn, FileNames, RecordKey};
use crate::restart::index::{Index, IndexedDataset};

/// A row. Words of `prefix` (newest first) and `cache` (oldest first) are ids with letters:
/// prefix: c the current one, b not whole, k kept beside, r replaced, l left for the one before it,
/// o no checkpoint, x of a series that the patterns do not have; cache: p all of it is on the
/// prefix, x as above. `looks`: f damaged, g gone, a written anew, n no names, s shares names with
/// all that is cached; a kept one with r is refused its names.
/// `with`, by commas: "chosen 8", "fetch", "no looks", "ends", "turn 8 10", "returned 8", "no ids".
/// `current` is what the index is to say from now on, if that changes.
struct Row {
    what: &'static str,
    fields: BTreeMap<&'static str, &'static str>,
}

fn id(word: &str) -> u64 {
    word.trim_matches(char::is_alphabetic).parse().unwrap()
}

fn has(words: &str, id_wanted: u64, letter: char) -> bool {
    words.split_whitespace().any(|word| id(word) == id_wanted && word.contains(letter))
}

impl Row {
    fn read(text: &'static str) -> Row {
        let (what, rest) = text.split_once('\n').unwrap_or((text, ""));
        let fields = rest.split(['\n', ';']).map(str::trim).filter(|field| !field.is_empty());
        let fields = fields.map(|field| field.split_once(' ').expect("a name and its value"));
        Row { what, fields: fields.collect() }
    }

    fn get(&self, field: &str) -> &'static str {
        self.fields.get(field).copied().unwrap_or_default()
    }

    fn option(&self, name: &str) -> Option<Vec<u64>> {
        let option = self.get("with").split(',').find_map(|one| one.trim().strip_prefix(name))?;
        Some(option.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    fn key(&self, id: u64) -> RecordKey {
        let captured = if self.option("no ids").is_some() { String::new() } else { id.to_string() };
        RecordKey { series: "ckpt".into(), id: captured, generation: id }
    }

    fn listed(&self, word: &str) -> IndexedDataset {
        let is = |letter| word.contains(letter);
        let id = id(word);
        IndexedDataset {
            id,
            series: (!is('x')).then_some(0),
            key: self.key(id),
            name: format!("ckpt.{id}"),
            checkpoint: (!is('o')).then_some(id),
            file_names: match (is('k'), is('r')) {
                (true, _) => FileNames::Kept,
                (_, true) => FileNames::Taken,
                _ => FileNames::Own,
            },
            abandoned_by: is('l').then_some(id + 1),
            ..IndexedDataset::default()
        }
    }

    fn restart(&self) -> Restart {
        let words = || self.get("prefix").split_whitespace();
        let whole = words().filter(|word| !word.contains(['b', 'k', 'r'])).map(id);
        let current = words().find(|word| word.contains('c')).map(id);
        let mut index = Index::of(words().map(|word| self.listed(word)).collect(), current);
        index.flushed = whole.collect();
        index.turn = self.option("turn").map(|turn| CourseTurn { to: turn[0], from: turn[1] });
        index.returned_to = self.option("returned").map(|ids| ids[0]);
        let wishes = Wishes {
            chooses: self.option("chosen").is_some(),
            chosen: self.option("chosen").map(|ids| ids[0]),
            no_looks: self.option("no looks").is_some(),
            ends: self.option("ends").is_some(),
            fetchable: match self.option("fetch") {
                Some(_) => words().map(id).collect(),
                None => BTreeSet::new(),
            },
        };
        let stranded =
            self.get("stranded").split_whitespace().map(|word| (id(word), "ckpt".into()));
        let mut restart = Restart::new(index, 1, wishes, stranded.collect());
        restart.begin = restart.index.current().map(|one| one.id).or(restart.index.returned_to);
        let cached = self.get("cache").split_whitespace().map(|word| Cached {
            id: id(word),
            series: (!word.contains('x')).then_some(0),
            key: self.key(id(word)),
            on_prefix: word.contains('p'),
            fetched: false,
        });
        restart.cached = cached.collect();
        restart
    }

    fn look(&self, id: u64, fetches: bool) -> LookResult {
        let is = |letter| has(self.get("looks"), id, letter);
        let cached = self.get("cache").split_whitespace().map(self::id);
        LookResult {
            files: FilesFound::of(is('f'), is('g')),
            anew: is('a'),
            has_names: !is('n'),
            fetched: fetches && !is('f') && !is('g'),
            shares: cached.filter(|_| is('s')).collect(),
        }
    }

    fn carry_out(&self, restart: &mut Restart) -> (Vec<String>, StartPlan) {
        let mut done = Vec::new();
        for one in restart.kept_for_chosen() {
            done.push(format!("bring back {}", one.id));
            self.bring_back(restart, one.id);
        }
        restart.begin();
        loop {
            let plan = restart.plan();
            let Some((id, verdict)) = plan.next().cloned() else { return (done, plan) };
            assert!(done.len() < 100, "{}: {done:?}", self.what);
            match verdict {
                Fate::PublishFromHolders => {
                    done.push(format!("publish {id}"));
                    restart.published(id);
                }
                Fate::BringBack { damaged } => {
                    done.push(format!(
                        "bring back {id}{}",
                        if damaged { " (damaged)" } else { "" }
                    ));
                    let is_back = self.bring_back(restart, id);
                    restart.brought_back(id, is_back);
                }
                Fate::PutBack => {
                    done.push(format!("put back {id}"));
                    restart.has_put_back(id);
                }
                Fate::Fetch => {
                    done.push(format!("fetch {id}"));
                    let depth = LookedFor::Candidate { restarts: true };
                    restart.learn(id, depth, self.look(id, true));
                }
                Fate::Look(depth) => {
                    done.push(match depth {
                        LookedFor::Candidate { restarts: true } => format!("look {id}"),
                        LookedFor::Candidate { restarts: false } => format!("glance {id}"),
                        LookedFor::ToHide => format!("to hide {id}"),
                        LookedFor::ToStay => format!("to stay {id}"),
                    });
                    restart.learn(id, depth, self.look(id, false));
                }
                settled => panic!("{}: {settled:?} is nothing to be done", self.what),
            }
        }
    }

    /// Leaves the index as `Session::bring_back` does.
    fn bring_back(&self, restart: &mut Restart, id: u64) -> bool {
        let done = !has(self.get("looks"), id, 'r');
        for one in &mut restart.index.listed {
            match (one.id == id, done) {
                (true, true) => one.file_names = FileNames::Own,
                (true, false) => one.file_names = FileNames::Taken,
                (false, true) if one.file_names == FileNames::Own => {
                    one.file_names = FileNames::Taken;
                    let other = one.id;
                    restart.index.flushed.retain(|whole| *whole != other);
                }
                (false, _) => {}
            }
        }
        done
    }

    fn check(&self) {
        let mut restart = self.restart();
        let (done, plan) = self.carry_out(&mut restart);
        let words: Vec<String> =
            plan.verdicts.iter().map(|(id, fate)| in_words(*id, fate)).collect();
        let current = restart.new_current(&plan).map_or(String::new(), |now| format!("{now:?}"));
        let got = (done.join(", "), words.join(", "), current);
        let wanted =
            (self.get("done").into(), self.get("settled").into(), self.get("current").into());
        assert_eq!(got, wanted, "{}", self.what);
    }
}

fn in_words(id: u64, verdict: &Fate) -> String {
    let what = match verdict {
        Fate::Offer => "offered".to_string(),
        Fate::ReadInPlace => "in place".to_string(),
        Fate::Leave => "left alone".to_string(),
        Fate::Hide(HiddenBecause::NewerThanChosen) => "newer".to_string(),
        Fate::Hide(HiddenBecause::Left { gone_on: true }) => "left (gone on)".to_string(),
        Fate::Hide(HiddenBecause::Left { gone_on: false }) => "left".to_string(),
        Fate::Hide(HiddenBecause::Damaged) => "damaged".to_string(),
        Fate::Hide(HiddenBecause::AfterCurrent { damaged: true }) => "after (damaged)".to_string(),
        Fate::Hide(HiddenBecause::AfterCurrent { damaged: false }) => "after".to_string(),
        Fate::Hide(HiddenBecause::OtherCourse { own }) => format!("other course than {own}"),
        Fate::Hide(HiddenBecause::OlderThan(newer)) => format!("older than {newer}"),
        open => format!("{open:?}"),
    };
    format!("{id} {what}")
}

#[test]
fn what_becomes_of_what_is_there() {
    let rows: Vec<Row> = TABLE.split("\n= ").skip(1).map(Row::read).collect();
    assert!(rows.len() > 35);
    rows.iter().for_each(Row::check);
}

const TABLE: &str = "
= nothing at all
= the cache alone
cache 1 2; settled 1 offered, 2 offered
= the newest is good
prefix 9c 8
done look 9, put back 9; settled 9 in place
= it is copied into the cache
prefix 9c 8; with fetch
done fetch 9; settled 9 offered
= not if the run ends before anybody reads it
prefix 9c; with fetch, ends
done look 9, put back 9; settled 9 in place
= SCR_FETCH=0
prefix 9c 8; with no looks
= damaged ones are hidden, until one is good, which is current then
prefix 9c 8 7 6; looks 9f 8f; with fetch
done fetch 9, fetch 8, fetch 7
settled 9 damaged, 8 damaged, 7 offered; current Is(7)
= one whose files were deleted is passed over
prefix 9c 8; looks 9g
done look 9, look 8, put back 8; settled 8 in place; current Is(8)
= newer ones than the current one are hidden, but not what somebody wrote anew
prefix 9 8 7 6 5c 4; looks 8a 7f 6n
done look 5, put back 5, to hide 9, to hide 8, to hide 7, to hide 6
settled 5 in place, 9 after, 8 left alone, 7 after (damaged), 6 left alone
= their turn comes if none that is older is good
prefix 9 8 5c; looks 5f 9f
done look 5, look 9, look 8, put back 8
settled 5 damaged, 9 damaged, 8 in place; current Is(8)
= one that an earlier start found damaged has its turn, and is current again
prefix 9b 8
done look 9, put back 9; settled 9 in place; current Is(9)
= sixteen are looked at
prefix 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3
looks 20g 19g 18g 17g 16g 15g 14g 13g 12g 11g 10g 9g 8g 7g 6g 5g
done look 20, look 19, look 18, look 17, look 16, look 15, look 14, look 13, look 12, look 11, \
look 10, look 9, look 8, look 7, look 6, look 5
= output, and a series that nobody knows, are no candidates
prefix 9o 8x 7
done look 7, put back 7; settled 7 in place; current Is(7)

= the cache has the newest: the prefix is looked at all the same
prefix 9c 8; cache 8 9; with fetch
done glance 9; settled 8 offered, 9 offered
= what is damaged on the prefix is read from the cache
prefix 9c; cache 9; looks 9f
done glance 9; settled 9 offered
= but not what the cache has on the prefix only
prefix 9c 8; cache 9p; looks 9f
done glance 9, look 8, put back 8
settled 9 damaged, 8 in place; current Is(8)
= a newer one in the cache is no reason to hide the current one
prefix 8c; cache 9
done glance 8; settled 9 offered
= one in the cache that is newer than the current one is of its course
prefix 9 8c; cache 9
done glance 9; settled 9 offered
= an older one in the cache stays beside one that is read on the prefix
prefix 20c; cache 18
done look 20, put back 20, to stay 20; settled 20 in place, 18 offered
= unless it has a name of it, such as a pointer's
prefix 20c; cache 18; looks 20s
done look 20, put back 20, to stay 20; settled 20 in place, 18 older than 20
= with SCR_FETCH=0, too
prefix 20c 19; cache 18; looks 20f 19s; with no looks
done to stay 20, to stay 19; settled 18 older than 19
= the newest that has no room where its ranks run is published, once
prefix 5c; cache 6; stranded 7 8
done publish 8, glance 5; settled 6 offered
= not if there is a newer one
prefix 9c; stranded 8
done look 9, put back 9; settled 9 in place

= the user chooses an older one, and what has no room may stay so
prefix 9c 8 7; cache 9; stranded 10; with chosen 8, turn 8 9
done look 8, put back 8; settled 9 newer, 8 in place; current Is(8)
= and one that only the cache has
prefix 9c; cache 7 9; with chosen 7, turn 7 9
settled 9 newer, 7 offered; current OnlyCached(7)
= what the patterns do not have stays
prefix 9c 7; cache 8x; with chosen 7
done look 7, put back 7; settled 9 newer, 7 in place, 8 offered
= a later start hides what was left, in the cache
prefix 8c; cache 8 9 10; with turn 8 10
done glance 8; settled 10 left, 9 left, 8 offered
= and the run has gone on since
prefix 11c 8; cache 9 12; with turn 8 10
done glance 11; settled 9 left (gone on), 12 offered
= on the prefix, what was left is older than the newest of the new course
prefix 11c 10l 9 8
done look 11, put back 11, to hide 10
settled 11 in place, 10 other course than 11
= it has its turn when the new course has none that is good
prefix 11c 10l; looks 11f
done look 11, look 10, put back 10
settled 11 damaged, 10 in place; current Is(10)
= what was left is offered, if it was copied into the cache for want of a better one
prefix 11c 10l; looks 11f; with fetch, turn 8 10
done fetch 11, fetch 10; settled 11 damaged, 10 offered; current Is(10)
= the cache has what the run went back to: newer ones are hidden
prefix 9; cache 7; with returned 7, turn 7 9
done to hide 9; settled 9 after, 7 offered

= without ids, the one that is kept comes back when the newest is damaged
prefix 9c 8k 7k; looks 9f; with no ids
done look 9, bring back 8 (damaged), look 8, put back 8
settled 9 damaged, 8 in place; current Is(8)
= or the one before it, if that cannot be
prefix 9c 8k 7k; looks 9f 8r; with no ids
done look 9, bring back 8 (damaged), bring back 7 (damaged), look 7, put back 7
settled 9 damaged, 7 in place; current Is(7)
= what the user has written in its place stays
prefix 9c 8k; looks 9g; with no ids
done look 9
= nothing comes back while the cache has a newer one
prefix 9c 8k; cache 9p 10; looks 9f; with no ids
done glance 9; settled 9 damaged, 10 offered
= the user chooses one that is kept
prefix 9c 8k; with no ids, chosen 8, turn 8 9
done bring back 8, look 8, put back 8; settled 8 in place; current Is(8)
= what has its names may be the user's own
prefix 9c 8; looks 9a; with no ids, chosen 8
done to hide 9, look 8, put back 8
settled 9 left alone, 8 in place; current Is(8)
= an older one in the cache gives way, though it has no name in common
prefix 9c; cache 8; with no ids
done look 9, put back 9, to stay 9; settled 9 in place, 8 older than 9
";
