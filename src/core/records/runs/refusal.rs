//! That a launch went without SCR, and why: for people who look afterwards (`scr doctor`).

use crate::kvtree::KvTree;
use crate::records::record::Record;

/// The last launch on a prefix that went without SCR.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// When, seconds since 1970.
    pub time: u64,
    /// Why, in a clause.
    pub why: String,
}

impl Refusal {
    /// File name in the prefix's `.scr` directory. The next launch that SCR takes part in removes
    /// it.
    pub const NAME: &'static str = "refused.scr";
}

impl Record for Refusal {
    const KIND: &'static str = "the record of a launch without SCR";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("TIME", self.time);
        tree.set_value("WHY", &self.why);
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let why = tree.get_value("WHY").ok_or("no reason WHY")?.to_owned();
        Ok(Refusal { time: tree.get_u64("TIME").ok_or("no TIME")?, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was() {
        let one = Refusal { time: 7, why: "node b has no shim".into() };
        assert_eq!(Refusal::from_tree(&one.to_tree()), Ok(one));
        assert!(Refusal::from_tree(&KvTree::new()).is_err());
    }
}
