//! Moves a file to the PFS while the program has it open: it is never quiet, or its store
//! is full or fails.

use std::ffi::c_int;
use std::time::Duration;

use scr_abi::{Engine, messages};

use crate::base::message::say;
use crate::fd::changes::{self, Moment};
use crate::fd::lazy::{WAKING, hold, put_in_place};
use crate::fd::open_files::{self, Claim, Replaced};
use crate::{engine, fd::logged, signal::guard};

/// A flush waits so long for calls that are under way on the file.
const PATIENCE: Duration = Duration::from_millis(100);
const PATIENCE_WHEN_REFUSED: Duration = Duration::from_secs(5);

/// Serves as [`scr_abi::Host::move_out`].
pub(crate) extern "C" fn move_out(token: u64) {
    let Some(active) = engine::active() else { return };
    guard::enter_thread();
    let one_at_a_time = WAKING.lock();
    // Other nodes wait for one of which each has a part.
    let must = lies_in_part(&[token]);
    let why = if must { MoveReason::Refused(0) } else { MoveReason::NeverQuiet };
    move_file(&active.table, token, why);
    drop(one_at_a_time);
    guard::leave_thread();
}

/// Moves a file that its store refuses with `code` (0: for want of room, which the engine knows
/// of), unless it has moved since `begun`. Guard held; no call of this thread on the file is under
/// way.
pub(crate) fn evacuate(table: &Engine, claim: Claim, code: c_int, begun: Moment) -> bool {
    if claim.log.is_some_and(logged::Log::is_parted) {
        // Waits until it is this file's turn: another one of which each node has a part may have to
        // move before.
        (table.has)(claim.token, 0, u64::MAX);
    }
    let _one_at_a_time = WAKING.lock();
    Moment::now() != begun || move_file(table, claim.token, MoveReason::Refused(code))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MoveReason {
    /// If anything may write to the file unseen it moves another time, at the latest at its close.
    NeverQuiet,
    /// A call met this errno, or would: it moves now, or the program gets an error.
    Refused(c_int),
}

/// Moves all descriptors of `token`'s file; other threads that write wait meanwhile.
fn move_file(table: &Engine, token: u64, why: MoveReason) -> bool {
    let Some(own) = hold(token) else { return false };
    let holders = open_files::holders_of_same_file(own).into_iter().map(|(token, _)| token);
    let tokens: Vec<u64> = [token].into_iter().chain(holders.filter(|one| *one != token)).collect();
    let (lazy, parts) = (open_files::lazy_holders(), open_files::lazy_parts());
    let mut awake = tokens.clone();
    awake.retain(|token| !lazy.iter().any(|(one, _)| one == token));
    awake.iter().for_each(|token| open_files::set_lazy(*token, true));
    let writers = writers(&tokens, why);
    let moves = match why {
        MoveReason::NeverQuiet => writers == Writers::Wait,
        MoveReason::Refused(_) => writers != Writers::Map,
    };
    let moved = moves && move_held(table, own, Moving { tokens: &tokens, parts }, why, writers);
    if moved {
        changes::moved();
    }
    awake.iter().for_each(|token| open_files::set_lazy(*token, false));
    // SAFETY: made above.
    unsafe { libc::close(own) };
    moved
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    /// All writers are seen, and wait until the tokens are not lazy any more.
    Wait,
    /// There is a stream whose writes are not seen, or a number so high that no hook could tell.
    MayWrite,
    Write,
    /// What is written through a mapping to the old file would be lost.
    Map,
}

fn writers(tokens: &[u64], why: MoveReason) -> Writers {
    let descriptors = open_files::descriptors_of(tokens);
    // The program's standard streams may be on descriptors that it has put there.
    let waits = |(fd, has_stream): &(c_int, bool)| {
        let may_write = *has_stream || *fd <= libc::STDERR_FILENO;
        open_files::may_be_lazy(*fd) && (!may_write || open_files::streams_are_seen())
    };
    let numbers: Vec<c_int> = descriptors.iter().map(|(fd, _)| *fd).collect();
    let patience = if why == MoveReason::NeverQuiet { PATIENCE } else { PATIENCE_WHEN_REFUSED };
    let at_rest = changes::come_to_rest(&numbers, patience);
    // A call that makes a mapping is under way until that is known.
    if tokens.iter().any(|token| open_files::is_mapped(*token)) {
        Writers::Map
    } else if !at_rest {
        Writers::Write
    } else if !descriptors.iter().all(waits) {
        Writers::MayWrite
    } else {
        Writers::Wait
    }
}

/// What moves.
struct Moving<'a> {
    /// They share a file.
    tokens: &'a [u64],
    /// Those through which parts of sealed files are read: they stay lazy where these are whole.
    parts: Vec<u64>,
}

/// Returns false if not even the first token of `moving`, which share the file of `old`, could
/// move.
fn move_held(
    table: &Engine,
    old: c_int,
    moving: Moving<'_>,
    why: MoveReason,
    writers: Writers,
) -> bool {
    let Moving { tokens, parts } = moving;
    // Other ranks write to a parted file until the engine, which asks them all, has it at rest.
    let seen_alone = !lies_in_part(tokens);
    let before = stamp(old);
    let code = if let MoveReason::Refused(code) = why { code } else { 0 };
    let (mut moved, mut name) = (false, None);
    for token in tokens {
        let Some(own) = hold(*token) else { continue };
        match (table.evacuate)(*token, own, code) {
            -1 if moved => (table.failed)(*token, libc::EIO),
            -1 => {}
            new => {
                moved = true;
                name = std::fs::read_link(format!("/proc/self/fd/{new}")).ok().or(name);
                replace_in_use(
                    *token,
                    own,
                    new,
                    Replaced { lazy: parts.contains(token), log: logged::log_of(table, *token) },
                );
            }
        }
        // SAFETY: made above.
        unsafe { libc::close(own) };
    }
    if moved && (writers == Writers::Write || seen_alone && stamp(old) != before) {
        say(
            messages::WRITTEN_WHILE_MOVED,
            &format!(
                "{} was written while it moved to the PFS, by a call that SCR does not see; what \
                 it wrote then is lost",
                name.unwrap_or_default().display()
            ),
        );
        if why != MoveReason::NeverQuiet {
            (table.failed)(tokens[0], libc::EIO);
        }
    }
    moved
}

fn lies_in_part(tokens: &[u64]) -> bool {
    open_files::descriptors_of(tokens).iter().any(|(fd, _)| logged::is_parted(*fd))
}

/// A thread that only reads or seeks has not waited: what it has done to the place of `own`, a copy
/// of the token's descriptors, since the engine looked is done to `new`.
fn replace_in_use(token: u64, own: c_int, new: c_int, by: Replaced) {
    // SAFETY: system calls on numbers; the engine gave us the descriptor.
    unsafe {
        let place = |fd| libc::lseek(fd, 0, libc::SEEK_CUR);
        let before = place(new);
        open_files::replace(token, by, |fd| put_in_place(new, fd));
        let after = place(own);
        if after != before && place(new) == before {
            libc::lseek(new, after, libc::SEEK_SET);
        }
        libc::close(new);
    }
}

/// Returns size and time of the last change.
fn stamp(fd: c_int) -> Option<(i64, i64, i64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat writes the structure when it returns 0.
    unsafe {
        if libc::fstat(fd, found.as_mut_ptr()) != 0 {
            return None;
        }
        let found = found.assume_init();
        Some((found.st_size, found.st_mtime, found.st_mtime_nsec))
    }
}
