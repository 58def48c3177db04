//! `interpose!`: one line exports a family of symbols, all of its aliases included.
//!
//! ```text
//! interpose! {
//!     plain [rename](from: *const c_char, to: *const c_char) -> c_int = Rename => rename;
//!     cancellable [open, open64](path: *const c_char, flags: c_int, mode: mode_t) -> c_int
//!         = Open => open;
//! }
//! ```
//! `Rename` is the type of the real function (variadic where the real one is), `rename` our body:
//! `unsafe fn(real: Rename, from, to) -> c_int`, called with the real function of *this* alias.
//!
//! `plain` exports through `redhook::hook!`. `cancellable` is for cancellation points: redhook runs
//! its body below `catch_unwind` in an `extern "C"` function, and a thread that is cancelled there
//! while it waits in the real call would abort the process. Those are exported as `"C-unwind"`, and
//! their bodies make the real call of the pass-through case with nothing of ours on the stack.
//!
//! A body that is one expression can be written in the line: see [`made`] and [`rerouted`].
//!
//! `quick` is for calls on a descriptor that are the real ones for nearly all, as `passes(fd)` of
//! the module says: a jump to those, and no frame of ours.
//!
//! `looking` and `opening` are the same two for calls that find nothing under a name which another
//! rank is changing, and which are made again then (`path/turns.rs`).

macro_rules! interpose {
    ($( $kind:ident [$($name:ident),+ $(,)?] $args:tt -> $ret:ty = $real:ty => $body:ident; )+) => {
        $( $crate::hooks::family::interpose_names! {
            $kind [$($name)+] $args -> $ret = $real => $body
        } )+
    };
}

/// Exports calls that are made by an expression, in which the real function has the given name:
/// `plain [popen](...) -> *mut FILE = |real| ...`.
macro_rules! made {
    ($( $kind:ident [$($name:ident),+] ($($arg:ident: $ty:ty),*) -> $ret:ty
        = |$real:ident| $made:expr; )+) => {
        $( $crate::hooks::family::interpose_names! {
            $kind [$($name)+] ($($arg: $ty),*) -> $ret
                = unsafe extern "C-unwind" fn($($ty),*) -> $ret => (|$real| $made)
        } )+
    };
}

/// Exports calls that the expression makes on another name; where it is `None` the real call is
/// made as the program has asked for it.
macro_rules! rerouted {
    ($( $kind:ident [$($name:ident),+] ($($arg:ident: $ty:ty),*) -> $ret:ty
        = |$real:ident| $made:expr; )+) => {
        $crate::hooks::family::made! {
            $( $kind [$($name),+] ($($arg: $ty),*) -> $ret
                = |$real| $made.unwrap_or_else(|| $real($($arg),*)); )+
        }
    };
}

macro_rules! interpose_body {
    ($real:ident ($($arg:ident),*) $body:ident) => { super::$body($real, $($arg),*) };
    ($real:ident ($($arg:ident),*) (|$own:ident| $made:expr)) => {{
        let $own = $real;
        $made
    }};
}

macro_rules! interpose_names {
    ($kind:ident [] $args:tt -> $ret:ty = $real:ty => $body:tt) => {};
    ($kind:ident [$name:ident $($rest:ident)*] $args:tt -> $ret:ty = $real:ty => $body:tt) => {
        $crate::hooks::family::interpose_one! { $kind $name $args -> $ret = $real => $body }
        $crate::hooks::family::interpose_names! { $kind [$($rest)*] $args -> $ret = $real => $body }
    };
}

macro_rules! interpose_one {
    (plain $($rest:tt)*) => { $crate::hooks::family::interpose_plain! { once $($rest)* } };
    (looking $($rest:tt)*) => { $crate::hooks::family::interpose_plain! { settled $($rest)* } };
    (cancellable $($rest:tt)*) => {
        $crate::hooks::family::interpose_cancellable! { once $($rest)* }
    };
    (quick $($rest:tt)*) => { $crate::hooks::family::interpose_quick! { $($rest)* } };
    (opening $($rest:tt)*) => {
        $crate::hooks::family::interpose_cancellable! { settled $($rest)* }
    };
}

macro_rules! interpose_plain {
    ($how:ident $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty = $real:ty => $body:tt) => {
        #[allow(non_snake_case)]
        mod $name {
            use super::*;
            $crate::hooks::family::interpose_dispatch! {
                $how $name ($($arg: $ty),*) -> $ret = $real => $body
            }
            redhook::hook! {
                unsafe fn $name($($arg: $ty),*) -> $ret => detour {
                    // SAFETY: the caller's contract is that of the libc function of this name.
                    unsafe { dispatch($($arg),*) }
                }
            }
        }
    };
}

macro_rules! interpose_cancellable {
    ($how:ident $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty = $real:ty => $body:tt) => {
        #[allow(non_snake_case)]
        mod $name {
            use super::*;
            $crate::hooks::family::interpose_dispatch! {
                $how $name ($($arg: $ty),*) -> $ret = $real => $body
            }
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
                // SAFETY: the caller's contract is that of the libc function of this name.
                unsafe { dispatch($($arg),*) }
            }
        }
    };
}

macro_rules! interpose_quick {
    ($name:ident ($fd:ident : $number:ty $(, $arg:ident : $ty:ty)*) -> $ret:ty = $real:ty
        => $body:tt) => {
        #[allow(non_snake_case)]
        mod $name {
            use super::*;
            $crate::hooks::family::interpose_dispatch! {
                once $name ($fd: $number $(, $arg: $ty)*) -> $ret = $real => $body
            }
            #[cold]
            #[inline(never)]
            unsafe extern "C-unwind" fn slow($fd: $number $(, $arg: $ty)*) -> $ret {
                // SAFETY: as below.
                unsafe { dispatch($fd $(, $arg)*) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($fd: $number $(, $arg: $ty)*) -> $ret {
                // SAFETY: the caller's contract is that of the libc function of this name, whose
                // address was looked up, and whose C type `$real` states.
                unsafe {
                    match SYMBOL.known() {
                        Some(address) if passes($fd) => {
                            core::mem::transmute::<usize, $real>(address.get())($fd $(, $arg)*)
                        }
                        _ => slow($fd $(, $arg)*),
                    }
                }
            }
        }
    };
}

macro_rules! interpose_dispatch {
    ($how:ident $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty = $real:ty => $body:tt) => {
        static SYMBOL: $crate::base::real::Symbol = $crate::base::real::Symbol::new(
            // A name from `stringify!` has no NUL inside.
            match core::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => panic!("name with NUL"),
            },
        );
        #[inline]
        unsafe fn dispatch($($arg: $ty),*) -> $ret {
            let Some(address) = SYMBOL.next() else {
                $crate::base::errno::set_errno(libc::ENOSYS);
                return <$ret as $crate::base::real::Missing>::VALUE;
            };
            // SAFETY: the address is that of the function `$name`, whose C type `$real` states.
            unsafe {
                let real = core::mem::transmute::<usize, $real>(address.get());
                $crate::path::turns::$how(|| {
                    $crate::hooks::family::interpose_body!(real ($($arg),*) $body)
                })
            }
        }
    };
}

pub(crate) use {
    interpose, interpose_body, interpose_cancellable, interpose_dispatch, interpose_names,
    interpose_one, interpose_plain, interpose_quick, made, rerouted,
};
