"""Requests and replies between a process and its Saxon: JSON and, apart from it, the bytes of a message or a result.

A frame is two lengths (unsigned 32-bit and signed 64-bit, big-endian), JSON, and bytes; the second length is -1 where
there are none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_LENGTHS: Final = struct.Struct(">Iq")


def prolog(query: str) -> str:
    """What goes before a query, in a line of its own: the names of the message, if it mentions them."""
    has_its_own = query.lstrip().startswith(("declare", "xquery", "(:"))
    if has_its_own or not ("$doc" in query or "$msg" in query):
        return ""
    return "declare variable $doc := /; declare variable $msg := /;\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A query, and a message to evaluate it on; without one, the query is compiled only."""

    query: str
    namespaces: Mapping[str, str]
    message: bytes | None

    def frame(self) -> bytes:
        """It as bytes."""
        return _frame({"query": self.query, "namespaces": dict(self.namespaces)}, self.message)

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> Request:
        """The next request of a stream. ``read`` gives as many bytes as asked for, or raises ``EOFError``."""
        reported, message = _read(read)
        return cls(reported["query"], reported["namespaces"], message)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of it."""

    result: bytes | None = None
    """The items one after the other, as XML; ``None`` where there is none."""

    error: str | None = None

    def frame(self) -> bytes:
        """It as bytes."""
        return _frame({"error": self.error}, self.result)

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> Reply:
        """The next reply of a stream; see :meth:`Request.read`."""
        reported, result = _read(read)
        return cls(result, reported["error"])


def _frame(reported: dict[str, object], data: bytes | None) -> bytes:
    head = json.dumps(reported).encode()
    return _LENGTHS.pack(len(head), -1 if data is None else len(data)) + head + (data or b"")


def _read(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes | None]:
    head_bytes, data_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    reported = json.loads(read(head_bytes))
    return reported, None if data_bytes < 0 else read(data_bytes)
