//! What each member of a set has in each slot.

use super::code::Code;
use super::field::{MEMBERS_MAX, coefficient, invert};
use crate::error::{Error, Result};
use crate::redundancy::RedundancySet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Members: at least 2.
    pub members: usize,
    /// Parity pieces of each slot: 1 to `members - 1`.
    pub parities: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A chunk of its files: which data piece of the slot it is.
    Data(usize),
    /// Which parity piece; in the member's file it is the chunk with the same number.
    Parity(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    pub sources: Vec<usize>,
    pub targets: Vec<usize>,
    /// For each target the constants that its sources are multiplied by.
    pub constants: Vec<Vec<u8>>,
}

impl Shape {
    /// Makes the shape of a set of at least two under `code`. A set that is too small survives one
    /// loss less than it has members.
    pub fn of(code: Code, set: &RedundancySet) -> Result<Self> {
        let members = set.comm.size();
        let wanted = match code {
            Code::Xor => 1,
            Code::ReedSolomon => set.failures.max(1),
        };
        if code == Code::ReedSolomon && members > MEMBERS_MAX {
            let what = "a Reed-Solomon set has";
            return Err(Error::Refused(format!("{what} {members} members, {MEMBERS_MAX} at most")));
        }
        Ok(Shape { members, parities: wanted.min(members - 1) })
    }

    /// Counts the data pieces of each slot; also the chunks of each member's files.
    pub fn data(&self) -> usize {
        self.members - self.parities
    }

    pub fn content(&self, member: usize, slot: usize) -> Content {
        let behind = (member + self.members - slot) % self.members;
        match behind.checked_sub(self.parities) {
            Some(data) => Content::Data(data),
            None => Content::Parity(behind),
        }
    }

    fn member(&self, content: Content, slot: usize) -> usize {
        match content {
            Content::Parity(parity) => (slot + parity) % self.members,
            Content::Data(data) => (slot + self.parities + data) % self.members,
        }
    }

    /// Returns the chunk of its files that `member` has in `slot`, in which it has no parity.
    pub fn data_chunk(&self, member: usize, slot: usize) -> u64 {
        let own = |parity: usize| (member + self.members - parity) % self.members;
        let before = (0..self.parities).filter(|&parity| own(parity) < slot).count();
        (slot - before) as u64
    }

    /// Returns the chunk size with which the chunks hold `largest` bytes.
    pub fn chunk_bytes(&self, largest: u64) -> u64 {
        largest.div_ceil(self.data() as u64)
    }

    /// Finds how to make the pieces of `slot` of those who do not have theirs. `None` if more are
    /// missing than the code can restore.
    pub fn recipe(&self, slot: usize, has: &dyn Fn(usize, Content) -> bool) -> Option<Recipe> {
        let here = |content: &Content| has(self.member(*content, slot), *content);
        let data = || (0..self.data()).map(Content::Data);
        let parity = || (0..self.parities).map(Content::Parity);
        let (known, lost): (Vec<_>, Vec<_>) = data().partition(here);
        let helpers: Vec<_> = parity().filter(here).take(lost.len()).collect();
        if helpers.len() < lost.len() {
            return None;
        }
        let missing = parity().filter(|content| !here(content));
        let targets: Vec<_> = lost.iter().copied().chain(missing).collect();
        let of_lost = self.solve(&known, &lost, &helpers)?;
        let constants = targets.iter().map(|target| match target {
            Content::Data(_) => {
                let at = lost.iter().position(|content| content == target);
                at.map(|at| of_lost[at].clone())
            }
            Content::Parity(_) => Some(self.parity_row(*target, &known, &lost, &of_lost)),
        });
        let constants = constants.collect::<Option<_>>()?;
        let members = |contents: &[Content]| -> Vec<usize> {
            contents.iter().map(|content| self.member(*content, slot)).collect()
        };
        let sources = members(&[&known[..], &helpers].concat());
        Some(Recipe { sources, targets: members(&targets), constants })
    }

    /// Constants of each lost data piece over the known ones and the helping parity pieces: the
    /// equations of these parities, solved for what is lost.
    fn solve(
        &self,
        known: &[Content],
        lost: &[Content],
        helpers: &[Content],
    ) -> Option<Vec<Vec<u8>>> {
        let row = |of: &Content, over: &[Content]| -> Vec<u8> {
            over.iter().map(|data| self.constant(*of, *data)).collect()
        };
        let inverse = invert(helpers.iter().map(|helper| row(helper, lost)).collect())?;
        let over_known: Vec<_> = helpers.iter().map(|helper| row(helper, known)).collect();
        let solution = inverse.into_iter().map(|weights| {
            let mut constants = combine(&weights, &over_known, known.len());
            constants.extend(weights);
            constants
        });
        Some(solution.collect())
    }

    fn parity_row(
        &self,
        parity: Content,
        known: &[Content],
        lost: &[Content],
        of_lost: &[Vec<u8>],
    ) -> Vec<u8> {
        let weights: Vec<_> = lost.iter().map(|data| self.constant(parity, *data)).collect();
        let mut row = combine(&weights, of_lost, known.len() + lost.len());
        for (constant, data) in row.iter_mut().zip(known) {
            *constant ^= self.constant(parity, *data);
        }
        row
    }

    fn constant(&self, parity: Content, data: Content) -> u8 {
        match (parity, data) {
            // XOR sets may be larger than the field: their one parity is the plain sum.
            (Content::Parity(_), Content::Data(_)) if self.parities == 1 => 1,
            (Content::Parity(parity), Content::Data(data)) => {
                coefficient(self.parities, parity, data)
            }
            _ => 0,
        }
    }
}

fn combine(weights: &[u8], rows: &[Vec<u8>], length: usize) -> Vec<u8> {
    let mut sum = vec![0; length];
    for (weight, row) in weights.iter().zip(rows) {
        for (element, other) in sum.iter_mut().zip(row) {
            *element ^= super::field::product(*weight, *other);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_its_parities_and_all_chunks_of_its_files() {
        for members in 2..=9 {
            for parities in 1..members {
                let shape = Shape { members, parities };
                for member in 0..members {
                    let slots = 0..members;
                    let mut chunks: Vec<_> = slots
                        .clone()
                        .filter(|&s| matches!(shape.content(member, s), Content::Data(_)))
                        .map(|slot| shape.data_chunk(member, slot))
                        .collect();
                    chunks.sort_unstable();
                    assert!(chunks.iter().copied().eq(0..shape.data() as u64));
                    for slot in slots {
                        assert_eq!(shape.member(shape.content(member, slot), slot), member);
                    }
                }
            }
        }
    }

    #[test]
    fn with_one_parity_the_slots_are_those_of_the_manual() {
        let shape = Shape { members: 3, parities: 1 };
        let chunk = |member, slot| match shape.content(member, slot) {
            Content::Parity(_) => None,
            Content::Data(_) => Some(shape.data_chunk(member, slot)),
        };
        let table = [0, 1, 2].map(|member| [0, 1, 2].map(|slot| chunk(member, slot)));
        assert_eq!(
            table,
            [[None, Some(0), Some(1)], [Some(0), None, Some(1)], [Some(0), Some(1), None]]
        );
    }

    /// One byte in each slot stands for its piece.
    #[test]
    fn any_losses_up_to_the_parities_come_back_and_no_more() {
        for members in 2..=8_usize {
            for parities in 1..members {
                let shape = Shape { members, parities };
                for slot in 0..members {
                    let pieces = encoded(shape, slot);
                    for lost in 0..1_u32 << members {
                        check(shape, slot, &pieces, lost);
                    }
                }
            }
        }
    }

    fn encoded(shape: Shape, slot: usize) -> Vec<u8> {
        let byte = |member: usize| (member as u8 + 3).wrapping_mul(57) ^ slot as u8;
        (0..shape.members)
            .map(|member| match shape.content(member, slot) {
                Content::Data(_) => byte(member),
                Content::Parity(parity) => (0..shape.data()).fold(0, |sum, data| {
                    let value = byte(shape.member(Content::Data(data), slot));
                    sum ^ super::super::field::product(
                        coefficient(shape.parities, parity, data),
                        value,
                    )
                }),
            })
            .collect()
    }

    fn check(shape: Shape, slot: usize, pieces: &[u8], lost: u32) {
        let has = |member: usize, _| lost >> member & 1 == 0;
        let recipe = shape.recipe(slot, &has);
        if lost.count_ones() as usize > shape.parities {
            assert_eq!(recipe, None);
            return;
        }
        let recipe = recipe.expect("few enough are lost");
        assert_eq!(recipe.targets.len(), lost.count_ones() as usize);
        for (target, constants) in recipe.targets.iter().zip(&recipe.constants) {
            let parts = recipe.sources.iter().zip(constants);
            let sum = parts.fold(0, |sum, (source, constant)| {
                assert!(has(*source, Content::Data(0)));
                sum ^ super::super::field::product(*constant, pieces[*source])
            });
            assert_eq!(sum, pieces[*target], "{shape:?} slot {slot} lost {lost:b}");
        }
    }

    #[test]
    fn large_xor_sets_need_no_field() {
        let shape = Shape { members: 1000, parities: 1 };
        let recipe = shape.recipe(3, &|member, _| member != 500).unwrap();
        assert_eq!((recipe.sources.len(), &recipe.targets[..]), (999, &[500][..]));
        assert!(recipe.constants[0].iter().all(|constant| *constant == 1));
    }
}
