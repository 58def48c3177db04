//! dprintf(3) and its kin: libc writes to the descriptor by functions of its own, and the arguments
//! are of any number and kind. So the hooks are a few instructions that keep all registers of the
//! call, ask, and jump to the real function as if they had not been there.

use std::ffi::{CStr, c_int};

use scr_abi::accesses::trait_bit;

use crate::base::real::Symbol;
use crate::fd::logged;
use crate::hooks::files::intent::may_change;
use crate::signal::guard;

fn ready(symbol: &Symbol, fd: c_int) -> usize {
    let Some(address) = symbol.next() else {
        guard::set_errno(libc::ENOSYS);
        return 0;
    };
    logged::mark(fd, trait_bit::UNSEEN);
    if may_change(fd) { address.get() } else { 0 }
}

/// Exports functions whose first argument is a descriptor and which return a negative number when
/// they fail; nothing else is known of them.
macro_rules! forward {
    ($($name:ident)+) => { $(
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[allow(non_snake_case)]
        mod $name {
            use super::*;

            extern "C" fn before(fd: c_int) -> usize {
                const NAME: &CStr =
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("name with NUL"),
                    };
                static SYMBOL: Symbol = Symbol::new(NAME);
                ready(&SYMBOL, fd)
            }

            // SAFETY: all registers that can hold arguments, and the stack, are as they were when
            // the real function is entered; it returns to our caller.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C-unwind" fn $name() {
                jump_after!(before)
            }
        }
    )+ };
}

/// rax tells a variadic function how many vector registers are in use.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_after {
    ($before:ident) => {
        std::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 192",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "mov [rsp + 48], rax",
            "movaps [rsp + 64], xmm0",
            "movaps [rsp + 80], xmm1",
            "movaps [rsp + 96], xmm2",
            "movaps [rsp + 112], xmm3",
            "movaps [rsp + 128], xmm4",
            "movaps [rsp + 144], xmm5",
            "movaps [rsp + 160], xmm6",
            "movaps [rsp + 176], xmm7",
            "call {before}",
            "mov r11, rax",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "mov rax, [rsp + 48]",
            "movaps xmm0, [rsp + 64]",
            "movaps xmm1, [rsp + 80]",
            "movaps xmm2, [rsp + 96]",
            "movaps xmm3, [rsp + 112]",
            "movaps xmm4, [rsp + 128]",
            "movaps xmm5, [rsp + 144]",
            "movaps xmm6, [rsp + 160]",
            "movaps xmm7, [rsp + 176]",
            "leave",
            "test r11, r11",
            "jz 2f",
            "jmp r11",
            "2:",
            "mov eax, -1",
            "ret",
            before = sym $before,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump_after {
    ($before:ident) => {
        std::arch::naked_asm!(
            "stp x29, x30, [sp, #-224]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "stp q0, q1, [sp, #96]",
            "stp q2, q3, [sp, #128]",
            "stp q4, q5, [sp, #160]",
            "stp q6, q7, [sp, #192]",
            "bl {before}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldr x8, [sp, #80]",
            "ldp q0, q1, [sp, #96]",
            "ldp q2, q3, [sp, #128]",
            "ldp q4, q5, [sp, #160]",
            "ldp q6, q7, [sp, #192]",
            "ldp x29, x30, [sp], #224",
            "cbz x16, 2f",
            "br x16",
            "2:",
            "mov w0, #-1",
            "ret",
            before = sym $before,
        )
    };
}

forward! { dprintf vdprintf __dprintf_chk __vdprintf_chk }
