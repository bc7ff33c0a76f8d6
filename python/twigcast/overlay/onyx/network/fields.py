"""Fields that name disjuncts, and those of several kinds of frames.

A routing delta names thousands of disjuncts made of few paths: it holds each path, scope and set of roots once, and the
disjuncts as numbers of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, LinearPath, Root
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.primitives import FrameReader, put_number, put_text

NAME_MAX: Final = 4 << 10
"""Bytes of a name: of a scope, a source, a message, a type."""
PATH_BYTES_MAX: Final = 1 << 20
"""Bytes of a linear path."""
PATHS_MAX: Final = 1 << 20
"""Different paths in one frame."""
DISJUNCTS_MAX: Final = 1 << 20
"""Disjuncts in one frame."""
CONJUNCTS_MAX: Final = 1 << 12
"""Paths of one disjunct."""
NAMESPACES_MAX: Final = 1 << 10
"""Namespaces of one path."""
BROKERS_MAX: Final = 1 << 14
"""Brokers in one list."""


def put_numbers(out: bytearray, numbers: Iterable[int], count: int) -> None:
    """Append numbers, of which there are so many."""
    put_number(out, count)
    for number in numbers:
        put_number(out, number)


def read_numbers(reader: FrameReader) -> tuple[int, ...]:
    """Numbers, as of brokers."""
    return tuple(reader.several(reader.number, BROKERS_MAX))


def read_flag(reader: FrameReader) -> bool:
    """Yes or no.

    Raises:
        FrameError: It is neither.
    """
    value = reader.number()
    if value > 1:
        raise FrameError(f"{value} is neither yes nor no")
    return bool(value)


def put_roots(out: bytearray, roots: frozenset[Root] | str) -> None:
    """Append a set of roots, or all of them."""
    if isinstance(roots, str):
        if roots != EVERYWHERE:
            raise ValueError(f"{roots!r} is no set of roots")
        out.append(1)
        return
    out.append(0)
    put_numbers(out, sorted(roots), len(roots))


def read_roots(reader: FrameReader) -> frozenset[Root] | str:
    """A set of roots, or all of them."""
    return EVERYWHERE if read_flag(reader) else frozenset(read_numbers(reader))


class DisjunctWriter:
    """Writes disjuncts by the numbers of their parts."""

    def __init__(self, disjuncts: Iterable[Disjunct]) -> None:
        self._scopes: dict[str, int] = {}
        self._paths: dict[LinearPath, int] = {}
        for disjunct in disjuncts:
            self._scopes.setdefault(disjunct.scope, len(self._scopes))
            for path in disjunct.paths:
                self._paths.setdefault(path, len(self._paths))

    def put_parts(self, out: bytearray) -> None:
        """Append the scopes and paths, before the first disjunct."""
        put_number(out, len(self._scopes))
        for scope in self._scopes:
            put_text(out, scope)
        put_number(out, len(self._paths))
        for path in self._paths:
            put_text(out, path.text)
            put_number(out, len(path.namespaces))
            for prefix, uri in path.namespaces:
                put_text(out, prefix)
                put_text(out, uri)

    def submit(self, out: bytearray, disjunct: Disjunct) -> None:
        """Append a disjunct."""
        put_number(out, self._scopes[disjunct.scope])
        numbers = sorted(map(self._paths.__getitem__, disjunct.paths))
        put_numbers(out, numbers, len(numbers))


class DisjunctReader:
    """Reads what `DisjunctWriter` has written."""

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader
        self._scopes = reader.several(lambda: reader.text(NAME_MAX), DISJUNCTS_MAX)
        self._paths = reader.several(self._path, PATHS_MAX)

    def _path(self) -> LinearPath:
        reader = self._reader
        text = reader.text(PATH_BYTES_MAX)
        return LinearPath(text, tuple(reader.several(self._namespace, NAMESPACES_MAX)))

    def _namespace(self) -> tuple[str, str]:
        return self._reader.text(NAME_MAX), self._reader.text(PATH_BYTES_MAX)

    def disjunct(self) -> Disjunct:
        """One of them."""
        reader, paths = self._reader, self._paths
        scope = reader.choice(self._scopes)
        return Disjunct(scope, frozenset(reader.choice(paths) for _ in range(reader.count(CONJUNCTS_MAX))))

    def several(self, most: int = DISJUNCTS_MAX) -> list[Disjunct]:
        """As many as are announced."""
        return [self.disjunct() for _ in range(self._reader.count(most, least_bytes=2))]
