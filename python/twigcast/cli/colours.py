"""Colours on terminals: never in files or pipes, and not if ``NO_COLOR`` is set."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Final

_RESET: Final = "\x1b[0m"
_CODES: Final = {"red": "\x1b[31m", "green": "\x1b[32m", "yellow": "\x1b[33m", "bold": "\x1b[1m", "dim": "\x1b[2m"}

_EXPLAINED: Final = re.compile(r"(\s*)([+-]) (.*)")
"""A line of an explanation that says whether a part of the query holds."""


def has_colours(stream: IO[str] | None = None) -> bool:
    """Returns whether a stream shows colours: by default, standard output.

    It does if it is a terminal that is not ``dumb`` and ``NO_COLOR`` is empty (https://no-color.org), or if
    ``FORCE_COLOR`` is not.
    """
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = sys.stdout if stream is None else stream
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def painted(text: str, colour: str, stream: IO[str] | None = None) -> str:
    """Returns a text in a colour, if the stream shows it.

    Args:
        text: The text, of one line.
        colour: ``red``, ``green``, ``yellow``, ``bold`` or ``dim``; empty for none.
        stream: Where it will be written; by default, standard output.
    """
    return f"{_CODES[colour]}{text}{_RESET}" if text and colour and has_colours(stream) else text


def painted_explanation(text: str, *, matches: bool) -> str:
    """Returns an explanation with its head and the marks of its lines in colours.

    Args:
        text: The explanation. Its first line names the message and the query.
        matches: Whether the message matches.
    """
    if not has_colours():
        return text
    head, *rest = text.split("\n")
    return "\n".join([painted(head, "green" if matches else "red"), *map(_painted_line, rest)])


def painted_table(text: str, colours: dict[str, str]) -> str:
    """Returns a table with some of its rows in colours, by the name that they begin with."""
    return "\n".join(painted(line, colours.get(line.split()[0], "")) for line in text.split("\n"))


def _painted_line(line: str) -> str:
    marked = _EXPLAINED.fullmatch(line)
    if marked is not None:
        space, mark, text = marked.groups()
        return f"{space}{painted(mark, 'green' if mark == '+' else 'red')} {text}"
    return painted(line, "yellow") if line.lstrip().startswith("nearest:") else line
