//! Whether all ranks make the same call with the same arguments, before anything is done: an error
//! on one rank is one on all, and none waits for ranks that have turned back.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Consent;
use crate::error::{Error, Result};
use crate::machine::Call;
use crate::session::program::Program;

impl Program {
    /// Fails on all ranks if it fails on one, or if they differ: with the first one's error. One
    /// allreduce; more only if the ranks differ. Collective.
    pub fn consent(&self, consent: &Consent<'_>) -> Result<()> {
        self.site.host.inside(|| self.consent_inside(consent))
    }

    fn consent_inside(&self, consent: &Consent<'_>) -> Result<()> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        let call = i64::from(consent.call as u8);
        let mut hasher = DefaultHasher::new();
        consent.arguments.hash(&mut hasher);
        // Half of it, so that it has a negative.
        let hash = (hasher.finish() >> 2) as i64;
        let mut words = [i64::from(consent.error.is_some()), call, -call, hash, -hash];
        links.world.all_max(&mut words)?;
        let [failed, most, least, highest, lowest] = words;
        let differ = |what: &str| Err(Error::Remote(format!("the ranks {what}")));
        if most != -least {
            let name = |number: i64| {
                let found = Call::ALL.into_iter().find(|call| i64::from(*call as u8) == number);
                found.map_or("?", Call::name)
            };
            let (one, other) = (name(-least), name(most));
            return differ(&format!("call different functions: {one} and {other}"));
        }
        if failed != 0 {
            let own = consent.error.as_deref().unwrap_or_default();
            let all = links.world.all_gather(own.as_bytes())?;
            let rank = all.iter().position(|text| !text.is_empty()).unwrap_or(0);
            let text = String::from_utf8_lossy(&all[rank]);
            let everywhere = all.iter().all(|other| !other.is_empty());
            return Err(Error::Remote(match everywhere {
                true => text.into_owned(),
                false => format!("rank {rank}: {text}"),
            }));
        }
        if highest != -lowest {
            let all = links.world.all_gather(consent.arguments)?;
            let other = all.iter().position(|one| one != &all[0]).unwrap_or(0);
            let of = |rank: usize| String::from_utf8_lossy(&all[rank]);
            let (first, second) = (of(0), of(other));
            return differ(&format!(
                "give different arguments: rank 0 {first}, rank {other} {second}"
            ));
        }
        Ok(())
    }
}

pub(super) fn no_communication() -> Error {
    Error::Comm("the ranks do not agree on anything any more, see above".to_string())
}
