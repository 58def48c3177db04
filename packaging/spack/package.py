# Copied into a Spack repository as packages/scr/package.py. The sources are a tree of your own:
# spack develop -p /path/of/it scr@0.1.0, in an environment of Spack's, then spack install.
try:
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:  # before Spack 1.0 it is in spack.package
    pass
from spack.package import *


class Scr(MakefilePackage):
    """Checkpoints of MPI programs that survive lost nodes, without a change to the program."""

    homepage = "https://scr.example.org"

    license("MIT OR Apache-2.0")

    version("0.1.0")

    variant("fortran", default=True, description="The module file of scr.f90")

    depends_on("c", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("gmake", type="build")
    depends_on("rust@1.89:", type="build")
    depends_on("python@3.8:", type="build")

    # It links no MPI: one installation serves programs of every MPI.

    @property
    def build_targets(self):
        return ["product", "sim-library", "interfaces", *self._settings()]

    @property
    def install_targets(self):
        python = f"PYTHON_DIR={self.prefix.lib.python}"
        return ["--old-file=build", "install", f"PREFIX={self.prefix}", python, *self._settings()]

    def _settings(self):
        fortran = "gfortran" if self.spec.satisfies("+fortran") else "no-fortran"
        return [f"PYTHON={self.spec['python'].command.path}", f"FORTRAN={fortran}"]

    def setup_run_environment(self, env):
        env.set("SCR_ROOT", self.prefix)
        env.prepend_path("PYTHONPATH", self.prefix.lib.python)
        # LD_PRELOAD=libscr_preload.so finds it.
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
