#!/usr/bin/env python3
"""Makes the manual pages (section 3scr) of the functions from the sections of docs/api.md.

usage: manual.py docs/api.md DIRECTORY
"""

import pathlib
import re
import sys


def sections(text):
    """(name of the function, its lines) of each section about one."""
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title.strip(), re.split(r"^## ", body, flags=re.MULTILINE)[0].strip()


def escaped(text):
    """For roff: nothing in it is a request or an escape; `code` and *names* are bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def page(name, body):
    """The page of one function."""
    parts = body.split("\n\n")
    summary, synopsis, rest = parts[0], parts[1], parts[2:]
    out = [f'.TH {name} 3scr "" "SCR" "Scalable Checkpoint/Restart"', ".SH NAME",
           f"{name} \\- {escaped(summary)}", ".SH SYNOPSIS", ".nf", "#include <scr.h>", ""]
    languages = [line.strip() for line in synopsis.splitlines()]
    out += [f".B {escaped(line)}" for line in languages if line.endswith(";")]
    for title, begin in (("Fortran", "SCR_"), ("Python", "scr."), ("Rust", "scr::")):
        calls = [line for line in languages if line.startswith(begin) and not line.endswith(";")]
        out += ["", f"{title}:"] * bool(calls) + [f".B {escaped(call)}" for call in calls]
    out += [".fi", ".SH DESCRIPTION"]
    for paragraph in rest:
        heading = re.match(r"\*\*(\w+)\.\*\* ", paragraph)
        if heading:
            out.append(f".SH {heading.group(1).upper()}")
            paragraph = paragraph[heading.end():]
        else:
            out.append(".PP")
        out.append(escaped(paragraph))
    return "\n".join([*out, ".SH SEE ALSO", "docs/api.md, scr(1)", ""])


def main(source, directory):
    place = pathlib.Path(directory) / "man3"
    place.mkdir(parents=True, exist_ok=True)
    for name, body in sections(pathlib.Path(source).read_text(encoding="utf-8")):
        (place / f"{name}.3scr").write_text(page(name, body), encoding="utf-8")
        if "SCR_Configf(" in body:
            (place / "SCR_Configf.3scr").write_text(f".so man3/{name}.3scr\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
