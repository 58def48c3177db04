#!/bin/sh
# Looks for what a build needs, by the programs that are there, and says what to install.
# Where it is root on Debian or Ubuntu it installs that, and what the tests need.
#
# usage: needs.sh RUST all|some [PACKAGE...]
# RUST is the oldest Rust that will do. The packages are Debian's: of `all` the target needs each, of
# `some` what does the same will do where they are not Debian's.
set -eu
rust=$1 which=$2
shift 2
cargo=${CARGO:-cargo}
rustup="curl --proto '=https' --tlsv1.2 -sSf https://static.rust-lang.org/rustup/rustup-init.sh |
  sh -s -- -y --no-modify-path --profile minimal --component rustfmt --component clippy"

there() { command -v "$1" >/dev/null 2>&1; }
is_debian() { there dpkg-query && there apt-get; }

install_packages() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# A compiler without the C library's headers and start files makes nothing.
compiles() {
  made=$(mktemp) || exit 1
  there cc && printf '#include <stdio.h>\nint main(void) { return 0; }\n' |
    cc -x c -o "$made" - 2>/dev/null && result=0 || result=1
  rm -f "$made"
  return $result
}

cargo_version() { "$cargo" --version 2>/dev/null | cut -d' ' -f2 | grep . || echo 0; }
rust_is_new_enough() { printf '%s\n' "$rust" "$(cargo_version)" | sort -CV; }

# Whether a package is, or what does the same.
is_there() {
  case $1 in
    python3-pip) "${PYTHON:-python3}" -m pip --version >/dev/null 2>&1 && return ;;
    binutils) there objcopy && there objdump && there strip && return ;;
  esac
  is_debian && dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

if [ "$which" = all ] && ! is_debian; then
  echo "the tests need Debian or Ubuntu, whose packages they take; 'make build' does not"
  exit 1
fi

missing=
for package in "$@"; do
  is_there "$package" || missing="$missing $package"
done
if [ -n "$missing" ] && is_debian && [ "$(id -u)" = 0 ]; then
  # Their names are words.
  # shellcheck disable=SC2086
  install_packages $missing
elif [ -n "$missing" ] && is_debian; then
  echo "missing packages; as root: apt-get install --no-install-recommends$missing"
  exit 1
elif [ -n "$missing" ]; then
  echo "missing programs; one of these installs them, as root:"
  for with in "apt-get" "dnf" "zypper"; do
    echo "  $with install$missing"
  done
  exit 1
fi

if ! compiles; then
  if is_debian && [ "$(id -u)" = 0 ]; then
    install_packages gcc libc6-dev
  else
    echo "a C compiler is needed (cc), and its library's headers; one of these installs it, as root:"
    echo "  apt-get install gcc libc6-dev     Debian, Ubuntu"
    echo "  dnf install gcc glibc-devel       RHEL, Rocky, Alma, Fedora"
    echo "  zypper install gcc glibc-devel    SLES, openSUSE"
    exit 1
  fi
fi

if ! rust_is_new_enough; then
  echo "Rust $rust or newer is needed (cargo here: $(cargo_version)). Its own installer puts it into"
  echo "~/.cargo, on every Linux and without root (curl: a package of that name for apt-get, dnf, zypper):"
  echo "  $rustup"
  if is_debian && [ "$(id -u)" = 0 ]; then
    there curl || install_packages curl ca-certificates
    sh -c "$rustup"
    "$cargo" --version
  else
    exit 1
  fi
fi
