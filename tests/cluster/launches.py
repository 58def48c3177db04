"""`LD_PRELOAD=... mpirun` on several nodes, with whatever else the user gives to mpirun."""

import concurrent.futures
import itertools
import subprocess

from cluster import ROOT, SHIM, Cluster, Run
from samples import environment
from scene import LENGTH, Prefix
from stories import POSIX, story

# What a rank prints, one `NAME=value` a line.
SHOWN = ("LD_PRELOAD", "SCR_SEEN", "SCR_CONF_FILE", "FOO", "OTHER", "AGENT")
PRINT = "#!/bin/sh\nprintf '" + "|".join(f"{name}=%s" for name in SHOWN) + "\\n' " + " ".join(
    f'"${name}"' for name in SHOWN
) + "\n"
TOOL = "libm.so.6"  # a library that the user preloads; it changes nothing
OWN_AGENT = "#!/bin/sh\n: > mark\nexec {agent} \"$@\"\n"
HERE = "HERE"  # the directory of the launch
AT_ONCE = 4  # launches mostly wait


class Way:
    """One thing that a user may add: words for mpirun, variables, and what a rank has of it."""

    def __init__(self, *words, variables=None, preload=None, **seen):
        self.words, self.variables, self.preload, self.seen = words, variables or {}, preload, seen


# How a user hands variables to the ranks.
OPEN_MPI_OPTIONS = {
    "nothing": Way(),
    "-x": Way("-x", "FOO", "-x", "OTHER=a b", variables={"FOO": "1"}, FOO="1", OTHER="a b"),
    "-x LD_PRELOAD": Way("-x", f"LD_PRELOAD={TOOL}", preload=TOOL),
    "list": Way("--mca", "mca_base_env_list", "FOO=2;OTHER=3", FOO="2", OTHER="3"),
    "list with LD_PRELOAD": Way(
        "--mca", "mca_base_env_list", f"LD_PRELOAD={TOOL};FOO=3", preload=TOOL, FOO="3"
    ),
    "list in a variable": Way(
        variables={"OMPI_MCA_mca_base_env_list": f"FOO;LD_PRELOAD={TOOL}", "FOO": "4"},
        preload=TOOL, FOO="4",
    ),
}
# How a user names a daemon; a tune file has no place for a command of two words.
AGENT = "env AGENT=1 orted"
OPEN_MPI_AGENTS = {
    "no agent": Way(),
    "variable": Way(variables={"OMPI_MCA_orte_launch_agent": AGENT}, AGENT="1"),
    "--mca": Way("--mca", "orte_launch_agent", AGENT, AGENT="1"),
    "--launch-agent": Way("--launch-agent", AGENT, AGENT="1"),
    "file": Way("--mca", "mca_base_param_files", "agent.conf", AGENT="1"),
    "old name": Way(variables={"OMPI_MCA_mca_param_files": "agent.conf"}, AGENT="1"),
    "user's file": Way(variables={"HOME": HERE}, AGENT="1"),
    "--tune": Way("--tune", "tune.conf", AGENT="1"),
    "variable and --mca": Way(
        "--mca", "orte_launch_agent", AGENT,
        variables={"OMPI_MCA_orte_launch_agent": "false"}, AGENT="1",
    ),
}
# How a user limits what hydra hands on.
HYDRA_OPTIONS = {
    "nothing": Way(variables={"FOO": "1"}, FOO="1"),
    "-genv": Way("-genv", "FOO", "2", FOO="2"),
    "-genv LD_PRELOAD": Way("-genv", "LD_PRELOAD", TOOL, preload=TOOL),
    "-genvlist": Way("-genvlist", "FOO,PATH", variables={"FOO": "3", "OTHER": "no"}, FOO="3"),
    "-genvnone": Way("-genvnone", variables={"FOO": "no"}),
    "-envnone": Way("-envnone", variables={"FOO": "no"}),
    "-envlist": Way("-envlist", "FOO,PATH", variables={"FOO": "4", "OTHER": "no"}, FOO="4"),
    "-envall": Way("-envall", variables={"FOO": "5"}, FOO="5"),
    "HYDRA_ENV": Way(variables={"HYDRA_ENV": "none", "FOO": "no"}),
    "-configfile": Way("-configfile", "limited", variables={"FOO": "no"}),
}
HYDRA_AGENTS = {
    "no agent": Way(),
    "variable": Way(variables={"HYDRA_LAUNCHER_EXEC": "./agent"}),
    "-launcher-exec": Way("-launcher-exec", "./agent"),
}
NAMES = {
    "path": Way(variables={"LD_PRELOAD": str(SHIM)}),
    "bare name": Way(
        variables={"LD_PRELOAD": SHIM.name, "LD_LIBRARY_PATH": str(SHIM.parent)}
    ),
}


def prepare(directory, cluster):
    """The files that ways name, in the directory of the launch."""
    in_file = f"orte_launch_agent = {AGENT}\n"
    texts = {
        "print": PRINT, "agent": OWN_AGENT.format(agent=f"/run/scr-sim/{cluster.name}/agent"),
        "agent.conf": in_file, ".openmpi/mca-params.conf": in_file,
        "daemon": "#!/bin/sh\nAGENT=1 exec orted \"$@\"\n",
        "tune.conf": f"-mca orte_launch_agent {directory}/daemon\n",
        "limited": f"-genvnone -n 2 {directory}/print\n",
    }
    (directory / ".openmpi").mkdir(parents=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


def launch(cluster, mpi, directory, *ways):
    """Starts two ranks; returns what each has of the variables."""
    # What Open MPI keeps of a job, one job's end would take away from another's begin.
    variables = {
        "SCR_SEEN": "it's {seen}", "SCR_CONF_FILE": "my.conf", "OMPI_MCA_orte_tmpdir_base": HERE,
    }
    for way in ways:
        variables.update(way.variables)
    settings = [
        f"{name}={value.replace(HERE, str(directory))}" for name, value in variables.items()
    ]
    words = [word for way in ways for word in way.words]
    program = [] if "-configfile" in words else ["-n", "2", f"{directory}/print"]
    command = cluster.command(
        "exec", "--", "env", "-u", "FOO", *settings, f"mpirun.{mpi}", *words, *program
    )
    outcome = Run(command, directory, environment(mpi)).finish()
    lines = [line for line in outcome.out.splitlines() if line.startswith("LD_PRELOAD=")]
    assert outcome.status == 0 and "SCR:" not in outcome.err, f"{words} {outcome}"
    assert len(lines) == 2, f"{words} {outcome}"
    return [dict(item.split("=", 1) for item in line.split("|")) for line in lines]


def check(cluster, mpi, directory, *ways):
    preload = [str(SHIM), *(way.preload for way in ways if way.preload)]
    want = {
        **dict.fromkeys(SHOWN, ""), "LD_PRELOAD": ":".join(preload), "SCR_SEEN": "it's {seen}",
        "SCR_CONF_FILE": str(directory / "my.conf"),
    }
    for way in ways:
        want.update(way.seen)
    for seen in launch(cluster, mpi, directory, *ways):
        assert seen == want, f"{seen}\nis not\n{want}"


def check_all_of(cluster, mpi, directory, *named):
    """One launch in a directory of its own; `named` are pairs of a name and a Way."""
    prepare(directory, cluster)
    names = ", ".join(name for name, _ in named)
    try:
        check(cluster, mpi, directory, *(way for _, way in named))
    except AssertionError as error:
        raise AssertionError(f"{names}: {error}") from None
    agent = named[1][1]
    own = mpi == "mpich" and bool(agent.words or agent.variables)
    assert (directory / "mark").exists() == own, f"{names}: whose agent?"


@story
def the_literal_command_reaches_other_nodes(mpi):
    """Each option with each agent, by path and by bare name."""
    open_mpi = mpi == "openmpi"
    options = OPEN_MPI_OPTIONS if open_mpi else HYDRA_OPTIONS
    agents = OPEN_MPI_AGENTS if open_mpi else HYDRA_AGENTS
    ways = itertools.product(options.items(), agents.items(), NAMES.items())
    with Cluster(2) as cluster, Prefix() as directory:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            launches = [
                pool.submit(check_all_of, cluster, mpi, directory / str(number), *named)
                for number, named in enumerate(ways)
            ]
            for one in concurrent.futures.as_completed(launches):
                if one.exception():
                    pool.shutdown(cancel_futures=True)
                    raise one.exception()


@story
def the_bare_name_after_an_installation(mpi):
    """Where `make install` puts the parts, the loader and the shim find them, on every node."""
    with Cluster(2) as cluster, Prefix() as directory, Prefix() as destination:
        # All is built; the examples must not be built anew under others who run them.
        make = ["make", "-s", "--old-file=build", "install", f"DESTDIR={destination}"]
        subprocess.run(make, cwd=ROOT, check=True)
        install = f"mount --bind {destination}/usr/local/lib /usr/local/lib && ldconfig"
        own_etc = f"mount --bind /run/scr-sim/{cluster.name}/etc /etc && {install}"
        cluster.sim("exec", "--", "sh", "-c", own_etc)
        for node in cluster.up():
            cluster.on(node, "sh", "-c", install)
        config = f"{destination}/usr/local/share/scr/config/{POSIX.config().name}"
        settings = ["LD_PRELOAD=libscr_preload.so", f"SCR_CONF_FILE={config}", "SCR_DEBUG=1"]
        words = ["env", *settings, f"mpirun.{mpi}", "-n", "4", *POSIX.words(mpi, *LENGTH)]
        outcome = Run(cluster.command("exec", "--", *words), directory, environment(mpi)).finish()
        assert outcome.status == 0 and "sealed as dataset 2" in outcome.err, outcome
        cluster.sim("exec", "--", f"{destination}/usr/local/bin/scr", "--version")
