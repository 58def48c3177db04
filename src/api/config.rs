//! SCR_Config: settings of the program, weaker than those of its user.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use scr_core::error::Result;
use scr_core::log::messages;
use scr_core::params::Query;
use scr_core::session::{ProgramState, program_setting};

use super::door::{door, failed};
use super::shared::{is_null, text_of};
use crate::engine;

/// Reads, sets or unsets the parameter that `config` names. Returns what was read, a copy that the
/// caller frees, else NULL. Safety: `config` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SCR_Config(config: *const c_char) -> *const c_char {
    // SAFETY: by this function's contract.
    let text = unsafe { text_of(config, "the setting") };
    let answer = catch_unwind(AssertUnwindSafe(|| answer(text)));
    let answer = answer.unwrap_or(Ok(None)).unwrap_or_else(|error| {
        failed(messages::SETTING_WRONG, true, format!("SCR_Config: {error}"));
        None
    });
    let Some(answer) = answer.and_then(|text| CString::new(text).ok()) else {
        return std::ptr::null();
    };
    // SAFETY: a C string; the caller frees the copy with free(3).
    unsafe { libc::strdup(answer.as_ptr()) }
}

/// Returns `None` where a value was set, or there is none.
pub(super) fn answer(text: Result<Option<&str>>) -> Result<Option<String>> {
    let text = text?.ok_or_else(|| is_null("the setting"))?;
    let mut door = door();
    match (Query::parse(text)?, door.session) {
        (Query::Read(asked), Some(session)) => Ok(asked.find(session.program.settings())),
        (Query::Read(asked), None) => program_setting(&engine::around(0, 1, &door.lines), &asked),
        (change, _) if door.state == ProgramState::Uninit && !door.was_open => {
            let mut lines = door.lines.clone();
            change.apply(&mut lines);
            // A mistake is told where it is made, and not kept.
            program_setting(&engine::around(0, 1, &lines), &change.of())
                .map(|_| door.lines = lines)?;
            Ok(None)
        }
        _ => Err(scr_core::error::Error::Refused(format!(
            "'{text}' comes too late: settings are made before SCR_Init"
        ))),
    }
}

unsafe extern "C" {
    /// It is in `configf.c`.
    fn scr_configf();
}

/// Goes on in C as it was called, whatever its arguments.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn SCR_Configf() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {}", sym scr_configf);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {}", sym scr_configf);
    #[cfg(target_arch = "riscv64")]
    std::arch::naked_asm!("tail {}", sym scr_configf);
    #[cfg(any(target_arch = "powerpc64", target_arch = "s390x"))]
    compile_error!("SCR_Configf needs a jump of this processor");
}
