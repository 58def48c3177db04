"""Which libscr.so, and the calls with their arguments in the form of C.

Nothing is loaded at import: the program may set up mpi4py before.
"""

import ctypes
import functools
import os
import pathlib

MAX_FILENAME = 1024
SUCCESS = 0
VALUE_BYTES = 16384
FILE = "libscr.so"


class Error(Exception):
    """A call has failed; the text is the library's message."""


def _start_mpi():
    """SCR takes the MPI of the process, so there has to be one."""
    try:
        import mpi4py.MPI  # not at the top: this loads MPI, and starts it
    except ImportError as error:
        raise Error(
            f"no MPI is loaded, and mpi4py, which would load it, cannot be imported: {error}"
        ) from error
    del mpi4py


def _find():
    """The library: the one that the process has loaded already, as under the shim; the one that
    was installed with this module; the one that the loader knows."""
    _start_mpi()
    try:
        return ctypes.CDLL(FILE, mode=os.RTLD_NOLOAD)
    except OSError:
        pass
    places = [parent / FILE for parent in pathlib.Path(__file__).parents]
    file = next((place for place in places if place.exists()), FILE)
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        raise Error(
            f"no {FILE}: {error}; it belongs into the lib directory that this module is installed "
            "in, or where LD_LIBRARY_PATH looks"
        ) from error


@functools.lru_cache(maxsize=None)
def _library():
    library = _find()
    for name in ("SCR_Get_version", "SCR_Last_error"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


def _bytes(text):
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded


def call(name, *arguments):
    """Makes the call, and raises what it says if it fails."""
    library = _library()
    if getattr(library, name)(*arguments) != SUCCESS:
        raise Error(text("SCR_Last_error"))


def text(name):
    """What a call without arguments answers."""
    return os.fsdecode(getattr(_library(), name)())


def config(setting):
    """By the entry for Fortran, which tells an error from a value that is not there."""
    said = _bytes(setting)
    value, error = ctypes.create_string_buffer(VALUE_BYTES), ctypes.c_int(0)
    _library().scr_config_(said, value, ctypes.byref(error), len(said), VALUE_BYTES)
    if error.value != SUCCESS:
        raise Error(text("SCR_Last_error"))
    return os.fsdecode(value.raw.rstrip(b" ")) or None


def flag(name):
    answer = ctypes.c_int(0)
    call(name, ctypes.byref(answer))
    return answer.value != 0


def route(name):
    buffer = ctypes.create_string_buffer(MAX_FILENAME)
    call("SCR_Route_file", _bytes(name), buffer)
    return os.fsdecode(buffer.value)


def have_restart():
    answer, buffer = ctypes.c_int(0), ctypes.create_string_buffer(MAX_FILENAME)
    call("SCR_Have_restart", ctypes.byref(answer), buffer)
    return os.fsdecode(buffer.value) if answer.value else None


def start_restart():
    buffer = ctypes.create_string_buffer(MAX_FILENAME)
    call("SCR_Start_restart", buffer)
    return os.fsdecode(buffer.value)


def complete(name, valid):
    call(name, ctypes.c_int(1 if valid else 0))


def start_output(name, flags):
    call("SCR_Start_output", None if name is None else _bytes(name), ctypes.c_int(flags))


def named(call_name, name):
    call(call_name, _bytes(name))
