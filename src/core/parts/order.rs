//! Which of two moments was the later one.
//!
//! All ranks pass sync points; the rounds are calls that some of them make on a file of theirs.
//! Between two sync points those rounds order what was done if the ranks of one such group have
//! done all of it. Else nobody knows how the rounds of one group stand to those of another, or to
//! a rank of none.

use std::collections::BTreeMap;

use scr_abi::accesses::Moment;

/// The order of what was done to one file.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// The group that has done all after so many sync points; `None`: there was not only one.
    groups: BTreeMap<u64, Option<u64>>,
}

fn group_of(moment: Moment) -> u64 {
    moment.round >> 32
}

impl Order {
    /// Finds it for these moments.
    pub fn of(moments: impl IntoIterator<Item = Moment>) -> Self {
        let mut groups = BTreeMap::new();
        for moment in moments {
            let group = group_of(moment);
            let known = groups.entry(moment.points).or_insert(Some(group));
            *known = known.filter(|known| *known == group);
        }
        Order { groups }
    }

    /// Returns the same moment for all of which nobody knows which was the later one: of two that
    /// differ, the greater one was.
    #[must_use]
    pub fn place(&self, moment: Moment) -> Moment {
        let group = self.groups.get(&moment.points).copied().flatten();
        if group == Some(group_of(moment)) { moment } else { Moment::at(moment.points) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_order_what_one_group_has_done_and_nothing_else() {
        let moment =
            |points: u64, group: u64, call: u64| Moment { points, round: group << 32 | call };
        let all =
            [moment(1, 7, 1), moment(1, 7, 2), moment(2, 7, 3), moment(2, 0, 0), moment(3, 9, 1)];
        let order = Order::of(all);
        let [first, second, third, without, other] = all.map(|one| order.place(one));
        assert!(first < second && second < third && third < other);
        assert_eq!(third, without);
        // Who has done nothing at that time has no place of its own.
        assert_eq!(order.place(moment(1, 9, 5)), Moment::at(1));
        assert_eq!(
            all.map(|one| order.place(order.place(one))),
            [first, second, third, without, other]
        );
    }
}
