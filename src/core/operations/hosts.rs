//! Lists of hosts as resource managers write them: `atlas[3,5-7,9-11]` (manual 1.1, sections 11.1.1
//! and 11.2.1). Leading zeros of a range are kept: `n[08-10]` is n08, n09, n10.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};

/// A slip of the pen (`n[1-99999999]`) is no reason to fill the memory.
const HOSTS_MAX: usize = 1_000_000;

/// Hosts in the order in which they were named, duplicates included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostList {
    hosts: Vec<String>,
}

impl HostList {
    /// Reads the compressed form; more than a million hosts are an error.
    pub fn expand(text: &str) -> Result<Self> {
        let mut hosts = Vec::new();
        for element in elements(text)? {
            expand_element(element, &mut hosts).map_err(|what| {
                Error::Refused(format!("\"{text}\" is no list of hosts: {what}"))
            })?;
        }
        Ok(HostList { hosts })
    }

    /// Makes a list of the hosts as they are.
    pub fn of(hosts: impl IntoIterator<Item = String>) -> Self {
        HostList { hosts: hosts.into_iter().collect() }
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the compressed form, sorted by name and number.
    pub fn compress(&self) -> String {
        let (mut numbered, mut plain) = (BTreeMap::<NumberedName, Vec<u64>>::new(), Vec::new());
        for host in &self.hosts {
            match split_number(host) {
                Some((place, number)) => numbered.entry(place).or_default().push(number),
                None => plain.push(host.as_str()),
            }
        }
        plain.sort_unstable();
        let mut parts: Vec<String> = plain.into_iter().map(str::to_owned).collect();
        for (place, mut numbers) in numbered {
            numbers.sort_unstable();
            parts.push(place.with(&numbers));
        }
        parts.join(",")
    }

    /// Returns what is left without the hosts of `other`.
    pub fn minus(&self, other: &HostList) -> HostList {
        self.filtered(other, false)
    }

    /// Returns the hosts that `other` has, too.
    pub fn intersection(&self, other: &HostList) -> HostList {
        self.filtered(other, true)
    }

    fn filtered(&self, other: &HostList, wanted: bool) -> HostList {
        let others: BTreeSet<&String> = other.hosts.iter().collect();
        let kept = self.hosts.iter().filter(|host| others.contains(host) == wanted);
        HostList::of(kept.cloned())
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NumberedName {
    before: String,
    behind: String,
    width: usize,
}

impl NumberedName {
    fn with(&self, numbers: &[u64]) -> String {
        let NumberedName { before, behind, width } = self;
        if let [number] = numbers {
            return format!("{before}{number:0width$}{behind}");
        }
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let text = |&(first, last): &(u64, u64)| match first == last {
            true => format!("{first:0width$}"),
            false => format!("{first:0width$}-{last:0width$}"),
        };
        let texts: Vec<String> = ranges.iter().map(text).collect();
        format!("{before}[{}]{behind}", texts.join(","))
    }
}

fn split_number(host: &str) -> Option<(NumberedName, u64)> {
    let end = host.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = host[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + host[at..].chars().next().map_or(1, char::len_utf8));
    let digits = &host[start..end];
    let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 };
    let place = NumberedName { before: host[..start].into(), behind: host[end..].into(), width };
    Some((place, digits.parse().ok()?))
}

/// Commas inside brackets do not part a list.
fn elements(text: &str) -> Result<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    let bad = |what: &str| Err(Error::Refused(format!("\"{text}\" is no list of hosts: {what}")));
    for (at, c) in text.char_indices() {
        match (c, inside) {
            ('[', true) => return bad("a bracket inside brackets"),
            (']', false) => return bad("a bracket is closed that is not open"),
            ('[' | ']', _) => inside = !inside,
            (',', false) => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return bad("a bracket is not closed");
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    Ok(parts)
}

fn expand_element(element: &str, hosts: &mut Vec<String>) -> std::result::Result<(), String> {
    if element.contains(char::is_whitespace) {
        return Err(format!("\"{element}\" has a space in it"));
    }
    let Some((before, rest)) = element.split_once('[') else {
        hosts.push(element.to_owned());
        return Ok(());
    };
    let (ranges, behind) = rest.split_once(']').unwrap_or((rest, ""));
    if behind.contains('[') {
        return Err(format!("\"{element}\" has two pairs of brackets"));
    }
    for range in ranges.split(',').map(str::trim) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| digits);
            number.ok_or_else(|| format!("\"{range}\" is neither a number nor a range"))
        };
        let (from, to) = (number(first)?, number(last)?);
        if from > to {
            return Err(format!("the range {range} goes backwards"));
        }
        if to - from >= (HOSTS_MAX - hosts.len().min(HOSTS_MAX)) as u64 {
            return Err(format!("more than {HOSTS_MAX} hosts"));
        }
        let width = if first.starts_with('0') { first.len() } else { 0 };
        hosts.extend((from..=to).map(|number| format!("{before}{number:0width$}{behind}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> HostList {
        HostList::expand(text).unwrap()
    }

    #[test]
    fn the_manuals_examples() {
        let atlas = list("atlas[3,5-7,9-11]");
        assert_eq!(
            atlas.hosts(),
            ["atlas3", "atlas5", "atlas6", "atlas7", "atlas9", "atlas10", "atlas11"]
        );
        assert_eq!(atlas.hosts()[3 - 1], "atlas6");
        assert_eq!(atlas.minus(&list("atlas[5,7,20]")).compress(), "atlas[3,6,9-11]");
        assert_eq!(atlas.intersection(&list("atlas[5,7,20]")).compress(), "atlas[5,7]");
        assert_eq!(atlas.compress(), "atlas[3,5-7,9-11]");
    }

    #[test]
    fn order_duplicates_zeros_and_several_names() {
        assert_eq!(list("b2, b1,b2").hosts(), ["b2", "b1", "b2"]);
        assert_eq!(list("b2,b1,b2").compress(), "b[1-2,2]");
        assert_eq!(list("n[08-10]-ib,login").hosts(), ["n08-ib", "n09-ib", "n10-ib", "login"]);
        assert_eq!(list("n[08-09]-ib,login,n10-ib").compress(), "login,n10-ib,n[08-09]-ib");
        assert_eq!(list("").hosts(), [""; 0]);
        assert_eq!(HostList::of(["x".into()]).compress(), "x");
    }

    #[test]
    fn what_is_no_list_is_an_error_that_says_why() {
        for (text, why) in [
            ("a[1", "not closed"),
            ("a1]", "not open"),
            ("a[[1]]", "inside brackets"),
            ("a[1][2]", "two pairs"),
            ("a[x]", "neither"),
            ("a[1-]", "neither"),
            ("a[+1]", "neither"),
            ("a[3-1]", "backwards"),
            ("a b", "space"),
            ("a[1-99999999999]", "more than"),
            ("a[0-18446744073709551615]", "more than"),
            ("a[99999999999999999999]", "neither"),
        ] {
            let error = HostList::expand(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn expanding_what_was_compressed_gives_the_same_hosts() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let word = |rng: &mut fastrand::Rng| ["n", "x-", "b0", ""][rng.usize(..4)];
            let one = |rng: &mut fastrand::Rng| {
                let width = rng.usize(..3);
                format!("{}{:0width$}{}", word(rng), rng.u32(..12), ["", "-ib"][rng.usize(..2)])
            };
            let count = rng.usize(..9);
            let mut hosts: Vec<String> = (0..count).map(|_| one(&mut rng)).collect();
            let mut again = list(&HostList::of(hosts.clone()).compress()).hosts().to_vec();
            hosts.sort();
            again.sort();
            assert_eq!(hosts, again);
        }
    }
}
