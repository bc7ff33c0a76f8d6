"""Requests to the Saxon process and its replies: JSON, and behind it the bytes of a message or a result.

A frame is two lengths (unsigned 32-bit and signed 64-bit, big-endian), JSON, and bytes. The second length is -1 if
there are no bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_LENGTHS: Final = struct.Struct(">Iq")


def prolog(query: str) -> str:
    """Returns a line to put before a query: it declares the variables of the message, if the query uses them."""
    has_its_own = query.lstrip().startswith(("declare", "xquery", "(:"))
    if has_its_own or not ("$doc" in query or "$msg" in query):
        return ""
    return "declare variable $doc := /; declare variable $msg := /;\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A query, and a message to evaluate it on; without a message, the query is only compiled."""

    query: str
    namespaces: Mapping[str, str]
    message: bytes | None

    def frame(self) -> bytes:
        """Returns the request as bytes."""
        return _frame({"query": self.query, "namespaces": dict(self.namespaces)}, self.message)

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> Request:
        """Reads the next request of a stream. ``read`` returns as many bytes as asked for, or raises ``EOFError``."""
        reported, message = _read(read)
        return cls(reported["query"], reported["namespaces"], message)


@dataclass(frozen=True, slots=True)
class Reply:
    """A result, or an error, or neither if the query yields nothing."""

    result: bytes | None = None
    """The items one after the other, as XML; ``None`` if there are none."""

    error: str | None = None

    def frame(self) -> bytes:
        """Returns the reply as bytes."""
        return _frame({"error": self.error}, self.result)

    @classmethod
    def read(cls, read: Callable[[int], bytes]) -> Reply:
        """Reads the next reply of a stream; see :meth:`Request.read`."""
        reported, result = _read(read)
        return cls(result, reported["error"])


def _frame(reported: dict[str, object], data: bytes | None) -> bytes:
    head = json.dumps(reported).encode()
    return _LENGTHS.pack(len(head), -1 if data is None else len(data)) + head + (data or b"")


def _read(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes | None]:
    head_bytes, data_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    reported = json.loads(read(head_bytes))
    return reported, None if data_bytes < 0 else read(data_bytes)
