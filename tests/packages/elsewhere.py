#!/usr/bin/env python3
"""The tarball of `make dist`, built once on this machine, on older and newer systems: each is a
Debian of its own (mmdebstrap) with its own C library and MPIs. Unpacked there, it protects a
program that its MPI's compiler builds: a rank is killed, and the program started again. Needs root
and what mmdebstrap downloads, which stays in target/roots. `N passed, N failed` comes last.

usage: elsewhere.py [case ...]
"""

import re
import shutil
import sys

from packages import MPIS, ROOT, Fresh, attempt, chosen_cases, install, run

PACKAGES = ("gcc,libc6-dev,libopenmpi-dev,openmpi-bin,libmpich-dev,mpich,procps,pkg-config,"
            "python3")
AT = "/opt/elsewhere"  # anywhere: nothing in the tarball names a place
SHIM = f"LD_PRELOAD={AT}/lib/libscr_preload.so"
RUN = "-n 4 ./heat_posix --steps 60 --every 10 --delay 5"
KILLED = f"""
{SHIM} mpirun.$MPI {RUN} --pause step 45 mark & started=$!
until [ -e mark ]; do kill -0 $started || exit 9; sleep 0.1; done
kill -9 $(pgrep -n heat_posix)
wait $started && exit 8
rm -f mark
"""


def system(release):
    """The directory of a Debian of this name, with its MPIs."""
    root = ROOT / "target/roots" / release
    if not root.exists():
        if not shutil.which("mmdebstrap"):
            install("mmdebstrap", "debian-archive-keyring")
        root.parent.mkdir(exist_ok=True)
        new = root.with_name(f"{release}.new")
        shutil.rmtree(new, ignore_errors=True)
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", release, new)
        new.rename(root)
    return root


def checksum(text):
    return next(line.split()[-1] for line in reversed(text.splitlines()) if "total" in line)


def goes_on(release, tarball):
    """Under both of the system's MPIs."""
    with Fresh([tarball], system(release)) as fresh:
        fresh.do(f"mkdir {AT} && tar -C {AT} --strip-components=1 -xzf /tmp/{tarball.name}")
        fresh.do("echo 127.0.0.1 localhost $(cat /proc/sys/kernel/hostname) > /etc/hosts")
        said = fresh.do(f"export {SHIM}; ls /; sh -c true; awk 1 /dev/null; {AT}/bin/scr --version")
        assert "GLIBC" not in said and "cannot be preloaded" not in said, said
        flags = fresh.do(f"PKG_CONFIG_PATH={AT}/lib/pkgconfig pkg-config --cflags --libs scr")
        assert f"{AT}/lib/pkgconfig/../../include" in flags, flags
        for mpi in MPIS:
            place = f"/tmp/{mpi}"
            fresh.do(f"sh {AT}/share/scr/examples/build.sh {place} .{mpi}")
            settings = {
                "MPI": mpi, "SCR_COPY_TYPE": "SINGLE",
                "SCR_CONF_FILE": f"{AT}/share/scr/config/heat_posix.conf",
            }
            plain = fresh.do(f"mpirun.{mpi} {RUN} && rm -r ckpt", directory=place)
            fresh.do(KILLED, directory=place, **settings)
            left = fresh.do("ls ckpt/step_30", directory=place)
            assert not left.strip(), left  # but in the cache
            told = fresh.do(f"{SHIM} mpirun.{mpi} {RUN}", directory=place, **settings)
            # That of step 40 is sealed by a step after it, which the killed rank may not have made.
            assert "is in the cache" in told and re.search("going on from step [34]0", told), told
            assert checksum(told) == checksum(plain), f"{plain}\n{told}"
            command = f"mpirun.{mpi} -n 2 ./heat_scr --steps 20"
            called = fresh.do(command, directory=place, **settings)
            assert "step 20 total" in called, called
            cached = next(line for line in told.splitlines() if "is in the cache" in line)
            print(f"     {release} {mpi}: {cached}", flush=True)


def debian_11(tarball):
    """Its C library is 2.31."""
    goes_on("bullseye", tarball)


def debian_13(tarball):
    """Its Open MPI is a 5.0."""
    goes_on("trixie", tarball)


def main(words):
    chosen = chosen_cases(__file__, words, [debian_11, debian_13])
    run("make", "-s", "dist", cwd=ROOT)
    tarball = next(path for path in (ROOT / "target/tarball").glob("scr-*.tar.gz")
                   if "symbols" not in path.name)
    results = [attempt(one, tarball) for one in chosen]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
