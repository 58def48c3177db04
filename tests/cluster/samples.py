"""The example programs as the tests use them."""

import dataclasses
import os

from cluster import ROOT

EXAMPLES = ROOT / "target" / "examples"
PYTHON_MPICH = ROOT / "target" / "python-mpich"


@dataclasses.dataclass(frozen=True)
class Sample:
    name: str
    newest: str  # the files of one checkpoint; {step} is its number
    python: bool = False
    told: bool = False  # has to be told its restart step
    toggles: bool = False  # two names in turn, no step in them

    def words(self, mpi, *arguments):
        """Command line below mpirun."""
        path = EXAMPLES / mpi / (self.name + (".py" if self.python else ""))
        return [*(["/usr/bin/python3"] if self.python else []), str(path), *map(str, arguments)]

    def process(self):
        """The name that ps shows."""
        return "python3" if self.python else self.name

    def config(self):
        return ROOT / "config" / f"{self.name}.conf"


SAMPLES = [
    Sample("heat_posix", "ckpt/step_{step}/*"),
    Sample("heat_stdio", "out/*/*.{step}"),
    Sample("heat_cpp", "state/{step}/*"),
    Sample("heat_f77", "?.*.rst", toggles=True),
    Sample("heat_f08", "dump_{step}.*", told=True),
    Sample("heat_rsmpi", "ckpt/step_{step}/*"),
    Sample("heat_numpy", "npy/{step}.*.npy", python=True),
    Sample("heat_h5py", "heat.{step}.h5", python=True),
]


def environment(mpi, **settings):
    """The caller's, without SCR's variables, with `settings`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_") or k == "SCR_DIST"}
    env.pop("LD_PRELOAD", None)
    if mpi == "mpich":
        env["PYTHONPATH"] = str(PYTHON_MPICH)  # Debian's mpi4py is for Open MPI
    env.update(settings)
    return env
