#!/bin/sh
# Fails if one of the files asks the C library for more than its version VERSION has: a symbol of a
# later version, or one of no version that has to be there.
#
# usage: oldest.sh VERSION FILE...
set -eu
version=$1
shift
for file in "$@"; do
  table=$(objdump -T "$file") # what it cannot read is an error
  asked=$(echo "$table" | grep '\*UND\*' || true)
  newest=$(echo "$asked" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -1)
  if ! printf '%s\n' "$newest" "$version" | sort -CV; then
    echo "$file needs glibc $newest, not $version:"
    echo "$asked" | grep "GLIBC_$newest"
    exit 1
  fi
  # Weak ones have a "w", and are looked for before they are called.
  nowhere=$(echo "$asked" | grep -v -e GLIBC_ -e GCC_ -e '^[0-9a-f]*  w' || true)
  if [ -n "$nowhere" ]; then
    echo "$file needs what no version of glibc before $version had:"
    echo "$nowhere"
    exit 1
  fi
done
