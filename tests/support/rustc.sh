#!/bin/sh
# Stands between cargo and the compiler when tests are compiled (tests/run.py). The libraries are
# the release's. A test itself mostly waits for files and threads: to optimise it takes minutes and
# saves seconds, but where a hundred thousand schedules are simulated. Nobody debugs what is linked
# here: a program with the debug information of all libraries has 170 MB, and while a disk takes ten
# of those, tests that begin wait for it.
without_debug="-C strip=debuginfo"
case " $* " in
*" --crate-name simulation "* | *" --crate-type bin "*) exec "$@" $without_debug ;;
*" --test "*) exec "$@" $without_debug -C debuginfo=0 -C opt-level=0 -C lto=off ;;
esac
exec "$@"
