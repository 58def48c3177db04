//! Packed form (manual 1.1, section 3.4.1).
//!
//! ```text
//! hash    = count (u32, big-endian), then count elements
//! element = key (UTF-8), NUL, hash
//! ```

use super::KvTree;

impl KvTree {
    /// Counts the bytes of the packed form.
    pub fn packed_len(&self) -> usize {
        let below: usize = self.iter().map(|(key, sub)| key.len() + 1 + sub.packed_len()).sum();
        size_of::<u32>() + below
    }

    /// Returns the packed form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.packed_len());
        self.encode_into(&mut out);
        out
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        // A tree of 2^32 keys under one parent would not fit into memory beside its packed form.
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&count.to_be_bytes());
        for (key, subtree) in self {
            out.extend_from_slice(key.as_bytes());
            out.push(0);
            subtree.encode_into(out);
        }
    }
}
