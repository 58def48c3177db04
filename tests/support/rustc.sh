#!/bin/sh
# Stands between cargo and the compiler when tests are compiled (tests/run.py). The libraries are
# the release's. A test itself mostly waits for files and threads: to optimise it takes minutes and
# saves seconds, but where a hundred thousand schedules are simulated.
case " $* " in
*" --crate-name simulation "*) exec "$@" ;;
*" --test "*) exec "$@" -C opt-level=0 -C lto=off ;;
esac
exec "$@"
