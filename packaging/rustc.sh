#!/bin/sh
# Stands between cargo and the compiler (RUSTC_WRAPPER, by the Makefile), so that what is built names
# no directory of who has built it, neither in its messages nor in its debug information.
#
# It is no flag of cargo's own (RUSTFLAGS): cargo would compile everything once with it and once
# without, and what `make build` has made serves a plain `cargo test`, too.
top=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$@" --remap-path-prefix="$top=scr" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=cargo"
