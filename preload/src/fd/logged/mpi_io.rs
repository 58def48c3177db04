//! The call of MPI-IO that this thread is in, if it is one that writes. What such a call reads it
//! reads for itself: it writes back what it has read, with the program's bytes put in.

use std::cell::Cell;

use scr_abi::accesses::Within;

thread_local! {
    static CALL: Cell<Within> = const { Cell::new(Within::Nothing) };
}

/// A call of MPI-IO that writes; dropping the value leaves it.
pub(crate) struct WriteCall(Within);

impl WriteCall {
    /// Tells what the function of MPI with this name is: one by which a whole communicator writes
    /// has `_all` or `_ordered` in its name.
    pub(crate) const fn kind(name: &str) -> Within {
        let name = name.as_bytes();
        if !has(name, b"File_write") && !has(name, b"File_iwrite") {
            Within::Nothing
        } else if has(name, b"_all") || has(name, b"_ordered") {
            Within::WriteAll
        } else {
            Within::Write
        }
    }

    /// Enters a call of this kind.
    pub(crate) fn enter(kind: Within) -> Self {
        Self(CALL.with(|call| call.replace(kind)))
    }
}

const fn has(text: &[u8], part: &[u8]) -> bool {
    let mut at = 0;
    while at + part.len() <= text.len() {
        let mut same = 0;
        while same < part.len() && text[at + same] == part[same] {
            same += 1;
        }
        if same == part.len() {
            return true;
        }
        at += 1;
    }
    false
}

impl Drop for WriteCall {
    fn drop(&mut self) {
        CALL.with(|call| call.set(self.0));
    }
}

/// Tells where the thread is, which writes.
pub(super) fn place() -> Within {
    CALL.with(Cell::get)
}

/// Tells whether what the thread reads it will write back, with the program's bytes put in.
pub(super) fn writes_back() -> bool {
    place() != Within::Nothing
}

/// Tells where the thread is, which reads: what it writes before it has left the call is told from
/// what the program writes.
pub(super) fn reads() -> Within {
    CALL.with(|call| match call.get() {
        Within::Nothing => Within::Nothing,
        _ => {
            call.set(Within::Sieve);
            Within::Sieve
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_writes_after_it_has_read_is_told_apart() {
        assert_eq!((reads(), place()), (Within::Nothing, Within::Nothing));
        {
            let _one = WriteCall::enter(Within::Write);
            assert_eq!(place(), Within::Write);
            assert_eq!((reads(), place()), (Within::Sieve, Within::Sieve));
        }
        assert_eq!(place(), Within::Nothing);
    }

    #[test]
    fn a_name_tells_who_place() {
        for (name, kind) in [
            ("MPI_File_read_at_all\0", Within::Nothing),
            ("PMPI_File_iwrite_at\0", Within::Write),
            ("MPI_File_write_shared\0", Within::Write),
            ("MPI_File_write_at_all_begin\0", Within::WriteAll),
            ("PMPI_File_write_ordered\0", Within::WriteAll),
        ] {
            assert_eq!(WriteCall::kind(name), kind, "{name}");
        }
    }
}
