#!/bin/sh
# Builds the examples with the compilers of an MPI: mpicc, mpicxx, mpif90, or those whose names have
# something behind ("mpicc.openmpi" on Debian). What has no compiler is left out, and said.
#
# usage: build.sh DIRECTORY [.SUFFIX]
# SCR's headers and library are looked for below SCR_ROOT, by default where this is installed.
set -eu
directory=$1
suffix=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
root=${SCR_ROOT:-$(cd "$here/../../.." && pwd)}
flags="-O2 -Wall -Wextra"
cargo=${CARGO:-cargo}
mkdir -p "$directory/modules"
cd "$directory"

there() { command -v "$1" >/dev/null 2>&1; }
# The words of the flags are meant to be split.
# shellcheck disable=SC2086
c() {
  name=$1
  shift
  "mpicc$suffix" $flags -o "$name" "$here/$name.c" "$@"
}
scr() { "$@" "-I$root/include" "-L$root/lib" "-Wl,-rpath,$root/lib" -lscr; }
# Modules of two programs that are built at the same time would be mixed up in one directory.
fortran() {
  name=$1
  shift
  (cd modules && "mpif90$suffix" -O2 -w -o "../$name" "$here/heat_common.f90" "$@") ||
    echo "left out: $name, which mpif90$suffix does not build"
}

c heat_posix
c heat_stdio
scr c heat_scr
if there "mpicxx$suffix"; then
  # shellcheck disable=SC2086
  "mpicxx$suffix" -std=c++17 $flags -DOMPI_SKIP_MPICXX -o heat_cpp "$here/heat_cpp.cpp" ||
    echo "left out: heat_cpp, which mpicxx$suffix does not build"
else
  echo "left out: heat_cpp, there is no mpicxx$suffix"
fi
if there "mpif90$suffix"; then
  # Since version 10 gfortran wants to be told that MPI's routines take buffers of any type.
  mismatch=-fallow-argument-mismatch
  echo end | "mpif90$suffix" $mismatch -fsyntax-only -x f95 - 2>/dev/null || mismatch=-w
  fortran heat_f77 $mismatch "$here/heat_f77.f90"
  fortran heat_f08 "$here/heat_f08.f90"
  scr fortran heat_scr_f "$here/heat_scr.f90"
else
  echo "left out: heat_f77, heat_f08, heat_scr_f, there is no mpif90$suffix"
fi
rust() {
  # The crate `mpi` takes the MPI of MPICC, and does not notice another one; the rest serves both.
  "$cargo" clean --quiet --release --manifest-path "$here/rust/Cargo.toml" -p mpi-sys &&
    SCR_ROOT=$root MPICC=mpicc$suffix "$cargo" build --quiet --release --locked \
      --manifest-path "$here/rust/Cargo.toml"
}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/rust}
export CARGO_TARGET_DIR
if there "$cargo" && rust >rust.log 2>&1; then
  cp -f "$CARGO_TARGET_DIR/release/heat_rsmpi" "$CARGO_TARGET_DIR/release/heat_scr_rs" .
else
  echo "left out: heat_rsmpi, heat_scr_rs, which need cargo, the crate mpi and its libclang" \
    "($directory/rust.log)"
fi
for name in common numpy h5py scr; do cp -f "$here/heat_$name.py" .; done
