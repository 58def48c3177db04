//! How the engine is asked, and what it answers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

use scr_abi::{PathAnswer, StatAnswer, kind};

pub(crate) enum Answer {
    /// The name is not ours: the real call is made.
    Pass,
    /// The real call is made on this file.
    Redirect(CString),
    Fail(c_int),
    Done,
    /// The file is elsewhere.
    Stat(StatAnswer),
}

/// Returns the token, too, 0 for none.
pub(crate) fn ask(question: impl FnOnce(*mut PathAnswer)) -> (Answer, u64) {
    let (answer, token, _) = ask_whole(question);
    (answer, token)
}

/// Tells, last, whether the engine wants to hear of the name no more.
pub(crate) fn ask_whole(question: impl FnOnce(*mut PathAnswer)) -> (Answer, u64, bool) {
    let mut verdict = MaybeUninit::<PathAnswer>::uninit();
    let to = verdict.as_mut_ptr();
    // SAFETY: the fields are written, and then read, one by one through the pointer to the whole;
    // the path is read only when the engine says that it wrote a C string there.
    unsafe {
        (&raw mut (*to).kind).write(kind::PASS);
        (&raw mut (*to).errno).write(0);
        (&raw mut (*to).foreign).write(0);
        (&raw mut (*to).token).write(0);
        (&raw mut (*to).stat).write(StatAnswer::default());
        question(to);
        let answer = match (*to).kind {
            kind::REDIRECT => {
                let path = (&raw const (*to).path).cast::<c_char>();
                Answer::Redirect(CStr::from_ptr(path).to_owned())
            }
            kind::FAIL => Answer::Fail((*to).errno),
            kind::DONE => Answer::Done,
            kind::STAT => Answer::Stat((*to).stat),
            _ => Answer::Pass,
        };
        (answer, (*to).token, (*to).foreign != 0)
    }
}
