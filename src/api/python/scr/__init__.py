"""Checkpoints, restarts and output through SCR, for MPI programs with mpi4py.

    import scr

    scr.init()
    while name := scr.have_restart():
        try:
            with scr.restart() as dataset:
                state = load(dataset.route(f"rank_{rank}"))
            break
        except (OSError, scr.Error):
            continue  # on all ranks: the next older one is offered
    for step in ...:
        if scr.need_checkpoint():
            with scr.checkpoint() as dataset:
                save(dataset.route(f"ckpt/{step}/rank_{rank}"), state)
        if scr.should_exit():
            break
    scr.finalize()

All ranks call these functions together, but for `route_file`, `config`, `get_version` and
`last_error`. A call that fails raises `Error` with the message of the library. docs/api.md and the
manual pages (section 3scr) say what the calls do.
"""

import os

from . import _library
from ._library import Error

__all__ = [
    "FLAG_CHECKPOINT", "FLAG_NONE", "FLAG_OUTPUT", "MAX_FILENAME", "Dataset", "Error",
    "checkpoint", "complete_checkpoint", "complete_output", "complete_restart", "config", "current",
    "delete", "drop", "finalize", "get_version", "have_restart", "init", "last_error",
    "need_checkpoint", "output", "restart", "route_file", "should_exit", "start_checkpoint",
    "start_output", "start_restart",
]

MAX_FILENAME = _library.MAX_FILENAME
FLAG_NONE = 0
FLAG_CHECKPOINT = 1
FLAG_OUTPUT = 2


def init():
    """After MPI_Init, once."""
    _library.call("SCR_Init")


def finalize():
    """Before MPI_Finalize, once. mpi4py makes that call when the interpreter exits."""
    _library.call("SCR_Finalize")


def config(setting):
    """Before `init`: "KEY=VALUE" sets, "KEY=" unsets. "KEY": its value, or None; at any time."""
    return _library.config(setting)


def get_version():
    """The version of the library."""
    return _library.text("SCR_Get_version")


def last_error():
    """Why the last call that failed on this rank did."""
    return _library.text("SCR_Last_error")


def should_exit():
    """Whether the program is to stop."""
    return _library.flag("SCR_Should_exit")


def need_checkpoint():
    """Whether a checkpoint is due."""
    return _library.flag("SCR_Need_checkpoint")


def route_file(name):
    """The path at which to write or read the file that is finally called `name`. Of this rank
    alone."""
    return _library.route(name)


def have_restart():
    """The name of the checkpoint that can be read, or None."""
    return _library.have_restart()


def start_restart():
    """Begins to read the checkpoint that was offered; its name."""
    return _library.start_restart()


def complete_restart(valid=True):
    """The checkpoint has been read, on this rank without an error or not. If one rank could not,
    this raises `Error` on all, and the next older checkpoint is offered."""
    _library.complete("SCR_Complete_restart", valid)


def start_checkpoint():
    """Begins a checkpoint."""
    _library.call("SCR_Start_checkpoint")


def complete_checkpoint(valid=True):
    """The checkpoint is written, on this rank without an error or not. If one rank could not, this
    raises `Error` on all, and there is no checkpoint."""
    _library.complete("SCR_Complete_checkpoint", valid)


def start_output(name=None, flags=FLAG_OUTPUT):
    """Begins a dataset. Without a name it gets one; the same arguments on all ranks."""
    _library.start_output(name, flags)


def complete_output(valid=True):
    """As `complete_checkpoint`."""
    _library.complete("SCR_Complete_output", valid)


def current(name):
    """The program has begun with this checkpoint by itself, or is about to."""
    _library.named("SCR_Current", name)


def drop(name):
    """The dataset leaves the index and the cache."""
    _library.named("SCR_Drop", name)


def delete(name):
    """The same, and its files are deleted."""
    _library.named("SCR_Delete", name)


class Dataset:
    """What is between a start and its complete call: `with` makes both. An exception inside is a
    vote that the dataset is not valid, and goes on to the program; `valid = False` is the same vote
    without one. On the ranks without an exception the end of `with` raises `Error` then."""

    def __init__(self, start, complete):
        self._start, self._complete = start, complete
        self.name = None
        self.valid = True

    def __enter__(self):
        self.name = self._start()
        return self

    def route(self, name):
        """The path at which to write or read the file `name`, as a string."""
        return route_file(os.fspath(name))

    def __exit__(self, kind, error, trace):
        if kind is None:
            self._complete(self.valid)
            return
        try:
            self._complete(False)
        except Error:
            pass  # that it is not valid: the exception under way says why


def checkpoint():
    """`with scr.checkpoint() as dataset:` writes a checkpoint."""
    return Dataset(start_checkpoint, complete_checkpoint)


def output(name=None, flags=FLAG_OUTPUT):
    """`with scr.output("plot.7") as dataset:` writes a dataset that is to reach the prefix."""

    def start():
        start_output(name, flags)
        return name

    return Dataset(start, complete_output)


def restart():
    """`with scr.restart() as dataset:` reads the checkpoint that `have_restart` has offered."""
    return Dataset(start_restart, complete_restart)
