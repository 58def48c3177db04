"""A launch whose files no pattern matches, or that has no pattern, is told so in one line; names
and variables may hold any bytes."""

import os

from bad_input import bad, check_message
from support import assert_same, data_files, place, same

CASES = []


def case(function):
    CASES.append(function)
    return function


def told(mpi, program, words, *names, ranks=2, manner="plain", **settings):
    """The program writes these names: exactly one message, with these words, and no difference."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(ranks, "names", manner, *names, shim=False)
        got = here.run(ranks, "names", manner, *names, **settings)
        assert_same(want, got)
        assert data_files(plain.tree(".")) == data_files(here.tree(".")), f"files differ: {got}"
        check_message(got, words)
        return got


@case
def no_pattern_and_a_misspelt_variable(mpi, program):
    """Also without any config file: which variable, what was meant, where the file was sought."""
    with place(mpi, program) as here:
        got = here.run(2, "steady", 20, 5, SCR_CHECKPOINT_PATTERN=None,
                       SCR_CHECKPOINT_PATERN="ckpt/*")
        check_message(got, ["no pattern is set", "did you mean SCR_CHECKPOINT_PATTERN?",
                            f"there is no config file {here.prefix}/.scrconf", "SCR_CONF_FILE"])
        elsewhere = here.base / "elsewhere.conf"
        elsewhere.write_text("SCR_FLUSH=1\n")
        named = here.run(2, "steady", 20, 5, SCR_CHECKPOINT_PATTERN=None,
                         SCR_CONF_FILE=str(elsewhere))
        check_message(named, ["no pattern is set", f"the config file is {elsewhere}"])
        off = here.run(2, "steady", 20, 5, SCR_CHECKPOINT_PATTERN=None, SCR_ENABLE="0")
        assert off.status == 0 and not off.err, f"not silent: {off}"


@case
def the_name_that_came_nearest_is_told(mpi, program):
    """Whichever rank wrote it, and whatever else was written before."""
    for pattern, words in (
        ("ckpt/step_{id}/*.dat", ["pattern ckpt/step_{id}/*.dat has a directory step_{id} there"]),
        ("ckpt/step_%d_%d.dat", ["pattern ckpt/step_%d_%d.dat has %d", "write {id}"]),
        ("step_{id}_*.dat", ["**/step_{id}_*.dat would match"]),
        ("re:ckpt/step_(?<id>[0-9]+)/.*", ["no file that the program wrote", "expression"]),
    ):
        told(mpi, program, [*words, "ckpt/step_5_", "SCR_CHECKPOINT_PATTERN=" + pattern],
             "log.txt", "out/fields_@.vtk", "ckpt/step_@_&.dat", SCR_CHECKPOINT_PATTERN=pattern)
    with place(mpi, program) as here:
        config = here.prefix / ".scrconf"
        config.write_text("SCR_CHECKPOINT_PATTERN=save/{id}\n")
        got = here.run(2, "names", "plain", "ckpt/@", SCR_CHECKPOINT_PATTERN=None)
        check_message(got, ["ckpt/", f"({config}:1)", f"the config file is {config}"])


@case
def names_that_were_asked_for_before_they_are_written(mpi, program):
    told(mpi, program, ["ckpt/step_5.dat was written"], "ckpt/step_@.dat", manner="looks",
         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*")


@case
def nothing_is_said_where_something_matches(mpi, program):
    """One rank's files do, or what a file or a directory is renamed to."""
    for manner, names in (("plain", ["log_&", "ckpt_@/only"]), ("renames", ["ckpt_@/only"]),
                          ("moves", ["ckpt_@/rank_&"]), ("looks", ["ckpt_@/rank_&"])):
        for learn in "01":
            got = same(mpi, program, 2, "names", manner, *names, SCR_LEARN=learn,
                       SCR_CHECKPOINT_PATTERN="ckpt_{id}/*")
            assert not got.err.strip(), f"{manner}: not silent: {got}"


@case
def one_pattern_of_several_has_a_placeholder(mpi, program):
    told(mpi, program, ["pattern ckpt/step_%d has %d", "write {id}"], "ckpt/latest",
         SCR_CHECKPOINT_PATTERN="ckpt/step_%d, ckpt/latest")


@case
def the_program_wrote_nothing_below_the_prefix(mpi, program):
    with place(mpi, program) as here:
        top = here.base / "top"
        top.mkdir()
        got = here.run(2, "steady", 20, 5, SCR_PREFIX=str(top))
        check_message(got, [f"the program wrote no file below {top} (SCR_PREFIX)"])


@case
def names_with_control_characters(mpi, program):
    """They end no line and command no terminal."""
    told(mpi, program, ["ckpt/a\\n\\u{1b}[31m_5 was written"], "ckpt/a\n\x1b[31m_@",
         SCR_CHECKPOINT_PATTERN="ckpt/b_{id}")


@case
def names_that_are_not_text(mpi, program):
    """They go to the prefix, which is told once if a pattern matches."""
    got = told(mpi, program, ["matches a pattern", "not UTF-8 text", "caf\\xE9"],
               "ckpt/step_@/caf\udce9_&", "ckpt/step_@/a_&", ranks=1,
               SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*", SCR_FLUSH="1")
    assert got.line("written"), f"{got}"
    told(mpi, program, ["ckpt/step_5/a_0 was written"], "other\udce9", "ckpt/step_@/a_&",
         SCR_CHECKPOINT_PATTERN="save/{id}/*")


@case
def variables_that_are_not_text(mpi, program):
    """One of the program's is none of our business; SCR_DEBUG takes a yes."""
    got = same(mpi, program, 2, "steady", 20, 5, TITLE="caf\udce9", SCR_DEBUG="yes")
    assert "4 sealed" in got.err, f"nothing was sealed: {got}"


@bad(["SCR_USER_NAME", "caf\\xE9", "not UTF-8"], SCR_USER_NAME="caf\udce9")
def variable_of_ours_that_is_not_text(here):
    del here


@bad(["not UTF-8 text", "caf\\xE9"])
def prefix_whose_name_is_not_text(here):
    real = os.fsencode(here.base) + b"/caf\xe9"
    os.mkdir(real)
    os.symlink(real, here.base / "link")
    return {"SCR_PREFIX": str(here.base / "link")}


@bad([".scrconf", "anyone may write to it (mode 666)", "SCR_CONF_FILE"])
def config_that_anyone_may_write_to(here):
    config = here.prefix / ".scrconf"
    config.write_text("SCR_FLUSH=1\n")
    config.chmod(0o666)


if os.geteuid() == 0:
    @bad([".scrconf", "it belongs to ", "neither to you nor to root", "SCR_CONF_FILE"])
    def config_of_another_user(here):
        config = here.prefix / ".scrconf"
        config.write_text("SCR_FLUSH=1\n")
        os.chown(config, 12345, 12345)


@bad(["SCR_DEBUG=loud is wrong", "a level from 0, or yes or no"], SCR_DEBUG="loud")
def level_that_is_none(here):
    del here
