//! Which prefix this is, whatever its path: `prefix.scr`, made with the first launch there. A
//! directory that is deleted and made anew under the same path has none, or another one.

use crate::kvtree::KvTree;
use crate::records::record::Record;
use crate::system::random_u64;

/// The identity of a prefix; every record in a cache names the one that it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixIdentity(String);

impl PrefixIdentity {
    /// Name of the file in the prefix's `.scr` directory.
    pub const NAME: &'static str = "prefix.scr";

    /// Makes one that no other prefix has.
    #[must_use]
    pub fn random() -> Self {
        PrefixIdentity(format!("{:016x}{:016x}", random_u64(), random_u64()))
    }

    /// Reads it from text; `None` if that is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then(|| PrefixIdentity(text.to_owned()))
    }

    /// Returns it as text: 32 hexadecimal digits.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl Record for PrefixIdentity {
    const KIND: &'static str = "the identity of the prefix";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", 1);
        tree.set_value("IDENTITY", &self.0);
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let text = tree.get_value("IDENTITY").unwrap_or_default();
        PrefixIdentity::parse(text).ok_or_else(|| format!("{text:?} is no identity"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_tree_and_is_like_no_other() {
        let one = PrefixIdentity::random();
        assert_eq!(PrefixIdentity::from_tree(&one.to_tree()), Ok(one.clone()));
        assert_ne!(one, PrefixIdentity::random());
        assert_eq!(PrefixIdentity::parse(one.text()), Some(one));
        assert!(PrefixIdentity::from_tree(&KvTree::new()).is_err());
        assert_eq!(PrefixIdentity::parse(&"x".repeat(32)), None);
    }
}
