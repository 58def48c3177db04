#!/usr/bin/python3
"""The same as fixed.f in Python."""

import sys

from mpi4py import MPI

import scr

RANK = MPI.COMM_WORLD.rank


def say(*words):
    sys.stdout.write(" ".join(map(str, (RANK, *words))) + "\n")


def code_of(call, *arguments):
    """What the same call returns in C."""
    try:
        call(*arguments)
    except scr.Error:
        return 1
    return 0


def write_dataset(name, flags, valid=True):
    try:
        with scr.output(name, flags) as dataset:
            with open(dataset.route(f"data/{name}/rank_{RANK}"), "w", encoding="ascii") as file:
                file.write(f"{name} of {RANK}\n")
            if not valid:
                raise ValueError("the program's own error comes through")
    except ValueError:
        say(name, 1)
    except scr.Error as error:
        assert str(error).startswith("SCR_Complete_output: "), error
        say(name, 1)
    else:
        say(name, 0)


say("init", code_of(scr.init))
name = scr.have_restart()
say("have", name or "none")
if name:
    with scr.restart() as dataset:
        say("reads", dataset.name)
        with open(dataset.route(f"rank_{RANK}"), encoding="ascii") as file:
            say("found", file.read().strip())
    say("restart", 0)
else:
    write_dataset("one", scr.FLAG_CHECKPOINT)
    write_dataset("plot", scr.FLAG_OUTPUT)
    write_dataset("two", scr.FLAG_CHECKPOINT | scr.FLAG_OUTPUT, RANK != 1)
say("end", code_of(scr.finalize))
